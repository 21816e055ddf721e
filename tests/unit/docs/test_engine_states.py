"""The page about the engine's states says what the code does: every name, and every way from phase to phase."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import SupportsIndex

import pytest
from hypothesis import given

from kubexm.engine.layout import Layout
from kubexm.engine.state import Phase, RunState, Stop
from kubexm.events import EventKind
from kubexm.plan import ExecutionGraph, FailureMode, Prediction, RunStatus, State
from tests.unit.engine.graphs import HOSTS, Chance, chances, examples, graphs
from tests.unit.engine.test_state import Simulation

PAGE = (Path(__file__).parents[3] / "docs" / "engine-states.md").read_text("utf-8")
DRAWN = {(Phase[one], Phase[other]) for one, other in re.findall(r"^ +([A-Z]+) --> ([A-Z]+):", PAGE, re.MULTILINE)}


@pytest.mark.parametrize(
    "member",
    [*Phase, *State, *Stop, *EventKind, *RunStatus, *Prediction, *FailureMode],
    ids=lambda m: f"{type(m).__name__}.{m.name}",
)
def test_every_name_is_described(member: Enum) -> None:
    shown = member.name if isinstance(member, Phase | State | Stop) else str(member.value)
    in_table = re.search(rf"^\| `{re.escape(shown)}`.* \| .*\S", PAGE, re.MULTILINE)
    assert in_table or (isinstance(member, Stop) and f"`{shown}`" in PAGE), f"{shown} has no row on the page"


def test_every_phase_is_drawn() -> None:
    assert {phase for edge in DRAWN for phase in edge} == set(Phase)
    assert not [edge for edge in DRAWN if edge[0] >= Phase.SUCCEEDED], "what is final stays so"


class Noting(bytearray):
    """Phases of units that note each change."""

    def __init__(self, phases: bytearray, seen: set[tuple[Phase, Phase]]) -> None:
        super().__init__(phases)
        self._seen = seen
        self._shown = list(phases)

    def __setitem__(self, unit: SupportsIndex | slice, phase: object) -> None:
        assert not isinstance(unit, slice)
        assert isinstance(phase, int)
        super().__setitem__(unit, phase)
        place = unit.__index__()
        if phase != Phase.WAITING and phase != self._shown[place]:  # back to WAITING is only on the way to BLOCKED
            self._seen.add((Phase(self._shown[place]), Phase(phase)))
            self._shown[place] = phase


@examples(150)
@given(graphs(), chances)
def test_no_run_takes_a_way_that_is_not_drawn(graph: ExecutionGraph, chance: Chance) -> None:
    seen: set[tuple[Phase, Phase]] = set()
    lost = chance.some(HOSTS, 1)
    outcomes = ("succeeded", "satisfied", "failed", "gone", "interrupted")
    state = RunState(Layout(graph), lost=lost)
    for unit in state.layout.each_unit():
        if state.phase(unit) is not Phase.WAITING:
            seen.add((Phase.WAITING, state.phase(unit)))
    state._phase = Noting(state._phase, seen)
    Simulation(state, chance.randrange, lambda: chance.choice(outcomes)).play()
    assert seen <= DRAWN
