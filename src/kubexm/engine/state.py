"""Every rule of a run, as a pure state machine: what may start, what a result means for the rest, when it is over.

No time, no tasks, no I/O: `engine.local` tells it what happened and asks what to do next. docs/engine-states.md draws
it. This is what the driver sees; `engine.losses` has brackets, blocking and actors, `engine.edges` edges and room.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kubexm.engine.layout import Layout, Unit
from kubexm.engine.losses import Losses
from kubexm.engine.phases import ACTIVE, FINAL, READY, WAITING, Phase, Stop, worth_retrying
from kubexm.plan import RunStatus, State
from kubexm.step import clash, clash_in_cluster

__all__ = ["Phase", "RunState", "Stop", "worth_retrying"]

_STATE = {Phase[state.name]: state for state in State}
_PHASE = {state: Phase[state.name] for state in State}
_GOOD = frozenset({Phase.SUCCEEDED, Phase.SATISFIED, Phase.EXCLUDED})


class RunState(Losses):
    """The state of one run. Units are numbers of its layout."""

    def __init__(
        self, layout: Layout, *, dry_run: bool = False, lost: Iterable[str] = (), opened: Iterable[Unit] = ()
    ) -> None:
        """`opened`: opening units of brackets that an earlier process of this run left open."""
        super().__init__(layout, dry_run=dry_run)
        for unit in opened:
            self._bracket_opened(unit)
        unreached = [layout.host_index[host] for host in lost if host in layout.host_index]
        self._gone.update(unreached)
        for host in unreached:
            self._lose_from_start(host)
        self._choose_actors()
        self._open_first()

    def _open_first(self) -> None:
        for index, node in self.layout.each_node():
            if not self._barriers[index] and not node.hosts and not self.layout.after_up[index]:
                self._complete(index)
        for unit in self.layout.each_unit():
            if not self._waits[unit] and self._phase[unit] == WAITING:
                self._open(unit)
        for unit, consumers in list(self._consumers.items()):
            if not consumers and self._phase[unit] < FINAL:
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
            if self._stopped(unit) or self._phase[unit] != READY:  # blocked meanwhile: its room goes to another
                self._unpark_node(node)
                continue
            if layout.value_up[node] and (root := self._missing_value(unit, node)) is not None:
                self._block([unit], root)
                continue
            if self._bounded[node] and not self._has_room(unit, node):
                continue
            self._phase[unit] = ACTIVE
            self.active += 1
            return unit
        return None

    def satisfied_ahead(self, unit: Unit) -> bool:
        """True if a verdict read ahead may be used instead of a precheck."""
        return self.claims.satisfied(unit)

    def read_ahead(self, unit: Unit, since: int) -> None:
        """A precheck before the unit's turn, begun at clock `since`, was satisfied."""
        if self._phase[unit] < FINAL:
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
                if phase < FINAL:
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

    def retry_after(self, unit: Unit, *, worth: bool = True) -> float | None:
        """Seconds until another attempt is due, or None if this failure is final; `worth`: another may succeed."""
        retry = self.layout.nodes[self.layout.unit_node[unit]].retry
        attempt = max(1, self.attempts.get(unit, 0))
        if self._stopped(unit) or attempt > retry.times or not worth:
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
            if self._phase[unit] < FINAL:
                self._give_up(unit)
