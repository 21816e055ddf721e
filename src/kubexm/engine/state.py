"""Every rule of a run, as a pure state machine: what may start, what a result means for the rest, when it is over.

No time, no tasks, no I/O: `engine.local` tells it what happened and asks what to do next. docs/engine-states.md draws
it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from enum import IntEnum

from kubexm.engine.claims import Claims
from kubexm.engine.layout import HostIndex, Layout, NodeIndex, Root, Unit, by_node
from kubexm.errors import (
    AuthenticationError,
    ConfigError,
    FencedError,
    HostKeyError,
    KubexmError,
    LeaseHeldError,
    OutcomeUnknown,
    StepError,
    SudoError,
)
from kubexm.plan import FailureMode, RunStatus, State
from kubexm.step import clash, clash_in_cluster

__all__ = ["Phase", "RunState", "Stop", "worth_retrying"]


class Phase(IntEnum):
    """Where a unit stands; the last seven are final."""

    WAITING = 0
    """For something upstream."""
    READY = 1
    ACTIVE = 2
    """Taken by the driver: prechecking, running or rechecking."""
    DEMANDING = 3
    """For a value that is produced on demand."""
    POSTPONED = 4
    """Between two attempts."""
    SUCCEEDED = 10
    SATISFIED = 11
    FAILED = 12
    BLOCKED = 13
    EXCLUDED = 14
    CANCELLED = 15
    INTERRUPTED = 16


class Stop(IntEnum):
    """Whether new units are started."""

    NO = 0
    FAILED = 1
    """fail_fast, after a failure."""
    CANCELLED = 2


# Plain integers for what is compared a hundred thousand times.
_WAITING, _READY, _ACTIVE = int(Phase.WAITING), int(Phase.READY), int(Phase.ACTIVE)
_FINAL = int(Phase.SUCCEEDED)
_STATE = {Phase[state.name]: state for state in State}
_PHASE = {state: Phase[state.name] for state in State}
_GOOD = frozenset({Phase.SUCCEEDED, Phase.SATISFIED, Phase.EXCLUDED})
_PERMANENT = (
    AuthenticationError,
    ConfigError,
    FencedError,
    HostKeyError,
    LeaseHeldError,
    OutcomeUnknown,
    StepError,
    SudoError,
)


def worth_retrying(error: BaseException) -> bool:
    """False for errors that a second attempt cannot mend: wrong credentials, refusals, unknown outcomes, bugs."""
    return isinstance(error, KubexmError) and not isinstance(error, _PERMANENT)


class RunState:
    """The state of one run. Units are numbers of its layout."""

    def __init__(
        self, layout: Layout, *, dry_run: bool = False, lost: Iterable[str] = (), opened: Iterable[Unit] = ()
    ) -> None:
        """`opened`: opening units of brackets that an earlier process of this run left open."""
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
        for unit in opened:
            self._bracket_opened(unit)
        unreached = [layout.host_index[host] for host in lost if host in layout.host_index]
        self._gone = set(unreached)
        """Hosts nothing can act from any more."""
        for host in unreached:
            self._lose_from_start(host)
        self._choose_actors()
        self._open_first()

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

    def _open_first(self) -> None:
        for index, node in self.layout.each_node():
            if not self._barriers[index] and not node.hosts and not self.layout.after_up[index]:
                self._complete(index)
        for unit in self.layout.each_unit():
            if not self._waits[unit] and self._phase[unit] == _WAITING:
                self._open(unit)
        for unit, consumers in list(self._consumers.items()):
            if not consumers and self._phase[unit] < _FINAL:
                self._end(unit, Phase.EXCLUDED)
                self._release(unit)
        self._skip_excluded()

    # What the driver asks

    @property
    def over(self) -> bool:
        """True if nothing is active and nothing can start any more."""
        return not self.active and (not self.left or (self.stop is not Stop.NO and not self._due))

    def phase(self, unit: Unit) -> Phase:
        """Where the unit stands."""
        return Phase(self._phase[unit])

    def final(self, unit: Unit) -> State:
        """The final state of a unit that has one."""
        return _STATE[Phase(self._phase[unit])]

    def take(self) -> Unit | None:
        """The most urgent unit that may start now, which is active from here on; None if there is none."""
        layout, ready = self.layout, self._ready
        while ready and (self.stop is Stop.NO or self._due):
            unit = Unit(heapq.heappop(ready) % layout.units)
            node = layout.unit_node[unit]
            if self._stopped(unit) or self._phase[unit] != _READY:  # blocked meanwhile: its room goes to another
                self._unpark_node(node)
                continue
            if layout.value_up[node] and (root := self._missing_value(unit, node)) is not None:
                self._block([unit], root)
                continue
            if self._bounded[node] and not self._has_room(unit, node):
                continue
            self._phase[unit] = _ACTIVE
            self.active += 1
            return unit
        return None

    def satisfied_ahead(self, unit: Unit) -> bool:
        """True if a verdict read ahead may be used instead of a precheck."""
        return self.claims.satisfied(unit)

    def read_ahead(self, unit: Unit, since: int) -> None:
        """A precheck before the unit's turn, begun at clock `since`, was satisfied."""
        if self._phase[unit] < _FINAL:
            self.claims.note(unit, since)

    def unknown(self, unit: Unit) -> bool:
        """In a dry run: True if it reads what something before it would change."""
        layout = self.layout
        node, host = layout.unit_node[unit], self.place[unit]
        mask, mine = layout.ancestors[node], layout.reads[node]
        here = any(mask >> j & 1 and clash(mine, layout.writes[j]) for j in self._would.get(host, ()))
        return here or any(mask >> j & 1 and clash_in_cluster(mine, layout.writes[j]) for j in self._would_cluster)

    def would_close(self, unit: Unit) -> bool:
        """In a dry run: True if it closes a bracket that would be opened."""
        return self._opener_of.get(unit) in self._would_open

    def status(self) -> RunStatus:
        """How the run as a whole ended; call it when it is over."""
        if Phase.INTERRUPTED in self._phase:
            return RunStatus.INTERRUPTED
        if Phase.CANCELLED in self._phase and self.stop is Stop.CANCELLED:
            return RunStatus.CANCELLED
        if self.unreached or any(map(self._counts, self._all(Phase.FAILED))):
            return RunStatus.FAILED
        return RunStatus.PARTIAL if self.lost else RunStatus.SUCCEEDED

    def _all(self, phase: Phase) -> Iterable[Unit]:
        """The units that stand there."""
        found = self._phase.find(phase)
        while found >= 0:
            yield Unit(found)
            found = self._phase.find(phase, found + 1)

    def _counts(self, failed: Unit) -> bool:
        """True if this failure is the run's: not of something optional, nor of a host within its budget."""
        return not self._optional(failed) and self.layout.unit_host[failed] not in self.lost

    # What the driver tells

    def demand(self, unit: Unit) -> bool:
        """The unit needs what is produced on demand; True if it has to wait, and is taken again when all is there."""
        layout = self.layout
        node = layout.unit_node[unit]
        if not layout.demand_up[node]:
            return False
        open_makers: list[Unit] = []
        given_up = False
        for maker in layout.demand_up[node]:
            for made in layout.wanted(unit, maker):
                phase = self._phase[made]
                if phase in (Phase.FAILED, Phase.BLOCKED):
                    self._leave(unit)
                    self._phase[unit] = Phase.WAITING
                    self._block([unit], self._root_of(made))
                    return True
                given_up |= phase in (Phase.CANCELLED, Phase.INTERRUPTED)
                if phase < _FINAL:
                    open_makers.append(made)
        if not open_makers and not given_up:
            return False
        self._leave(unit)
        if given_up or self.stop is not Stop.NO:  # nothing new starts, so what it needs will not be there
            self._phase[unit] = Phase.WAITING
            self._give_up(unit)
            self._skip_excluded()
            return True
        self._phase[unit] = Phase.DEMANDING
        self._demands[unit] = len(open_makers)
        for made in open_makers:
            self._demanders.setdefault(made, []).append(unit)
            if made not in self._demanded:
                self._demanded.add(made)
                if not self._waits[made]:
                    self._open(made)
        self._skip_excluded()
        return True

    def begin_run(self, unit: Unit) -> None:
        """The unit is about to change something."""
        if unit in self.layout.closer_of:
            self._bracket_opened(unit)
        self.attempts[unit] = self.attempts.get(unit, 0) + 1
        self.claims.begin(unit)

    def retry_after(self, unit: Unit, error: BaseException) -> float | None:
        """Seconds until another attempt is due, or None if this failure is final."""
        retry = self.layout.nodes[self.layout.unit_node[unit]].retry
        attempt = max(1, self.attempts.get(unit, 0))
        if self._stopped(unit) or attempt > retry.times or not worth_retrying(error):
            return None
        return retry.wait(attempt)

    def postpone(self, unit: Unit) -> None:
        """The unit's attempt failed and another is due later; `resume` when it is."""
        self.attempts.setdefault(unit, 1)
        self._leave(unit)
        self._phase[unit] = Phase.POSTPONED

    def resume(self, unit: Unit) -> None:
        """A postponed unit may be taken again."""
        if self._phase[unit] == Phase.POSTPONED:
            self._make_ready(unit)

    def finish(self, unit: Unit, state: State, *, host_gone: bool = False) -> None:
        """An active unit ended: good, failed or interrupted. `host_gone`: its host cannot be reached any more."""
        self._leave(unit)
        phase = _PHASE[state]
        self._phase[unit] = phase
        self.left -= 1
        if self._consumers:
            self._forget_demand(unit)
        if phase == Phase.SATISFIED and unit in self.layout.closer_of:
            self._bracket_opened(unit)
        self._note_final(unit)
        if unit in self._cut_short:  # what waits for it has its state, but for barriers that a lost host left
            if self.layout.unit_host[unit] in self.lost:
                self._drop_out(self.layout.unit_node[unit])
        elif phase in _GOOD or (phase == Phase.FAILED and self._optional(unit) and not host_gone):
            self._release(unit)
        elif phase == Phase.FAILED:
            self._failed(unit, host_gone=host_gone)
        if self._skipped:
            self._skip_excluded()

    def predict_change(self, unit: Unit) -> None:
        """In a dry run: this unit would change what it writes."""
        node = self.layout.unit_node[unit]
        if unit in self.layout.closer_of:
            self._would_open.add(unit)
        self._would.setdefault(self.place[unit], []).append(node)
        if clash_in_cluster(self.layout.writes[node], frozenset({"*"})):
            self._would_cluster.append(node)

    def repeat_unknown(self, unit: Unit, satisfied: bool | None) -> bool:
        """After an unknown outcome, precheck said this: True if the unit is to be run again, once and at once.

        Nothing is repeated that cannot be read back: nobody could tell whether it was done twice.
        """
        if satisfied is not False or unit in self._repeated:
            return False
        self._repeated.add(unit)
        return True

    def cancel(self) -> None:
        """Start nothing new but what closes open brackets; what is active goes on to its end."""
        self.stop = Stop.CANCELLED
        self._close_brackets()

    def halt(self) -> None:
        """The same after a failure: the journal cannot be written, or the policy is fail_fast."""
        if self.stop is Stop.NO:
            self.stop = Stop.FAILED
            self._close_brackets()

    def abandon(self) -> None:
        """Start nothing at all any more: brackets stay open, for a later process or run to close."""
        self.cancel()
        self._due.clear()

    def closes(self, unit: Unit) -> bool:
        """True if the unit closes an open bracket: stopping does not stop it."""
        return unit in self._due

    def take_ended(self) -> list[Unit]:
        """The units that reached a final state without the driver's doing since this was last asked."""
        ended, self._ended = self._ended, []
        return ended

    @property
    def has_ended(self) -> bool:
        """True if `take_ended` would return something."""
        return bool(self._ended)

    def conclude(self) -> None:
        """Nothing will start any more: what never started is cancelled, what waited for another attempt has failed."""
        for unit in self.layout.each_unit() if self.left else ():
            if self._phase[unit] < _FINAL:
                self._give_up(unit)

    # Rules

    def _stopped(self, unit: Unit) -> bool:
        """True if the unit may not start any more: the run was stopped, and it closes no open bracket."""
        return self.stop is not Stop.NO and unit not in self._due

    def _give_up(self, unit: Unit) -> None:
        """A unit that is not active never will be."""
        if self._phase[unit] == Phase.POSTPONED:
            self._end(unit, Phase.FAILED)
        else:
            node = self.layout.node_of(unit)
            undemanded = node.on_demand and unit not in self._demanded
            self._end(unit, Phase.EXCLUDED if node.excluded or undemanded else Phase.CANCELLED)

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
                if unit == active or excluded or self._phase[unit] >= _FINAL or self._phase[unit] == _ACTIVE:
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

    # Brackets

    def _bracket_opened(self, opener: Unit) -> None:
        closer = self.layout.closer_of[opener]
        if self._phase[closer] < _FINAL:
            self._due.add(closer)
            if self.stop is not Stop.NO:
                self._close_early(closer)

    def _close_brackets(self) -> None:
        for closer in sorted(self._due):
            self._close_early(closer)

    def _close_early(self, closer: Unit) -> None:
        """The run stops: what has not begun inside the bracket is given up, and the bracket closed after the rest."""
        for unit in sorted(self.layout.inside(closer)):
            if self._phase[unit] != _ACTIVE and self._phase[unit] < _FINAL and unit not in self._due:
                self._give_up(unit)
        self._cut(closer)

    def _cut(self, closer: Unit) -> None:
        """The bracket did not go through: it is closed as soon as nothing inside can start or go on any more."""
        if closer in self._cut_short:
            return
        self._cut_short.add(closer)
        if self._phase[closer] == _WAITING:
            inside = {unit for unit in self.layout.inside(closer) if self._phase[unit] < _FINAL}
            if inside:
                self._inside[closer] = inside
            else:
                self._make_ready(closer)

    def _note_final(self, unit: Unit) -> None:
        """Brackets that were cut short wait for one unit less."""
        self._due.discard(unit)
        for closer in [closer for closer, inside in self._inside.items() if unit in inside]:
            self._inside[closer].discard(unit)
            if not self._inside[closer]:
                del self._inside[closer]
                if self._phase[closer] == _WAITING:
                    self._make_ready(closer)

    # Edges and room

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
            if self._phase[unit] == _READY:  # others were blocked while they waited for room
                self._push(unit)
                return

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

    def _push(self, unit: Unit) -> None:
        heapq.heappush(self._ready, self.layout.turn[self.layout.unit_node[unit]] + unit)

    def _make_ready(self, unit: Unit) -> None:
        self._phase[unit] = _READY
        self._push(unit)

    def _open(self, unit: Unit) -> None:
        """All it waits for is done."""
        index = self.layout.unit_node[unit]
        if self._plain[index]:
            self._phase[unit] = _READY
            heapq.heappush(self._ready, self.layout.turn[index] + unit)
        elif self.layout.nodes[index].excluded:
            self._skipped.append(unit)
        elif unit in self._demanded:
            self._make_ready(unit)

    def _skip_excluded(self) -> None:
        """Excluded units whose turn has come are done for edges, one after the other however long their chain."""
        while self._skipped:
            unit = self._skipped.pop()
            if self._phase[unit] < _FINAL:
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
        if not self._waits[unit] and self._phase[unit] == _WAITING and unit not in self._inside:
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

    def _root_of(self, unit: Unit) -> Root:
        """Why a unit that failed or is blocked is so: itself, or what blocked it."""
        return self.root.get(unit, Root(unit))

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
        if self._phase[unit] >= _FINAL or self._phase[unit] == _ACTIVE or unit in self._cut_short:
            return False
        opener = self._opener_of.get(unit)
        if opener is not None and self._phase[opener] == _ACTIVE:
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

    def _forget_demand(self, unit: Unit) -> None:
        """A consumer is done with: what nobody can demand any more is excluded."""
        layout = self.layout
        for maker in layout.demand_up[layout.unit_node[unit]]:
            for made in layout.wanted(unit, maker):
                self._consumers[made] -= 1
                if not self._consumers[made] and made not in self._demanded and self._phase[made] < _FINAL:
                    self._end(made, Phase.EXCLUDED)
                    self._release(made)
