"""Who is writing what, and which verdicts are still good. Pure: a clock that counts beginnings of writes, no time."""

from __future__ import annotations

from collections.abc import Mapping

from kubexm.engine.layout import HostIndex, Layout, NodeIndex, Unit, by_node
from kubexm.step import EVERYTHING, OUTCOME, clash, clash_in_cluster

__all__ = ["Claims"]


class Claims:
    """Intersecting writes on a host exclude each other; a verdict read ahead dies with the next write it could see."""

    def __init__(self, layout: Layout, place: Mapping[Unit, HostIndex]) -> None:
        """`place`: the host each unit acts from, which is where its files and units are."""
        self._layout = layout
        self._place = place
        self.clock = 0
        self._active: dict[HostIndex, list[Unit]] = {host: [] for host in layout.host_index.values()}
        self._log: dict[HostIndex, list[_Write]] = {}
        self._cluster_log: list[_Write] = []
        self._open: dict[Unit, _Write] = {}
        self._verdicts: dict[HostIndex, set[Unit]] = {}
        self._cluster_verdicts: set[Unit] = set()
        self._outcome_verdicts: set[Unit] = set()
        self._touches_cluster = by_node(clash_in_cluster(names, EVERYTHING) for names in layout.writes)
        self._sees_cluster = by_node(clash_in_cluster(names, EVERYTHING) for names in layout.reads)
        self._sees_outcome = by_node(OUTCOME in names for names in layout.reads)

    def take(self, unit: Unit) -> bool:
        """The unit holds its writes from now on; False if something active on its host writes the same."""
        layout = self._layout
        mine = layout.writes[layout.unit_node[unit]]
        if not mine:
            return True
        host = self._place[unit]
        if unit in self._verdicts.get(host, ()):
            return True  # it will not write: what it would write is so already
        active = self._active[host]
        if active:
            writes, nodes = layout.writes, layout.unit_node
            if any(clash(mine, writes[nodes[other]]) for other in active):
                return False
        active.append(unit)
        return True

    def release(self, unit: Unit) -> None:
        """The unit writes no more."""
        layout = self._layout
        if not layout.writes[layout.unit_node[unit]]:
            return
        active = self._active[self._place[unit]]
        if unit in active:
            active.remove(unit)
        write = self._open.pop(unit, None)
        if write is not None:
            self.clock += 1
            write.ended = self.clock

    def begin(self, unit: Unit) -> None:
        """The unit's write begins: every verdict that could see it is void."""
        layout = self._layout
        node, host = layout.unit_node[unit], self._place[unit]
        mine = layout.writes[node]
        if not mine:
            return
        self.clock += 1
        write = self._open[unit] = _Write(node, host)
        self._log.setdefault(host, []).append(write)
        if self._outcome_verdicts:
            self._void(set(self._outcome_verdicts))
        seen = self._verdicts.get(host)
        if seen:
            self._void({other for other in seen if clash(layout.reads[layout.unit_node[other]], mine)})
        if self._touches_cluster[node]:
            self._cluster_log.append(write)
            reads, nodes = layout.reads, layout.unit_node
            self._void({other for other in self._cluster_verdicts if clash_in_cluster(reads[nodes[other]], mine)})

    def note(self, unit: Unit, since: int) -> bool:
        """Keeps a SATISFIED verdict that was read from clock `since` on; False if a write overlapped the reading."""
        layout = self._layout
        node, host = layout.unit_node[unit], self._place[unit]
        mine = layout.reads[node]
        writes = layout.writes
        if self._sees_outcome[node]:
            if self.clock:
                return False
            self._outcome_verdicts.add(unit)
        if any(w.overlaps(since) and clash(mine, writes[w.node]) for w in self._log.get(host, ())):
            return False
        if self._sees_cluster[node]:
            if any(w.overlaps(since) and clash_in_cluster(mine, writes[w.node]) for w in self._cluster_log):
                return False
            self._cluster_verdicts.add(unit)
        self._verdicts.setdefault(host, set()).add(unit)
        return True

    def satisfied(self, unit: Unit) -> bool:
        """True if a verdict read ahead says so and nothing it read has been written since."""
        return unit in self._verdicts.get(self._place[unit], ())

    def forget(self, unit: Unit) -> None:
        """The unit is to act from elsewhere: what it saw there may differ."""
        if self.satisfied(unit):
            self._void({unit})

    def _void(self, units: set[Unit]) -> None:
        for unit in units:
            self._verdicts[self._place[unit]].discard(unit)
            self._cluster_verdicts.discard(unit)
            self._outcome_verdicts.discard(unit)


class _Write:
    """One write on one host: the clock at its end, or none while it goes on."""

    __slots__ = ("ended", "host", "node")

    def __init__(self, node: NodeIndex, host: HostIndex) -> None:
        self.node = node
        self.host = host
        self.ended: int | None = None

    def overlaps(self, since: int) -> bool:
        return self.ended is None or self.ended > since
