"""A plan like real ones, small enough to read: both kinds of edges, milestones, demand, options, awkward names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kubexm.cache import Key
from kubexm.plan import (
    Budget,
    ErrorInfo,
    ExecutionFragment,
    ExecutionGraph,
    ExecutionNode,
    FailurePolicy,
    GraphExecutionResult,
    HostResult,
    Milestone,
    NodeResult,
    Retry,
    RunStatus,
    State,
)
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, Values, resources

PLANES = ("cp1", "cp2", "cp3")
WORKERS = tuple(f"w{number:02}" for number in range(1, 21))
QUORUM = Milestone("EtcdQuorum")
READY = Milestone("RuntimeReady", per_host=True)
TOKEN: Key[str] = Key("join-token", secret=True, expires=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Step):
    """Something that is so, and can be undone."""

    name: str
    content: str = ""
    makes: bool = False
    takes: bool = False

    def reads(self) -> Resources:
        return resources("file:/etc/x")

    def writes(self) -> Resources:
        return resources("file:/etc/x")

    def produces(self) -> tuple[Key[Any], ...]:
        return (TOKEN,) if self.makes else ()

    def consumes(self) -> tuple[Key[Any], ...]:
        return (TOKEN,) if self.takes else ()

    def describe(self) -> str:
        return self.name

    async def precheck(self, ctx: StepContext) -> Check:
        raise AssertionError("on paper only")

    async def run(self, ctx: StepContext) -> Values | None:
        raise AssertionError("on paper only")

    async def rollback(self, ctx: StepContext) -> None:
        raise AssertionError("on paper only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Final(Step):
    """Something that cannot be undone."""

    name: str
    makes: bool = False
    takes: bool = False

    def produces(self) -> tuple[Key[Any], ...]:
        return (TOKEN,) if self.makes else ()

    def consumes(self) -> tuple[Key[Any], ...]:
        return (TOKEN,) if self.takes else ()

    def describe(self) -> str:
        return self.name

    async def precheck(self, ctx: StepContext) -> Check:
        raise AssertionError("on paper only")

    async def run(self, ctx: StepContext) -> Values | None:
        raise AssertionError("on paper only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Final):
    """Something that is only looked at."""

    def writes(self) -> Resources:
        return NOTHING


def nodes() -> list[ExecutionNode]:
    everyone = (*PLANES, *WORKERS)
    return [
        ExecutionNode(id="preflight.hosts.clock", step=Looked(name="clock in step"), hosts=everyone, optional=True),
        ExecutionNode(id="preflight.hosts.ports", step=Looked(name='ports free: "6443" <tcp>'), hosts=everyone),
        ExecutionNode(
            id="runtime.install.containerd",
            step=Named(name="service running: containerd"),
            hosts=everyone,
            after=("preflight.hosts.clock", "preflight.hosts.ports"),
            provides=(READY,),
            retry=Retry(times=2),
        ),
        ExecutionNode(
            id="etcd.install.unit",
            step=Named(name="file present: /etc/systemd/system/etcd.service", content="[Unit]\nA=1\nB=2\n"),
            hosts=PLANES,
            after=("preflight.hosts.clock", "preflight.hosts.ports"),
        ),
        ExecutionNode(
            id="etcd.install.start",
            step=Final(name="service running: etcd"),
            hosts=PLANES,
            after=("etcd.install.unit", "preflight.hosts.clock"),
            timeout=90.0,
        ),
        ExecutionNode(
            id="etcd.health.quorum",
            step=Looked(name="etcd healthy"),
            hosts=("cp1",),
            after=("etcd.install.start",),
            provides=(QUORUM,),
        ),
        ExecutionNode(
            id="control-plane.init.api",
            step=Final(name="kube-apiserver answers"),
            hosts=PLANES,
            after=("etcd.health.quorum",),
            after_same_host=("runtime.install.containerd", "preflight.hosts.ports"),
            needs=(QUORUM, READY),
            max_parallel=1,
        ),
        ExecutionNode(
            id="workers.join.token",
            step=Final(name="join token", makes=True),
            hosts=("cp1",),
            after=("control-plane.init.api",),
            on_demand=True,
        ),
        ExecutionNode(
            id="workers.join.join",
            step=Final(name="node joined", takes=True),
            hosts=WORKERS,
            after=("control-plane.init.api", "workers.join.token"),
            after_same_host=("runtime.install.containerd",),
            needs=(READY,),
        ),
        ExecutionNode(
            id="workers.join.label",
            step=Named(name="labels on the node"),
            hosts=WORKERS,
            after_same_host=("workers.join.join",),
            excluded="--skip workers.join.label",
        ),
    ]


def graph(changed: list[ExecutionNode] | None = None) -> ExecutionGraph:
    fragment = ExecutionFragment(tuple(nodes() if changed is None else changed))
    return ExecutionGraph.build("create", fragment, policy=FailurePolicy(budgets=(Budget("worker", WORKERS, 2),)))


def edited() -> ExecutionGraph:
    """The same plan after an edit of cluster.yaml: a unit differs, a host is gone, one node went, one came."""
    found = [node for node in nodes() if node.id != "workers.join.label"]
    for index, node in enumerate(found):
        if node.id == "etcd.install.unit":
            step = Named(name="file present: /etc/systemd/system/etcd.service", content="[Unit]\nA=1\nB=3\n")
            found[index] = replace(node, step=step)
        elif node.id == "workers.join.join":
            found[index] = replace(node, hosts=(*WORKERS[:-1], "edge"))
            found[index] = replace(found[index], after_same_host=(), needs=())
    found.append(
        ExecutionNode(
            id="dns.install.coredns", step=Final(name="CoreDNS answers"), hosts=("cp1",), after=("workers.join.join",)
        )
    )
    return graph(found)


def result() -> GraphExecutionResult:
    """How the plan ended: one worker failed to join, the rest went well."""
    ends: dict[str, NodeResult] = {}
    for index, node in enumerate(nodes()):
        hosts = {
            host: HostResult(host=host, state=State.SUCCEEDED, started=100.0 + index, ended=102.5 + index, attempts=1)
            for host in node.hosts
        }
        if node.id == "preflight.hosts.clock":
            hosts = {host: each._replace(state=State.SATISFIED) for host, each in hosts.items()}
        if node.id == "workers.join.join":
            error = ErrorInfo(
                kind="CommandError",
                message="`kubeadm join` exited with 1: error: timed out waiting for the API",
                hint="look at the kubelet's log",
                command="kubeadm join --config /etc/kubernetes/join.yaml",
                exit_code=1,
                stderr="[preflight] fine\nerror: timed out waiting for the API\n",
            )
            hosts["w07"] = hosts["w07"]._replace(state=State.FAILED, error=error)
        if node.id == "workers.join.label":
            hosts = {
                host: HostResult(host=host, state=State.EXCLUDED, reason="--skip workers.join.label")
                for host in node.hosts
            }
        ends[node.id] = NodeResult(node.id, node.step.describe(), hosts, node.optional)
    return GraphExecutionResult(
        run="20250101-000000-abcd",
        name="create",
        status=RunStatus.PARTIAL,
        started=100.0,
        ended=112.5,
        nodes=ends,
        lost_hosts={"w07": "workers.join.join failed on w07"},
    )
