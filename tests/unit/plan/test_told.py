"""Plans and results that somebody else told: shown as they are there, and never executed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubexm.errors import GraphError
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph, Prediction, RunStatus, State
from kubexm.plan.render import PlanFormat, render, to_data
from kubexm.plan.told import ToldResult, graph_as_known, graph_of_data, graph_of_events
from tests.unit.plan.paper import Paper, graph, node

PLAN = graph(
    node("one", "ab", Paper(note="this"), weight=3.0),
    node("two", "ab", after=["one"], optional=True, max_parallel=1),
    node("three", "a", after_same_host=["two"]),
)


def told(*events: tuple[EventKind, str, str, dict[str, Any]]) -> ToldResult:
    result = ToldResult()
    for seq, (kind, name, host, data) in enumerate(events, 1):
        result.on_event(Event(seq, 100.0 + seq, kind, f"m.t.{name}" if name else "", host, data))
    return result


STARTED = (EventKind.RUN_STARTED, "", "", {"run": "r1", "name": "paper", "dry_run": False})


def test_a_plan_told_as_data_is_shown_as_the_plan_itself() -> None:
    again = graph_of_data(json.loads(json.dumps(to_data(PLAN))))
    assert (again.name, again.digest, again.units, again.hosts) == (PLAN.name, PLAN.digest, PLAN.units, PLAN.hosts)
    for how in (PlanFormat.MERMAID, PlanFormat.SVG, PlanFormat.DOT):
        assert render(again, how) == render(PLAN, how), how
    assert [node.weight for node in again.nodes.values()] == [3.0, 1.0, 1.0]
    with pytest.raises(GraphError, match="not a plan"):
        graph_of_data({"nodes": [{"id": "x"}]})


async def test_a_step_that_was_told_cannot_be_executed() -> None:
    step = next(iter(graph_of_data(to_data(PLAN)).nodes.values())).step
    for attempt in (step.precheck, step.run):
        with pytest.raises(GraphError, match="cannot be executed"):
            await attempt(None)  # type: ignore[arg-type]


def test_a_graph_of_older_code_is_known_as_far_as_it_can_be() -> None:
    data = PLAN.to_dict()
    data["nodes"][1]["step"] = {"$": "kubexm.gone:SomethingRemoved", "path": "/x"}
    data["nodes"][2]["step"]["unheard_of"] = 1
    with pytest.raises(GraphError):
        ExecutionGraph.from_dict(data)
    known = graph_as_known(data)
    assert [node.step.describe() for node in known.nodes.values()] == ["paper: this", "SomethingRemoved", "Paper"]
    assert [(node.after, node.after_same_host, node.hosts) for node in known.nodes.values()] == [
        (node.after, node.after_same_host, node.hosts) for node in PLAN.nodes.values()
    ]
    assert graph_as_known(PLAN.to_dict()) == PLAN
    with pytest.raises(GraphError):
        graph_as_known({"nodes": 3})


def test_a_journal_alone_tells_nodes_and_hosts() -> None:
    done = [Event(n, 1.0, EventKind.UNIT_DONE, "a.b.c", host, {"state": "succeeded"}) for n, host in enumerate("xy")]
    found = graph_of_events("create", done)
    assert {name: node.hosts for name, node in found.nodes.items()} == {"a.b.c": ("x", "y")}


def test_a_result_is_put_together_from_events() -> None:
    error = {"kind": "CommandError", "message": "no", "hint": "do", "exit_code": 9, "later": "field"}
    result = told(
        STARTED,
        (EventKind.UNIT_RUNNING, "one", "a", {}),
        (EventKind.UNIT_DONE, "one", "a", {"state": "failed", "error": error, "attempts": 2, "started": 101.0}),
        (EventKind.UNIT_DONE, "one", "b", {"state": "succeeded", "warnings": ["w"], "busy": 0.5}),
        (EventKind.UNIT_DONE, "two", "a", {"state": "blocked", "root_cause": ["m.t.one", "a"], "reason": "r"}),
        (EventKind.UNIT_RUNNING, "two", "b", {}),
        (EventKind.ROLLBACK_DONE, "one", "b", {"ok": True}),
        (EventKind.HOST_LOST, "", "c", {"reason": "gone"}),
        (EventKind.HOST_LOST, "", "d", {"reason": "away", "unreached": True}),
        (EventKind.RUN_ENDED, "", "", {"status": "failed"}),
    )
    assert result.failed() == [("m.t.one", "a")]
    result.add_output("m.t.one", "a", stdout="out", stderr="err")
    found = result.result(PLAN)
    assert (found.run, found.name, found.status) == ("r1", "paper", RunStatus.FAILED)
    assert (found.started, found.ended) == (101.0, 110.0)
    assert (found.lost_hosts, found.unreached) == ({"c": "gone"}, {"d": "away"})
    one = found.nodes["m.t.one"].hosts
    assert one["a"].error is not None
    assert (one["a"].error.exit_code, one["a"].error.stderr, one["a"].attempts) == (9, "err", 2)
    assert (one["b"].rolled_back, one["b"].warnings, one["b"].busy) == (True, ("w",), 0.5)
    assert found.nodes["m.t.two"].hosts["a"].root_cause == ("m.t.one", "a")
    assert found.nodes["m.t.two"].hosts["b"].state is State.INTERRUPTED, "it had begun, and nobody heard of its end"
    assert found.nodes["m.t.three"].hosts["a"].state is State.CANCELLED


def test_a_resume_tells_everything_anew_and_no_end_is_an_interruption() -> None:
    failed = (EventKind.UNIT_DONE, "one", "a", {"state": "failed", "error": {"kind": "X", "message": "no"}})
    resumed = (EventKind.RUN_RESUMED, "", "", {"run": "r1", "name": "paper", "dry_run": True})
    done = (EventKind.UNIT_DONE, "one", "a", {"state": "satisfied", "prediction": "change", "diff": "+x"})
    result = told(STARTED, failed, (EventKind.RUN_ENDED, "", "", {"status": "failed"}), resumed, done)
    found = result.result(PLAN)
    assert result.failed() == []
    assert (found.status, found.dry_run, found.started) == (RunStatus.INTERRUPTED, True, 104.0)
    assert found.nodes["m.t.one"].hosts["a"].prediction is Prediction.CHANGE
