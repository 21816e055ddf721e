"""What a user can ask for: found by name, with a failure policy from the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.errors import UsageError
from kubexm.pipeline import PIPELINES, Pipeline, failure_policy, pipeline_named
from kubexm.plan import Budget, FailureMode, FailurePolicy
from kubexm.runtime import RuntimeBuilder
from tests.unit.runtime.clusters import cluster_file

HOSTS = """
hosts:
  - {name: "cp[1:3]", address: "10.0.0.[1:3]"}
  - {name: "w[1:10]", address: "10.0.1.[1:10]"}
roleGroups: {etcd: ["cp[1:3]"], controlPlane: ["cp[1:3]"], worker: ["w[1:10]", cp1]}
"""


def policy(directory: Path, execution: str = "", hosts: str = HOSTS) -> FailurePolicy:
    context = RuntimeBuilder(cluster_file(directory, hosts + execution)).build_offline()
    return failure_policy(context.pipeline_context())


def test_workers_have_the_budget_of_the_file_and_control_planes_have_none(tmp_path: Path) -> None:
    workers = tuple(f"w{number}" for number in range(1, 11))
    assert policy(tmp_path, "execution: {maxFailedWorkers: 2}").budgets == (Budget("worker", workers, 2),)
    assert policy(tmp_path, "execution: {maxFailedWorkers: '25%'}").budgets == (Budget("worker", workers, 2),)
    assert policy(tmp_path, "execution: {maxFailedWorkers: 0}").budgets == ()


@pytest.mark.parametrize(
    ("workers", "lost"),
    [("w1, w2", 1), ("'w[1:9]'", 1), ("'w[1:10]'", 1), ("w1", 0), ("w1, cp1", 1), ("cp1, cp2", 0)],
    ids=["two", "nine", "ten", "the only one", "control planes run pods too", "no other"],
)
def test_by_default_a_worker_may_be_lost_unless_it_is_the_only_one(tmp_path: Path, workers: str, lost: int) -> None:
    budgets = policy(tmp_path, hosts=HOSTS.replace('"w[1:10]", cp1', workers)).budgets
    assert sum(budget.allowed for budget in budgets) == lost


def test_the_file_says_what_a_failure_stops(tmp_path: Path) -> None:
    assert policy(tmp_path).mode is FailureMode.ISOLATE
    assert policy(tmp_path, "execution: {failurePolicy: fail_fast}").mode is FailureMode.FAIL_FAST


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_every_pipeline_is_there_under_its_name(name: str) -> None:
    found = pipeline_named(name)
    assert isinstance(found, Pipeline)
    assert found.name == name


def test_options_go_to_the_pipeline() -> None:
    assert pipeline_named("preflight", fix=True).changes
    assert not pipeline_named("preflight").changes


def test_a_name_with_a_slip_finds_its_neighbour_and_nonsense_finds_the_list() -> None:
    with pytest.raises(UsageError, match="there is no pipeline 'prefligth'") as caught:
        pipeline_named("prefligth")
    assert caught.value.hint == "did you mean `preflight`?"
    with pytest.raises(UsageError) as caught:
        pipeline_named("zzz")
    assert "preflight" in caught.value.hint
