"""What a run does when something is lost: brackets that are closed early, units that are blocked, actors that change.

The middle part of the state machine in `engine.state`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubexm.engine.edges import Edges
from kubexm.engine.layout import HostIndex, NodeIndex, Root, Unit
from kubexm.engine.phases import ACTIVE, FINAL, WAITING, Phase, Stop
from kubexm.plan import FailureMode

__all__ = ["Losses"]


class Losses(Edges):
    """How a failure, a lost host or a stop changes what is left to do."""

    # Brackets

    def _stopped(self, unit: Unit) -> bool:
        """True if the unit may not start any more: the run was stopped, and it closes no open bracket."""
        return self.stop is not Stop.NO and unit not in self._due

    def _bracket_opened(self, opener: Unit) -> None:
        closer = self.layout.closer_of[opener]
        if self._phase[closer] < FINAL:
            self._due.add(closer)
            if self.stop is not Stop.NO:
                self._close_early(closer)

    def _close_brackets(self) -> None:
        for closer in sorted(self._due):
            self._close_early(closer)

    def _close_early(self, closer: Unit) -> None:
        """The run stops: what has not begun inside the bracket is given up, and the bracket closed after the rest."""
        for unit in sorted(self.layout.inside(closer)):
            if self._phase[unit] != ACTIVE and self._phase[unit] < FINAL and unit not in self._due:
                self._give_up(unit)
        self._cut(closer)

    def _cut(self, closer: Unit) -> None:
        """The bracket did not go through: it is closed as soon as nothing inside can start or go on any more."""
        if closer in self._cut_short:
            return
        self._cut_short.add(closer)
        if self._phase[closer] == WAITING:
            inside = {unit for unit in self.layout.inside(closer) if self._phase[unit] < FINAL}
            if inside:
                self._inside[closer] = inside
            else:
                self._make_ready(closer)

    def _give_up(self, unit: Unit) -> None:
        """A unit that is not active never will be."""
        if self._phase[unit] == Phase.POSTPONED:
            self._end(unit, Phase.FAILED)
        else:
            node = self.layout.node_of(unit)
            undemanded = node.on_demand and unit not in self._demanded
            self._end(unit, Phase.EXCLUDED if node.excluded or undemanded else Phase.CANCELLED)

    # Blocking

    def _root_of(self, unit: Unit) -> Root:
        """Why a unit that failed or is blocked is so: itself, or what blocked it."""
        return self.root.get(unit, Root(unit))

    def _missing_value(self, unit: Unit, node: NodeIndex) -> Root | None:
        """The root cause if a value this unit consumes can no longer come."""
        host = self.layout.unit_host[unit]
        for maker, own_host in self.layout.value_up[node]:
            makers: Iterable[Unit] = self.layout.units_of(maker)
            if own_host:
                own = self.layout.unit_on[maker].get(host)
                makers = () if own is None else (own,)
            for made in makers:
                if self._phase[made] in (Phase.FAILED, Phase.BLOCKED):
                    return self._root_of(made)
        return None

    def halt(self) -> None:
        """The same after a failure: the journal cannot be written, or the policy is fail_fast."""
        if self.stop is Stop.NO:
            self.stop = Stop.FAILED
            self._close_brackets()

    def _failed(self, unit: Unit, *, host_gone: bool) -> None:
        host, root = self.layout.unit_host[unit], Root(unit)
        if host not in self.lost and self._spend(self.layout.hosts[host]):
            self.lost[host] = root
        if host in self.lost:  # also before: units that act from elsewhere outlive a host that was never reached
            self._drop_host(host, root)
            self._block(self._demanders.pop(unit, ()), root)
            self._drop_out(self.layout.unit_node[unit])
            return
        if host_gone:
            self._block(self._acting_here(host), root)
        self._block(self._below([unit]), root)
        if self.layout.graph.policy.mode is FailureMode.FAIL_FAST:
            self.halt()

    def _spend(self, host: str) -> bool:
        name = self._budget.get(host)
        if name is None or not self._room[name]:
            return False
        self._room[name] -= 1
        return True

    def _lose_from_start(self, host: HostIndex) -> None:
        root = Root(-1 - host)
        if self._spend(self.layout.hosts[host]):
            self.lost[host] = root
            self._drop_host(host, root)
        elif acting := self._acting_here(host):
            self.unreached[host] = root
            self._block(acting, root)

    def _acting_here(self, host: HostIndex) -> list[Unit]:
        """The units about this host that also act from it."""
        layout = self.layout
        return [unit for unit in layout.units_of_host[host] if not layout.via[layout.unit_node[unit]]]

    def _outlives(self, unit: Unit, root: Root) -> bool:
        """True if its host was never reached, it acts from elsewhere, and needs nothing of what did not run there."""
        layout = self.layout
        node, host = layout.unit_node[unit], layout.unit_host[unit]
        if root >= 0 or not layout.via[node]:
            return False
        above = [layout.unit_on[up].get(host) for up in (*layout.same_up[node], *layout.bracket_up.get(node, ()))]
        above.append(layout.closer_of.get(unit))
        return not any(other is not None and self._phase[other] in (Phase.BLOCKED, Phase.FAILED) for other in above)

    def _drop_host(self, host: HostIndex, root: Root) -> None:
        """Everything that has not started on this host is blocked, and no barrier waits for it any more."""
        again = True
        while again:
            again = False
            for unit in self.layout.units_of_host[host]:
                if self._outlives(unit, root) or not self._stuck(unit, root):
                    continue
                if self._phase[unit] == Phase.EXCLUDED:
                    self._release(unit)  # for what outlives the host
                elif unit not in self._cut_short:  # barriers wait until a bracket is closed
                    self._block(self._demanders.pop(unit, ()), root)
                    self._drop_out(self.layout.unit_node[unit])
                    again |= unit in self._opener_of  # what cannot be closed is not opened

    def _block(self, units: Iterable[Unit], root: Root) -> None:
        """These units can never start: blocked, and with them all below."""
        pending = list(units)
        while pending:
            stuck = [unit for unit in pending if self._stuck(unit, root)]
            pending = self._below(stuck)
            if self._opener_of:  # what could not be closed is not opened
                pending += [self._opener_of[unit] for unit in stuck if unit in self._opener_of]

    def _stuck(self, unit: Unit, root: Root) -> bool:
        """Ends a unit that has not started; False if it has. What closes an open bracket runs all the same, later."""
        if self._phase[unit] >= FINAL or self._phase[unit] == ACTIVE or unit in self._cut_short:
            return False
        opener = self._opener_of.get(unit)
        if opener is not None and self._phase[opener] == ACTIVE:
            self._due.add(unit)  # it may be opening the bracket right now
        if unit in self._due:
            if self.stop is Stop.NO:
                self._cut(unit)
            else:
                self._close_early(unit)
            return True
        excluded = bool(self.layout.nodes[self.layout.unit_node[unit]].excluded)
        if not excluded:
            self.root[unit] = root
        self._end(unit, Phase.EXCLUDED if excluded else Phase.BLOCKED)
        return True

    def _below(self, units: Iterable[Unit]) -> list[Unit]:
        """All that waits directly for these units."""
        layout = self.layout
        below: list[Unit] = []
        nodes: list[NodeIndex] = []
        for unit in units:
            node, host = layout.unit_node[unit], layout.unit_host[unit]
            places = (layout.unit_on[other].get(host) for other in layout.same_down[node])
            below.extend(place for place in places if place is not None)
            below.extend(self._demanders.pop(unit, ()))
            nodes.extend(layout.after_down[node])
        seen: set[NodeIndex] = set()
        while nodes:
            node = nodes.pop()
            if node not in seen:
                seen.add(node)
                below.extend(layout.units_of(node))
                if not layout.nodes[node].hosts:
                    nodes.extend(layout.after_down[node])
        return below

    # Actors

    def act_from(self, unit: Unit, host: str) -> None:
        """An earlier process acted from there: it is where the unit is settled, if that host can be reached."""
        index = self.layout.host_index.get(host)
        if index is not None and index in self.layout.via[self.layout.unit_node[unit]] and index not in self._gone:
            self.place[unit] = index

    def actor_lost(self, unit: Unit, *, movable: bool) -> bool:
        """The host an active unit acts from is gone. True if that is dealt with: the unit is taken again with another
        actor, is blocked because none is left, or is cancelled if it had changed nothing before the run was stopped.
        False if it may not move: nobody can tell how far it got.

        Whatever the unit is about is not to blame: that costs no budget.
        """
        if not self.layout.via[self.layout.unit_node[unit]]:
            return False
        self._gone.add(self.place[unit])
        self._choose_actors(unit)
        if not movable or (self._stopped(unit) and unit in self.attempts):
            return False
        self._leave(unit)
        if self._stopped(unit):
            self._phase[unit] = Phase.WAITING
            self._give_up(unit)
            self._skip_excluded()
        elif (actor := self._actor(unit)) is None:
            self._phase[unit] = Phase.WAITING
            self._block_without_actor(unit)
        else:
            self.place[unit] = actor
            self._make_ready(unit)
        return True

    def _actor(self, unit: Unit) -> HostIndex | None:
        candidates = self.layout.via[self.layout.unit_node[unit]]
        return next((host for host in candidates if host not in self._gone), None)

    def _choose_actors(self, active: Unit | None = None) -> None:
        """Every unit that acts from another host does so from the first candidate that is left."""
        for index, candidates in enumerate(self.layout.via):
            for unit in self.layout.units_of(NodeIndex(index)) if candidates else ():
                excluded = self.layout.nodes[NodeIndex(index)].excluded
                if unit == active or excluded or self._phase[unit] >= FINAL or self._phase[unit] == ACTIVE:
                    continue
                if self.place[unit] in candidates and self.place[unit] not in self._gone:
                    continue
                self.claims.forget(unit)
                actor = self._actor(unit)
                if actor is None:
                    self._block_without_actor(unit)
                else:
                    self.place[unit] = actor

    def _block_without_actor(self, unit: Unit) -> None:
        """Nothing is left that it could act from, so that not even a bracket can be closed."""
        last = self.layout.via[self.layout.unit_node[unit]][-1]
        root = self.root[unit] = self.unreached.setdefault(last, Root(-1 - last))
        self._cut_short.discard(unit)
        self._inside.pop(unit, None)
        self._end(unit, Phase.BLOCKED)
        opener = self._opener_of.get(unit)
        self._block([*self._below([unit]), *([opener] if opener is not None else [])], root)
