"""Reading ahead: prechecks before their turn, many at once, so that a run that changes nothing takes few round trips.

It may only skip work: a satisfied verdict is used if nothing it read was written since; anything else is read again.
"""

from __future__ import annotations

import asyncio

from kubexm.engine.asked import Attempts, Report
from kubexm.engine.layout import Unit
from kubexm.engine.prior import Prior
from kubexm.engine.state import Phase, RunState
from kubexm.engine.values import ValueBook
from kubexm.runtime import Context
from kubexm.step import NOTHING, Check, Resources, clash

__all__ = ["ReadAhead"]

_FIRST = 24
_MOST = 200


class ReadAhead:
    """One reader for each host, in the graph's order, as long as reading ahead pays."""

    def __init__(self, ctx: Context, state: RunState, values: ValueBook, attempts: Attempts) -> None:
        self._ctx = ctx
        self._state = state
        self._values = values
        self._attempts = attempts
        self._checks: dict[Unit, Check] = {}
        self._warnings: dict[Unit, tuple[str, ...]] = {}
        self._reading: dict[Unit, asyncio.Task[None]] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._prior: Prior | None = None

    def start(self, prior: Prior | None) -> None:
        """Begins to read, on all hosts at once."""
        self._prior = prior
        if not any(self._state.layout.reads):
            return
        layout = self._state.layout
        places: dict[str, list[Unit]] = {}
        for unit in layout.each_unit():
            places.setdefault(layout.hosts[self._state.place[unit]], []).append(unit)
        for host, units in places.items():
            if host in self._ctx.host_runtimes:
                self._readers.add(asyncio.create_task(self._read_host(units)))

    async def stop(self) -> None:
        """Ends what is still being read."""
        for task in (*self._readers, *self._reading.values()):
            task.cancel()
        await asyncio.gather(*self._readers, *self._reading.values(), return_exceptions=True)

    def has_read(self, unit: Unit) -> bool:
        """True if the unit was read ahead, or is being read."""
        return unit in self._checks or unit in self._reading

    async def verdict(self, unit: Unit) -> Report | None:
        """A report of a satisfied verdict that still holds, with what the step told the user then; or None."""
        reading = self._reading.get(unit)
        if reading is not None and not reading.done():
            await asyncio.wait([reading])
        if not self._state.satisfied_ahead(unit):
            return None
        check = self._checks[unit]
        return Report(check=check, done=True, values=check.values, warnings=self._warnings.get(unit, ()))

    async def _read_host(self, units: list[Unit]) -> None:
        pending: Resources = NOTHING
        window = _FIRST
        position = 0
        while position < len(units):
            batch: list[Unit] = []
            while position < len(units) and len(batch) < window:
                unit = units[position]
                position += 1
                if self._worth_reading(unit, pending):
                    batch.append(unit)
            if not batch:
                continue
            for unit in batch:
                self._reading[unit] = asyncio.create_task(self._read(unit))
            await asyncio.wait([self._reading[unit] for unit in batch])
            layout = self._state.layout
            good = [unit for unit in batch if unit in self._checks]
            for unit in batch:
                self._reading.pop(unit, None)
                if unit not in self._checks:
                    pending |= layout.writes[layout.unit_node[unit]]
            if 2 * len(good) < len(batch):
                return  # most is yet to be done here: reading ahead does not pay
            window = min(window * 4, _MOST)

    def _worth_reading(self, unit: Unit, pending: Resources) -> bool:
        layout = self._state.layout
        index = layout.unit_node[unit]
        node = layout.nodes[index]
        if not layout.reads[index] or node.excluded or node.on_demand or self._state.phase(unit) >= Phase.ACTIVE:
            return False
        name = (node.id, layout.hosts[layout.unit_host[unit]])
        if self._prior is not None and name in self._prior.under_way:
            return False
        cache = self._ctx.caches.step(node.id)
        if any((key, name[1]) not in cache for key in (*node.step.consumes(), *node.step.gathers())):
            return False
        return not (pending and clash(layout.reads[index], pending))

    async def _read(self, unit: Unit) -> None:
        layout = self._state.layout
        node, host, place = layout.node_of(unit), layout.host_of(unit), self._state.place[unit]
        since = self._state.claims.clock
        report = await self._attempts.look(self._values.asked(node, host, layout.hosts[place]))
        if report.fault is not None or report.interrupted:
            return  # whatever it is, it is met again and told when the unit's turn comes
        await self._values.take_in(node, report)
        check = report.check
        if check is not None and check.satisfied and self._state.place[unit] == place:
            self._checks[unit] = check
            if report.warnings:
                self._warnings[unit] = report.warnings
            self._state.read_ahead(unit, since)
