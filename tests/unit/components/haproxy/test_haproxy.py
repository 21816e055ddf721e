"""The load balancer: its configuration and unit in golden files, where it runs, and what it waits for."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.haproxy import LoadBalancer
from kubexm.components.haproxy.config import CA, CONFIG, configuration, service
from kubexm.components.health import PortListened
from kubexm.components.host_files import FilesPresent
from kubexm.components.milestones import BALANCER_READY, HOST_READY, PKI_ISSUED
from kubexm.components.topology import plain_nodes
from kubexm.module import Module, link
from kubexm.plan import ExecutionFragment, ExecutionGraph
from kubexm.redact import SecretRef
from kubexm.runner.facts.model import Interface, Network
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.step import ServiceRunning
from kubexm.task import FragmentBuilder, Task
from tests.unit.components.around import SINGLE, Reached, cluster, context_of

GOLDEN = Path(__file__).parent / "golden"
ENTRANCES = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: prod}}
spec:
  hosts:
    - {{name: "cp[1:2]", address: "10.0.0.[11:12]"}}
    - {{name: "w[1:2]", address: "10.0.0.[21:22]"}}
    - {{name: lb, address: 10.0.0.31}}
  roleGroups:
    etcd: [cp1]
    controlPlane: ["cp[1:2]"]
    worker: ["w[1:2]"]
    loadbalancer: [lb, w2]
{more}"""


class _Before(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("before.all")
        g.add("pki", Reached(name="pki"), on=ctx.control_node, provides=PKI_ISSUED)
        g.add("host", Reached(name="host"), on=ctx.hosts(), provides=HOST_READY)
        return g.build()


class Before(Module):
    """What the balancer waits for."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_Before(),)


class _After(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("after.all")
        g.add("join", Reached(name="join"), on=plain_nodes(ctx), needs=BALANCER_READY)
        return g.build()


class After(Module):
    """What waits for the balancer."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_After(),)


def plan(tmp_path: Path, text: str, **facts: Any) -> ExecutionGraph:
    context = context_of(text, tmp_path, facts)
    graph = link(Before, LoadBalancer, After).graph(context.pipeline_context(), name="test")
    assert ExecutionGraph.from_dict(json.loads(json.dumps(graph.to_dict()))).to_json() == graph.to_json()
    return graph


def configurations(graph: ExecutionGraph) -> dict[str, str]:
    """The configuration of each host."""
    step = graph.nodes["haproxy.install.files"].step
    assert isinstance(step, FilesPresent)
    files = [file for file in step.files if file.path == CONFIG]
    return {host: str(file.content) for file in files for host in file.hosts}


def lines(text: str, word: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith(f"{word} ")]


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new text"


def test_golden_configuration(tmp_path: Path) -> None:
    golden("haproxy.cfg", configurations(plan(tmp_path, cluster()))["w1"])


@pytest.mark.parametrize("port", [443, 6443])
def test_golden_unit(port: int) -> None:
    golden(f"kubexm-haproxy-{port}.service", service("prod", port=port))


def test_every_node_that_is_no_control_plane_has_its_own(tmp_path: Path) -> None:
    graph = plan(tmp_path, cluster())
    for node in ("user", "program", "files", "start", "listening"):
        assert graph.nodes[f"haproxy.install.{node}"].hosts == ("w1", "w2")
    for text in configurations(graph).values():
        assert lines(text, "bind") == ["bind 127.0.0.1:6443"]
        assert lines(text, "server") == [f"server cp{n} 10.0.0.1{n}:6443" for n in (1, 2, 3)]


def test_entrances_listen_to_everybody(tmp_path: Path) -> None:
    v6 = Network(interfaces=(Interface(name="eth0", addresses=("10.0.0.31/24", "fd00::31/64")),))
    found = configurations(plan(tmp_path, cluster(hosts=ENTRANCES), lb={"network": v6}))
    assert lines(found["w1"], "bind") == ["bind 127.0.0.1:6443"]
    assert lines(found["w2"], "bind") == ["bind *:6443"], "a node that is an entrance too"
    assert lines(found["lb"], "bind") == ["bind *:6443", "bind :::6443 v6only"]


def test_it_listens_before_its_node_joins_and_whether_or_not_an_api_server_is_there(tmp_path: Path) -> None:
    graph = plan(tmp_path, cluster())
    listening = graph.nodes["haproxy.install.listening"]
    assert isinstance(listening.step, PortListened)
    assert listening.step.port == 6443
    assert graph.nodes["after.all.join"].after_same_host == ("haproxy.install.listening",)
    assert graph.nodes["haproxy.install.program"].after_same_host == (), "what is only sent waits for nothing"
    assert not any(node.after for node in graph.nodes.values() if node.id != "haproxy.install.files")


def test_changes_are_taken_over_by_a_reload(tmp_path: Path) -> None:
    start = plan(tmp_path, cluster()).nodes["haproxy.install.start"].step
    assert isinstance(start, ServiceRunning)
    assert start.reload
    assert CONFIG.parent in start.inputs


def test_backends_are_proven_by_the_clusters_own_ca(tmp_path: Path) -> None:
    graph = plan(tmp_path, cluster())
    step = graph.nodes["haproxy.install.files"].step
    assert isinstance(step, FilesPresent)
    (ca,) = [file for file in step.files if file.path == CA]
    assert ca.content == SecretRef("pki.ca.crt")
    assert f"verify required ca-file {CA}" in configurations(graph)["w1"]


def test_no_balancer_where_nobody_needs_one(tmp_path: Path) -> None:
    graph = plan(tmp_path / "a", cluster(hosts=SINGLE))
    assert all(not node.hosts for node in graph.nodes.values() if node.id.startswith("haproxy."))
    text = cluster("controlPlaneEndpoint: {loadBalancer: external, address: 10.0.0.100}")
    context = context_of(text, tmp_path / "b")
    assert not LoadBalancer().fragment(context.pipeline_context().for_module())


def test_the_more_ask_the_more_rarely_each_does() -> None:
    def pace(balancers: int) -> str:
        return configuration([("cp1", "10.0.0.11")], port=6443, binds=["127.0.0.1:6443"], balancers=balancers)

    assert "inter 2000ms fastinter 500ms downinter 500ms" in pace(3)
    assert "inter 8000ms fastinter 500ms downinter 2000ms" in pace(1000)
    changes = [count for count in range(1, 1000) if pace(count) != pace(count + 1)]
    assert len(changes) == 2, "one host more or less rarely changes the configuration of all the others"


def test_ipv6_servers_are_in_brackets() -> None:
    text = configuration([("cp1", "fd00::11")], port=443, binds=["127.0.0.1:443"], balancers=1)
    assert lines(text, "server") == ["server cp1 [fd00::11]:443"]


def test_equal_configurations_are_in_the_plan_once(tmp_path: Path) -> None:
    step = plan(tmp_path, cluster()).nodes["haproxy.install.files"].step
    assert isinstance(step, FilesPresent)
    assert [file.hosts for file in step.files if file.path == CONFIG] == [("w1", "w2")]
