"""A node that was deleted from the API while its kubelet ran is brought back; all others are left alone."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from kubexm.components.nodes.rejoining import _LEAVE, NODES_LISTED, NodesListed, NodeStillRegistered, still_registered
from kubexm.connector import Command
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.components.around import cluster, context_of
from tests.unit.components.kube_api import changed
from tests.unit.components.nodes.test_nodes import Nodes, row

REGISTERED = re.compile(r"(?s).*ActiveEnterTimestampMonotonic.*journalctl.*")
ASK = re.compile(r"(?s).*kubectl.*get node n1.*")
LEAVE = re.compile(r"(?s).*systemctl stop kubelet.*rmp -f.*")
RESTART = re.compile(r"(?s).*kx_start /\S+ \S+ kubelet\.service restart .*")
AWAIT = re.compile(r"(?s).*until journalctl.*")


class Host:
    """A node that can be asked, and that records what was done to it."""

    def __init__(self, tmp_path: Path, *, listed: list[str] | None = None) -> None:
        self.connector = MemoryConnector("n1")
        context = memory_context(tmp_path, {"n1": self.connector})
        self.ctx: StepContext = context.step_context(
            "nodes.join.restored", UnitConnector(self.connector, Transcript), "r"
        )
        if listed is not None:
            self.ctx.cache.set(NODES_LISTED, listed)
        self.done: list[str] = []
        for name, pattern in (("leave", LEAVE), ("restart", RESTART), ("await", AWAIT)):
            self.connector.on(pattern, callback=partial(self._did, name))

    def _did(self, name: str, command: Command) -> None:
        self.done.append(name)


@pytest.mark.parametrize("registered", [True, False])
async def test_a_worker_that_the_api_knows_is_left_alone(tmp_path: Path, registered: bool) -> None:
    host = Host(tmp_path, listed=["n1", "n2"])
    host.connector.on(REGISTERED, exit_code=0 if registered else 44)
    assert (await NodeStillRegistered().precheck(host.ctx)).satisfied


async def test_a_kubelet_that_has_just_started_is_left_to_register(tmp_path: Path) -> None:
    for host in (Host(tmp_path / "worker", listed=[]), Host(tmp_path / "control-plane")):
        host.connector.on(REGISTERED, exit_code=44)
        step = NodeStillRegistered(control_plane=not host.ctx.has(NODES_LISTED))
        assert (await step.precheck(host.ctx)).satisfied
        assert len(host.connector.scripts) == 1, "the API is not asked"


async def test_a_deleted_worker_leaves_its_network_is_restarted_and_registers(tmp_path: Path) -> None:
    host, step = (
        Host(tmp_path, listed=["n2"]),
        still_registered(context_of(cluster(), tmp_path).cluster, control_plane=False),
    )
    host.connector.on(REGISTERED)
    check = await step.precheck(host.ctx)
    assert (check.satisfied, check.reason) == (False, "the node was deleted from the API while its kubelet ran")
    await changed(host.ctx, step)
    assert host.done == ["leave", "restart", "await"]
    leave = next(script for script in host.connector.scripts if "rmp -f" in script)
    assert "for n in kube-flannel;" in leave
    assert "for l in cni0 flannel.1 flannel-v6.1;" in leave
    assert (await step.precheck(host.ctx)).satisfied, "the list was older than that"


async def test_pods_on_the_pod_network_and_those_of_the_plugin_go_and_no_others(tmp_path: Path) -> None:
    attached, own, other = ("a" * 64, "b" * 64, "c" * 64)
    networks, removed = tmp_path / "networks" / "cbr0", tmp_path / "removed"
    networks.mkdir(parents=True)
    (networks / "10.244.1.2").write_text(f"{attached}\r\neth0")  # without a newline, as the plugin writes it
    (networks / "last_reserved_ip.0").write_text("10.244.1.2")
    stubs = f"""systemctl() {{ :; }}; ip() {{ :; }}; timeout() {{ shift; "$@"; }}
crictl() {{ case "$*" in
  *rmp*) for w; do :; done; echo "$w" >>{removed} ;;
  *--namespace*) echo {own} ;;
  *) printf '%s\\n' {attached} {own} {other} ;;
esac; }}
"""
    script = _LEAVE.format(namespaces="kube-flannel", links="none", directories=f"{tmp_path}/nothing")
    script = script.replace("/var/lib/cni/networks", str(networks.parent))
    subprocess.run(["sh", "-c", stubs + script], check=True)
    assert removed.read_text().split() == [attached, own]


async def test_a_network_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    host, step = (
        Host(tmp_path, listed=[]),
        still_registered(context_of(cluster("network: {plugin: none}"), tmp_path).cluster, control_plane=False),
    )
    await changed(host.ctx, step)
    assert host.done == ["restart", "await"]


async def test_a_deleted_control_plane_asks_its_own_api_server(tmp_path: Path) -> None:
    host, step = Host(tmp_path), NodeStillRegistered(control_plane=True)
    host.connector.on(REGISTERED)
    host.connector.on(ASK, stdout="node/n1\n", times=1)
    assert (await step.precheck(host.ctx)).satisfied
    host.connector.on(ASK, stdout="", times=1)
    assert not (await step.precheck(host.ctx)).satisfied
    await changed(host.ctx, step)
    assert host.done == ["restart", "await"]


async def test_an_api_that_does_not_answer_is_no_reason_to_restart(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.connector.on(REGISTERED)
    host.connector.on(ASK, exit_code=1, stderr="connection refused\n")
    assert (await NodeStillRegistered(control_plane=True).precheck(host.ctx)).satisfied


async def test_the_list_has_all_nodes(tmp_path: Path) -> None:
    check = await NodesListed().precheck(Nodes(row("n2"), row("n1", ready=False)).context(tmp_path))
    assert check.values == {NODES_LISTED: ["n1", "n2"]}
