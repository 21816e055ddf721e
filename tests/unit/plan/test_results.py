"""Results say what happened in a way people and programs can use; secrets are gone from them."""

from __future__ import annotations

import pytest

from kubexm.errors import CommandError, StepError
from kubexm.plan import (
    ErrorInfo,
    GraphExecutionResult,
    HostResult,
    NodeResult,
    Prediction,
    RunStatus,
    State,
)
from kubexm.redact import MASK, Redactor


def result(*hosts: HostResult) -> GraphExecutionResult:
    nodes = {"m.t.n": NodeResult("m.t.n", "a step", {host.host: host for host in hosts})}
    dry_run = any(host.prediction for host in hosts)
    return GraphExecutionResult(
        run="r", name="g", status=RunStatus.SUCCEEDED, started=1.0, ended=2.0, nodes=nodes, dry_run=dry_run
    )


def host(state: State, name: str = "a", **more: object) -> HostResult:
    return HostResult(host=name, state=state, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "changed"),
    [
        (host(State.SUCCEEDED), True),
        (host(State.SATISFIED), False),
        (host(State.EXCLUDED), False),
        (host(State.BLOCKED), False),
        (host(State.CANCELLED), False),
        (host(State.FAILED, attempts=0), False),
        (host(State.FAILED, attempts=1), True),
        (host(State.INTERRUPTED, attempts=1), True),
        (host(State.SUCCEEDED, prediction=Prediction.CHANGE), True),
        (host(State.SUCCEEDED, prediction=Prediction.UNKNOWN), True),
        (host(State.SATISFIED, prediction=Prediction.NO_CHANGE), False),
        (host(State.SUCCEEDED, waited=True), False),
        (host(State.FAILED, attempts=1, waited=True), False),
        (host(State.SUCCEEDED, prediction=Prediction.WAIT), False),
    ],
)
def test_changed_means_something_was_changed_or_may_have_been(one: HostResult, changed: bool) -> None:
    assert result(one).changed is changed


def test_success_is_three_states() -> None:
    assert {state for state in State if state.good} == {State.SUCCEEDED, State.SATISFIED, State.EXCLUDED}


def test_a_node_is_as_bad_as_its_worst_host() -> None:
    assert next(iter(result(host(State.SATISFIED), host(State.BLOCKED, "b")).nodes.values())).state is State.BLOCKED
    assert next(iter(result(host(State.SATISFIED), host(State.SUCCEEDED, "b")).nodes.values())).state is State.SUCCEEDED
    assert NodeResult("m.t.gate", "a step", {}).state is State.EXCLUDED


def test_failures_are_the_root_causes_only() -> None:
    whole = result(
        host(State.FAILED), host(State.BLOCKED, "b"), host(State.INTERRUPTED, "c"), host(State.SUCCEEDED, "d")
    )
    assert [one.host for _, one in whole.failures()] == ["a", "c"]
    assert whole.count()[State.BLOCKED] == 1
    assert sum(whole.count().values()) == 4


def test_an_error_becomes_data_with_secrets_masked() -> None:
    error = CommandError(
        host="a",
        command="login --password hunter22",
        exit_code=1,
        stderr="bad password hunter22\n",
        hint="not hunter22",
    )
    info = ErrorInfo.of(error, Redactor(["hunter22"]))
    assert "hunter22" not in repr(info)
    assert info.command == f"login --password {MASK}"
    assert (info.kind, info.exit_code, info.hint) == ("CommandError", 1, f"not {MASK}")
    assert set(info.to_dict()) == {"kind", "message", "hint", "command", "exit_code", "stderr"}


def test_a_bug_is_called_one() -> None:
    info = ErrorInfo.of(ZeroDivisionError("division by zero"))
    assert info.message == "internal error: ZeroDivisionError: division by zero"
    assert "--debug" in info.hint
    assert ErrorInfo.of(StepError("no room", host="a", hint="make some")).to_dict() == {
        "kind": "StepError",
        "message": "no room",
        "hint": "make some",
    }


def test_the_time_it_took() -> None:
    assert host(State.SUCCEEDED, started=2.0, ended=5.5).seconds == 3.5
    assert host(State.BLOCKED).seconds == 0.0
