"""The bookkeeping of a run: which units wait for what, which may start, and what an end sets free.

The lowest part of the state machine in `engine.state`: it knows edges, demand and room, and nothing of failures.
"""

from __future__ import annotations

import heapq
from collections import deque

from kubexm.engine.claims import Claims
from kubexm.engine.layout import HostIndex, Layout, NodeIndex, Root, Unit, by_node
from kubexm.engine.phases import FINAL, READY, WAITING, Phase, Stop

__all__ = ["Edges"]


class Edges:
    """Units on their way from waiting to a final state. Units are numbers of the layout."""

    def __init__(self, layout: Layout, *, dry_run: bool) -> None:
        self.layout = layout
        self.dry_run = dry_run
        self.place: dict[Unit, HostIndex] = {unit: layout.unit_host[unit] for unit in layout.each_unit()}
        """The host each unit acts from."""
        self.claims = Claims(layout, self.place)
        self.stop = Stop.NO
        self.active = 0
        self.left = layout.units
        self.root: dict[Unit, Root] = {}
        """Why each blocked unit is blocked."""
        self.lost: dict[HostIndex, Root] = {}
        """Hosts that dropped out, and why."""
        self.unreached: dict[HostIndex, Root] = {}
        """Hosts that could not be reached at the start and had no budget."""
        self.attempts: dict[Unit, int] = {}
        self._ended: list[Unit] = []
        self._repeated: set[Unit] = set()
        """Units that were run again because their outcome was unknown."""
        self._phase = bytearray(layout.units)
        self._ready: list[int] = []
        """A heap of units, each with its node's turn added."""
        self._skipped: list[Unit] = []
        self._parked_node: dict[NodeIndex, deque[Unit]] = {}
        self._parked_host: dict[HostIndex, list[Unit]] = {}
        self._running: dict[NodeIndex, int] = {}
        self._would: dict[HostIndex, list[NodeIndex]] = {}
        self._would_cluster: list[NodeIndex] = []
        self._bounded = by_node(
            node.max_parallel is not None or bool(writes)
            for node, writes in zip(layout.nodes, layout.writes, strict=True)
        )
        """Nodes whose units may have to wait for room, each other's or that of what they write."""
        self._plain = by_node(not node.excluded and not node.on_demand for node in layout.nodes)
        """Nodes whose units are ready as soon as all they wait for is done."""
        self._room = {budget.name: budget.allowed for budget in layout.graph.policy.budgets}
        self._budget = {host: budget.name for budget in layout.graph.policy.budgets for host in budget.hosts}
        self._due: set[Unit] = set()
        """Closing units of open brackets: they run in any case."""
        self._cut_short: set[Unit] = set()
        """Those of them whose bracket did not go through: what waits for them is blocked or cancelled."""
        self._opener_of = {closer: opener for opener, closer in layout.closer_of.items()}
        self._would_open: set[Unit] = set()
        self._inside: dict[Unit, set[Unit]] = {}
        """What each of these still waits for."""
        self._count()
        self._gone: set[HostIndex] = set()
        """Hosts nothing can act from any more."""

    def _count(self) -> None:
        layout = self.layout
        self._node_left: dict[NodeIndex, int] = {index: len(node.hosts) for index, node in layout.each_node()}
        self._barriers: dict[NodeIndex, int] = {index: len(layout.after_up[index]) for index, _ in layout.each_node()}
        self._waits = [0] * layout.units
        self._demanded: set[Unit] = set()
        self._demanders: dict[Unit, list[Unit]] = {}
        self._demands: dict[Unit, int] = {}
        self._consumers: dict[Unit, int] = {}
        for index, node in layout.each_node():
            gate = 1 if self._barriers[index] else 0
            for unit in layout.units_of(index):
                host = layout.unit_host[unit]
                self._waits[unit] = gate + sum(host in layout.unit_on[up] for up in layout.same_up[index])
            for maker in layout.demand_up[index]:
                for unit in layout.units_of(index):
                    for made in layout.wanted(unit, maker):
                        self._consumers[made] = self._consumers.get(made, 0) + 1
            if node.on_demand:
                for unit in layout.units_of(index):
                    self._consumers.setdefault(unit, 0)

    def _optional(self, unit: Unit) -> bool:
        return self.layout.nodes[self.layout.unit_node[unit]].optional

    def _has_room(self, unit: Unit, node: NodeIndex) -> bool:
        most = self.layout.nodes[node].max_parallel
        if most is not None and self._running.get(node, 0) >= most:
            self._parked_node.setdefault(node, deque()).append(unit)
            return False
        if not self.dry_run and not self.claims.take(unit):
            self._parked_host.setdefault(self.place[unit], []).append(unit)
            self._unpark_node(node)
            return False
        if most is not None:
            self._running[node] = self._running.get(node, 0) + 1
        return True

    def _leave(self, unit: Unit) -> None:
        """No longer active: its place and its claim are free."""
        self.active -= 1
        node = self.layout.unit_node[unit]
        if not self._bounded[node]:
            return
        if node in self._running:
            self._running[node] -= 1
            self._unpark_node(node)
        if not self.dry_run:
            self.claims.release(unit)
            if self._parked_host:
                for other in self._parked_host.pop(self.place[unit], ()):
                    self._push(other)

    def _unpark_node(self, node: NodeIndex) -> None:
        parked = self._parked_node.get(node)
        while parked:
            unit = parked.popleft()
            if self._phase[unit] == READY:  # others were blocked while they waited for room
                self._push(unit)
                return

    def _push(self, unit: Unit) -> None:
        heapq.heappush(self._ready, self.layout.turn[self.layout.unit_node[unit]] + unit)

    def _make_ready(self, unit: Unit) -> None:
        self._phase[unit] = READY
        self._push(unit)

    def _open(self, unit: Unit) -> None:
        """All it waits for is done."""
        index = self.layout.unit_node[unit]
        if self._plain[index]:
            self._phase[unit] = READY
            heapq.heappush(self._ready, self.layout.turn[index] + unit)
        elif self.layout.nodes[index].excluded:
            self._skipped.append(unit)
        elif unit in self._demanded:
            self._make_ready(unit)

    def _skip_excluded(self) -> None:
        """Excluded units whose turn has come are done for edges, one after the other however long their chain."""
        while self._skipped:
            unit = self._skipped.pop()
            if self._phase[unit] < FINAL:
                self._end(unit, Phase.EXCLUDED)
                self._release(unit)

    def _end(self, unit: Unit, phase: Phase) -> None:
        """A final state that the driver did not bring about."""
        self._phase[unit] = phase
        self.left -= 1
        self._ended.append(unit)
        self._forget_demand(unit)
        self._note_final(unit)

    def _release(self, unit: Unit) -> None:
        """Done for edges: what waited for it goes on."""
        layout = self.layout
        node, host = layout.unit_node[unit], layout.unit_host[unit]
        for other in layout.same_down[node]:
            below = layout.unit_on[other].get(host)
            if below is not None:
                self._step_down(below)
        if self._demanders:
            for demander in self._demanders.pop(unit, ()):
                self._demands[demander] -= 1
                if not self._demands[demander] and self._phase[demander] == Phase.DEMANDING:
                    self._make_ready(demander)
        self._drop_out(node)

    def _step_down(self, unit: Unit) -> None:
        self._waits[unit] -= 1
        if not self._waits[unit] and self._phase[unit] == WAITING and unit not in self._inside:
            self._open(unit)

    def _drop_out(self, node: NodeIndex) -> None:
        """One unit less to wait for at this node's barrier."""
        self._node_left[node] -= 1
        if not self._node_left[node]:
            self._complete(node)

    def _complete(self, node: NodeIndex) -> None:
        pending = [node]
        while pending:
            for other in self.layout.after_down[pending.pop()]:
                self._barriers[other] -= 1
                if self._barriers[other]:
                    continue
                if not self.layout.nodes[other].hosts:
                    pending.append(other)
                for unit in self.layout.units_of(other):
                    self._step_down(unit)

    def _forget_demand(self, unit: Unit) -> None:
        """A consumer is done with: what nobody can demand any more is excluded."""
        layout = self.layout
        for maker in layout.demand_up[layout.unit_node[unit]]:
            for made in layout.wanted(unit, maker):
                self._consumers[made] -= 1
                if not self._consumers[made] and made not in self._demanded and self._phase[made] < FINAL:
                    self._end(made, Phase.EXCLUDED)
                    self._release(made)

    def _note_final(self, unit: Unit) -> None:
        """Brackets that were cut short wait for one unit less."""
        self._due.discard(unit)
        for closer in [closer for closer, inside in self._inside.items() if unit in inside]:
            self._inside[closer].discard(unit)
            if not self._inside[closer]:
                del self._inside[closer]
                if self._phase[closer] == WAITING:
                    self._make_ready(closer)
