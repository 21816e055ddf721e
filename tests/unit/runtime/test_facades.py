"""Four views of one context: each layer sees what it decides from, and no layer above a step reaches a host."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.cache import Key
from kubexm.connector import Command
from kubexm.errors import HostError, KubexmError
from kubexm.redact import MASK, Secret, SecretRef
from kubexm.runner import Facts, Runner
from kubexm.runtime import CONTROL_NODE, WHOLE_CLUSTER, Context, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

ROLES = {"a": frozenset({"etcd"}), "b": frozenset({"worker"}), "c": frozenset({"worker"})}
MEMBER: Key[int] = Key("member", per_host=True)


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    hosts = {name: MemoryConnector(name).on("id", stdout="root") for name in ("a", "b")}
    return memory_context(tmp_path, hosts, roles=ROLES, unreached={"c": HostError("gone", host="c")})


def test_what_planning_layers_see(ctx: Context) -> None:
    pipeline = ctx.pipeline_context()
    assert pipeline.cluster is ctx.cluster
    assert [host.name for host in pipeline.hosts()] == ["a", "b", "c"]
    assert [host.name for host in pipeline.hosts("worker")] == ["b", "c"], "a host that is away is planned for"
    assert pipeline.hosts("loadbalancer") == ()
    assert pipeline.host_names == ("a", "b", "c", CONTROL_NODE, WHOLE_CLUSTER)
    assert pipeline.control_node.local
    assert pipeline.for_module().for_task().work_dir == str(ctx.work_dir.path)


def test_no_planning_layer_reaches_a_host_and_each_sees_its_own(ctx: Context) -> None:
    pipeline = ctx.pipeline_context()
    module = pipeline.for_module()
    task = module.for_task()
    for view in (pipeline, module, task):
        public = {name for name in dir(view) if not name.startswith("_")}
        assert not public & {"host_runtimes", "connector", "pool", "runner", "secrets", "caches", "redactor", "context"}
    assert not hasattr(pipeline, "facts")
    assert not hasattr(pipeline, "for_task")
    assert not hasattr(module, "facts")


def test_a_task_is_noted_down_what_facts_it_read(ctx: Context) -> None:
    task = ctx.pipeline_context().for_module().for_task()
    a, _, c = task.hosts()
    assert task.facts(a).os.family == "debian"
    assert task.facts(c).is_assumed
    assert [(read.host, str(read)) for read in ctx.facts_trace.reads()] == [("a", "os.family"), ("c", "is_assumed")]


def test_a_host_that_was_not_reached_is_assumed_to_be_what_the_file_says(ctx: Context) -> None:
    arm = tuple(replace(host, arch="arm64") if host.name == "c" else host for host in ctx.hosts)
    assert replace(ctx, hosts=arm).facts_of("c") == Facts.assumed("arm64")
    assert ctx.facts_of("nobody") == Facts.assumed()


async def test_what_a_step_acts_with(ctx: Context) -> None:
    step = ctx.step_context("m.t.n", UnitConnector(ctx.host_runtimes["a"].connector, Transcript), "run-1")
    assert (step.host.name, step.node, step.run) == ("a", "m.t.n", "run-1")
    assert step.facts is ctx.facts_of("a")
    assert step.facts_of("c").is_assumed
    assert (await step.host.connector.execute(Command(script="id"))).text == "root"
    assert not {"cluster", "hosts", "graph", "pool"} & set(dir(step)), "a step knows nothing of the plan"
    assert step.logger.name.endswith("m.t.n.a")


def test_values_and_secrets_reach_a_step_by_key_and_name(ctx: Context) -> None:
    a = ctx.step_context("m.t.n", UnitConnector(ctx.host_runtimes["a"].connector, Transcript), "run-1")
    assert not a.has(MEMBER)
    with pytest.raises(KeyError, match="member"):
        a.value(MEMBER)
    ctx.caches.publish("m.t.up", MEMBER, 1, "a")
    ctx.caches.publish("m.t.up", MEMBER, 2, "b")
    assert (a.has(MEMBER), a.value(MEMBER)) == (True, 1)
    assert a.values(MEMBER) == {"a": 1, "b": 2}
    ctx.secrets.put("token", Secret("hunter22"))
    assert a.secret(SecretRef("token")).reveal() == "hunter22"
    a.warn("the token is hunter22")
    assert a.warnings == [f"the token is {MASK}"]
    with pytest.raises(KubexmError, match="'other'"):
        a.secret(SecretRef("other"))


def test_a_host_offers_everything_the_runner_can_do(ctx: Context) -> None:
    operations = {
        name
        for name, method in vars(Runner).items()
        if inspect.isfunction(method) and "facts" in inspect.signature(method).parameters
    }
    assert len(operations) > 15
    host = ctx.host_runtimes["a"]
    for name in operations:
        group = getattr(host, name)
        assert (group.connector, group.facts) == (host.connector, host.facts)
