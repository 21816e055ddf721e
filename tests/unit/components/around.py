"""What a component is planned in: hosts with facts, and a module that reaches every milestone the others would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kubexm import config
from kubexm.cache import Key
from kubexm.components.identity import CA_FINGERPRINT, CLUSTER_UID
from kubexm.components.milestones import (
    BALANCER_READY,
    ETCD_QUORUM,
    HOST_READY,
    IMAGES_PRESENT,
    KUBELET_INSTALLED,
    PKI_ISSUED,
    RUNTIME_READY,
)
from kubexm.components.topology import balanced, nodes
from kubexm.module import Module, link
from kubexm.plan import ExecutionFragment, ExecutionGraph
from kubexm.runner import Facts
from kubexm.runner.facts import ClusterMarker
from kubexm.runtime import Context, HostRuntime, ModuleContext, TaskContext
from kubexm.runtime.builder import plan_host
from kubexm.step import Check, Resources, Step
from kubexm.task import FragmentBuilder, Task
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.config.files import pinned

HOSTS = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: prod}}
spec:
  hosts:
    - {{name: "cp[1:3]", address: "10.0.0.[11:13]"}}
    - {{name: "w[1:2]", address: "10.0.0.[21:22]"}}
  roleGroups:
    etcd: ["cp[1:3]"]
    controlPlane: ["cp[1:3]"]
    worker: ["w[1:2]"]
{more}"""
SINGLE = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: prod}}
spec:
  hosts: [{{name: n1, address: 10.0.0.11}}]
  roleGroups: {{etcd: [n1], controlPlane: [n1], worker: [n1]}}
{more}"""


def cluster(more: str = "", hosts: str = HOSTS) -> str:
    """Three control planes with etcd and two workers, or others, and more lines of spec."""
    return hosts.format(more="".join(f"  {line}\n" for line in more.splitlines()))


def marked(*roles: str) -> ClusterMarker:
    return ClusterMarker(uid="u1", name="prod", ca_fingerprint="sha256:ca", roles=roles)


def context_of(text: str, work_dir: Path, facts: Mapping[str, Mapping[str, Any]] | None = None) -> Context:
    """A context of these hosts, with their facts, apart from these, as assumed."""
    text = pinned(text)
    loaded = config.loads(text, name="test.yaml").cluster
    hosts = tuple(plan_host(entry) for entry in loaded.hosts)
    known = {
        host.name: replace(
            Facts.assumed(hostname=host.name, address=host.address),
            is_assumed=False,
            **(facts or {}).get(host.name, {}),
        )
        for host in hosts
    }
    connectors = {host.name: MemoryConnector(host.name) for host in hosts}
    base = memory_context(work_dir, connectors, facts=known, cluster=text)
    runtimes = {host.name: HostRuntime(host, connectors[host.name], known[host.name], base.runner) for host in hosts}
    return replace(base, hosts=hosts, host_runtimes=runtimes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached(Step):
    """Stands for what another component does."""

    name: str
    keys: tuple[Key[Any], ...] = ()

    async def precheck(self, ctx: Any) -> Check:
        return Check(True, values=dict.fromkeys(self.keys, "x"))

    def reads(self) -> Resources:
        return frozenset()

    def writes(self) -> Resources:
        return frozenset()

    def produces(self) -> tuple[Key[Any], ...]:
        return self.keys


class _Others(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("others.all")
        pki = Reached(name="pki", keys=(CLUSTER_UID, CA_FINGERPRINT))
        g.add("pki", pki, on=ctx.control_node, provides=PKI_ISSUED)
        g.add("host", Reached(name="host"), on=ctx.hosts(), provides=HOST_READY)
        g.add("runtime", Reached(name="runtime"), on=nodes(ctx), provides=RUNTIME_READY)
        g.add("images", Reached(name="images"), on=nodes(ctx), provides=IMAGES_PRESENT)
        g.add("kubelet", Reached(name="kubelet"), on=nodes(ctx), provides=KUBELET_INSTALLED)
        g.add("etcd", Reached(name="etcd"), on=ctx.hosts("etcd")[:1], provides=ETCD_QUORUM)
        g.add("balancer", Reached(name="balancer"), on=balanced(ctx), provides=BALANCER_READY)
        return g.build()


class Others(Module):
    """Every other component."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_Others(),)


def graph_of(context: Context, *modules: type[Module]) -> ExecutionGraph:
    """The plan of these modules among all others."""
    return link(Others, *modules).graph(context.pipeline_context(), name="test")
