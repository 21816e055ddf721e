"""Measures what a run costs the users of its cluster: starts probes beside a graph, ends them after it.

The light part (`api`) begins with the first change of the run, so that a run that changes nothing pays nothing.
Everything (`full`) begins before the graph does. A measurement never fails a run: what went wrong with it is part of
the cost it reports.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from kubexm.assets import Bundle
from kubexm.assets.cache import default_cache
from kubexm.assets.disk import replacing
from kubexm.components.probes.api import KubectlApi
from kubexm.components.probes.program import PROGRAM, built_program, program_entry
from kubexm.components.probes.records import Cost
from kubexm.components.probes.session import API, FULL, ProbeSession
from kubexm.components.probes.site import control_planes_at_hand, is_running, site_of
from kubexm.components.probes.step import Watched
from kubexm.errors import KubexmError
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph
from kubexm.runtime import CONTROL_NODE, Context

__all__ = ["NONE", "OnCost", "Probing"]

NONE: Final = "none"
OnCost = Callable[[Cost], None]
_SELDOM, _OFTEN = 5.0, 1.0
"""Seconds between looks at what was measured: to keep agents going, and for somebody who watches."""
_ENDS_WITHIN = 120.0


class Probing:
    """One run's measurement; an observer, since it begins and goes on with what happens."""

    def __init__(self, ctx: Context, graph: ExecutionGraph, level: str, on_cost: OnCost | None = None) -> None:
        self._ctx = ctx
        self._graph = graph
        self._level = level
        self._on_cost = on_cost
        self._session: ProbeSession | None = None
        self._work: asyncio.Task[None] | None = None
        self._phases: list[tuple[str, float]] = []
        only = any(isinstance(node.step, Watched) for node in graph.nodes.values())
        self._first = level != NONE and (level == FULL or only)
        """It begins before the graph does: also where measuring is all there is to do."""
        self._failure: Cost | None = None
        self.cost: Cost | None = None
        """What was measured, once the measurement is over; None if there was none."""

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Within, the cluster is measured."""
        if self._first:
            await self._begin()
        try:
            yield
        finally:
            await self._end()

    def on_event(self, event: Event) -> None:
        """Begins with the first change, and follows phases."""
        if event.kind is not EventKind.UNIT_RUNNING:
            return
        step = self._graph.nodes[event.node].step
        if isinstance(step, Watched):
            self._phases.append((step.phase, step.seconds if step.busy else 0.0))
        elif event.host == CONTROL_NODE or self._level != API or self._first or self._work is not None:
            return
        elif step.writes() and is_running(self._ctx):
            self._work = asyncio.get_running_loop().create_task(self._begin())

    async def _begin(self) -> None:
        started = time.time()
        try:
            site = await site_of(self._ctx, lambda arch: _program(self._ctx, arch, build=self._first))
            api = KubectlApi(control_planes_at_hand(self._ctx))
            session = ProbeSession(site, api, level=self._level, logger=self._ctx.logger)
            try:
                await session.start()
            except BaseException:
                await asyncio.shield(_quietly(session.stop()))
                raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no reason to fail the run
            self._failure = self._failed(started, error)
            return
        self._session = session
        follow = self._follow(session)
        if self._first:
            self._work = asyncio.get_running_loop().create_task(follow)
        else:
            await follow

    async def _follow(self, session: ProbeSession) -> None:
        """Reads what was measured again and again, until it is cancelled."""
        while True:
            try:
                while self._phases:
                    phase, busy = self._phases.pop(0)
                    await session.phase(phase, busy=busy)
                cost = await session.poll()
            except KubexmError as error:  # a host is away for a moment: agents record on their own
                self._ctx.logger.info("the probes could not be read: %s", error.message)
            else:
                if self._on_cost is not None:
                    self._on_cost(cost)
            wait = _OFTEN if self._on_cost is not None else _SELDOM
            for _ in range(round(wait / 0.1)):
                if self._phases:
                    break
                await asyncio.sleep(0.1)

    async def _end(self) -> None:
        """Ends the measurement, if one was begun, and keeps its cost."""
        if self._work is not None:
            if self._session is None:  # it is still being set up: the run was shorter than that
                await asyncio.wait({self._work}, timeout=_SELDOM)
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._session is None:
            self.cost = self._failure
            return
        try:
            self.cost = await asyncio.wait_for(self._session.stop(), _ENDS_WITHIN)
        except Exception as error:  # noqa: BLE001 - the same
            self.cost = self._failed(time.time(), error)

    def _failed(self, started: float, error: Exception) -> Cost:
        if isinstance(error, KubexmError):
            reason = error.message.splitlines()[0]
        elif isinstance(error, TimeoutError):
            reason = f"the probes did not end within {_ENDS_WITHIN:g} s"
        else:
            self._ctx.logger.error("the probes failed", exc_info=error)
            reason = f"internal error: {type(error).__name__}: {error}"
        return Cost(id="", level=self._level, started=started, ended=time.time(), problems=(reason,))


async def _quietly(work: Coroutine[Any, Any, object]) -> None:
    await asyncio.gather(work, return_exceptions=True)


def _program(ctx: Context, arch: str, *, build: bool) -> Path:
    """The program for an architecture: out of a bundle at hand, or built here."""
    from kubexm.runtime.stock import Stock  # brings an HTTP client along, which most commands do not need

    found = _out_of([ctx.assets.bundle(each) for each in ctx.assets.arches], arch)
    if found is None and not ctx.assets.arches:
        shelf = Stock(ctx.cluster, ctx.base_dir, redactor=ctx.redactor).at_hand([arch])
        try:
            found = _out_of([shelf.bundle(each) for each in shelf.arches], arch)
        finally:
            shelf.close()
    return found or built_program(arch, build=build)


def _out_of(bundles: list[Bundle], arch: str) -> Path | None:
    """The program as a file of this machine; one that is packed is unpacked into the cache, once."""
    for bundle in bundles:
        entry = program_entry(bundle, arch)
        if entry is None:
            continue
        place = bundle.local_path(entry.path)
        if place is not None:
            return place
        kept = default_cache() / "programs" / f"{PROGRAM}-{entry.sha256[:16]}-linux-{arch}"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with bundle.open_file(entry.path) as source, replacing(kept) as target:
                shutil.copyfileobj(source, target)
        return kept
    return None
