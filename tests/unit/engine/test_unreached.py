"""Units about hosts that were never reached: what acts from elsewhere goes on, and nothing waits forever."""

from __future__ import annotations

from kubexm.plan import Budget, FailurePolicy, RunStatus
from tests.unit.engine.test_state import drain, node, phases, run_state

SPARE = FailurePolicy(budgets=(Budget("worker", ("x",), 1),))


def test_what_waits_for_a_failed_unit_about_an_unreached_host_is_blocked() -> None:
    state = run_state(
        node("label", "x", via=("b",)),
        node("more", "x", via=("b",), after_same_host=("m.t.label",)),
        node("end", "a", after=("m.t.more",)),
        policy=SPARE,
        lost=("x",),
    )
    drain(state, fail=(("label", "x"),))
    assert state.over
    assert phases(state) == {"label@x": "failed", "more@x": "blocked", "end@a": "succeeded"}
    assert state.status() is RunStatus.PARTIAL


def test_a_bracket_about_an_unreached_host_is_not_opened_for_work_that_cannot_be_done() -> None:
    state = run_state(
        node("out", "x", via=("b",)),
        node("work", "x", after=("m.t.out",)),
        node("in", "x", via=("b",), after=("m.t.work",), closes="m.t.out"),
        node("end", "a", after=("m.t.in",)),
        policy=SPARE,
        lost=("x",),
    )
    assert drain(state) == [("end", "a")]
    assert phases(state) == {"out@x": "blocked", "work@x": "blocked", "in@x": "blocked", "end@a": "succeeded"}


def test_what_acts_from_elsewhere_does_not_wait_for_what_is_left_out_on_an_unreached_host() -> None:
    state = run_state(
        node("skipped", "x", excluded="filtered"),
        node("label", "x", via=("b",), after_same_host=("m.t.skipped",)),
        policy=SPARE,
        lost=("x",),
    )
    assert drain(state) == [("label", "x")]
    assert phases(state) == {"skipped@x": "excluded", "label@x": "succeeded"}
