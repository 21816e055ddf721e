"""Which peers a host tries, and what the tries mean: real connections on this machine's own loopback."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubexm.components.preflight import reach
from kubexm.components.preflight.check import Finding
from kubexm.components.preflight.reach import Peer, PeersReachable, Target
from kubexm.connector import Command
from kubexm.pipeline.preflight import PreflightPipeline
from kubexm.runtime import Transcript, UnitConnector
from tests.unit.components.preflight.fleet import Fleet, cluster
from tests.unit.step.bench import Bench


def targets(fleet: Fleet, host: str, tmp_path: Path) -> set[str]:
    """What this host tries, as `host:port`."""
    tried: set[str] = set()
    context = fleet.context(tmp_path)
    addresses = {each.address: each.name for each in context.hosts}
    node = PreflightPipeline().plan(context.pipeline_context()).nodes["preflight.network.reachability"]
    assert isinstance(node.step, PeersReachable)
    step_context = context.step_context(node.id, UnitConnector(fleet.connectors[host], Transcript), "r1")
    for target in node.step.targets(step_context):
        tried.add(f"{addresses.get(target.address, target.address)}:{target.port}")
    return tried


def test_what_must_work_is_tried(tmp_path: Path) -> None:
    fleet = Fleet()
    assert targets(fleet, "w1", tmp_path) == {"cp1:6443", "cp2:6443", "cp3:6443", "w2:10250"}
    assert targets(fleet, "w2", tmp_path) == {"cp1:6443", "cp2:6443", "cp3:6443", "cp1:10250"}
    assert targets(fleet, "cp1", tmp_path) == {
        *(f"{host}:{port}" for host in ("cp2", "cp3") for port in (6443, 2379, 2380)),
        "cp2:10250",
        "w1:10250",
    }


def test_every_kubelet_is_tried_by_somebody(tmp_path: Path) -> None:
    fleet = Fleet()
    tried = set().union(*(targets(fleet, host, tmp_path) for host in fleet.facts))
    assert {f"{host}:10250" for host in fleet.facts} <= tried


def test_separate_etcd_and_outside_services(tmp_path: Path) -> None:
    more = (
        "controlPlaneEndpoint: {loadBalancer: external, address: 10.0.0.99}\n"
        "etcd: {type: external, external: {endpoints: ['https://10.0.9.1:2379'], "
        "caFile: a, certFile: b, keyFile: c}}"
    )
    fleet = Fleet(cluster(more).replace('    etcd: ["cp[1:3]"]\n', ""))
    assert {"10.0.9.1:2379", "10.0.0.99:6443"} < targets(fleet, "cp1", tmp_path)
    assert "10.0.9.1:2379" not in targets(fleet, "w1", tmp_path)
    assert "10.0.0.99:6443" in targets(fleet, "w1", tmp_path)


def test_the_number_of_tries_stays_small(tmp_path: Path) -> None:
    entries = [f'    - {{name: "w{i}[001:250]", address: "10.1.{i}.[1:250]"}}\n' for i in range(4)]
    text = re.sub(r'    - \{name: "w.*\n', "".join(entries), cluster("network: {podCIDR: 10.128.0.0/9}"))
    fleet = Fleet(text.replace('"w[1:2]"', ", ".join(f'"w{i}[001:250]"' for i in range(4))))
    assert len(targets(fleet, "cp1", tmp_path)) < 30
    assert len(targets(fleet, "w2100", tmp_path)) == 4


async def test_a_single_host_tries_nothing(tmp_path: Path) -> None:
    text = (
        re.sub(r'    - \{name: "w.*\n', "", cluster())
        .replace('"cp[1:3]"', "cp1")
        .replace("10.0.0.[11:13]", "10.0.0.11")
    )
    fleet = Fleet(text.replace('worker: ["w[1:2]"]', "worker: [cp1]"))

    def refuse(command: Command) -> str:
        raise AssertionError(command.script)

    fleet.reach = refuse
    assert (await fleet.preflight(tmp_path)).errors == {}


async def test_what_is_not_reached_is_told_by_host(tmp_path: Path) -> None:
    fleet = Fleet()

    def answer(command: Command) -> str:
        lines = []
        for index, address, port in re.findall(r"^kx_try (\d+) (\S+) (\d+)", command.script, re.MULTILINE):
            verdict = "silent" if address == "10.0.0.12" else "unreachable" if port == "10250" else "refused"
            lines.append(f"{index} {verdict}")
        return "\n".join(lines)

    fleet.reach = answer
    report = await fleet.preflight(tmp_path)
    message, hint = report.errors["reachability", "w1"]
    assert message == (
        "it does not reach cp2 (10.0.0.12) on TCP 6443 (kube-apiserver): no answer in 3 s; "
        "it does not reach w2 (10.0.0.22) on TCP 10250 (kubelet): no way there"
    )
    assert "firewall" in hint


async def test_a_host_with_nothing_to_try_with_is_warned_about(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.reach = lambda command: "0 unknown\n1 pinged\n2 refused\n3 refused\n"
    report = await fleet.preflight(tmp_path)
    assert ("reachability", "w1") not in report.errors
    assert "could not be tried" in report.warnings["reachability", "w1"][0]


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


async def tried(bench: Bench, *outside: Target) -> list[Finding]:
    """What a control plane that is alone finds outside."""
    peers = (Peer(name="n1", address="127.0.0.2", control_plane=True, node=True),)
    step = PeersReachable(
        peers=peers, api_port=1, etcd_client_port=2, etcd_peer_port=3, kubelet_port=4, outside=outside
    )
    ctx = bench.context.step_context("bench.steps.reach", UnitConnector(bench.connector, Transcript), "r1")
    return await step.find(ctx)


def etcd(port: int, address: str = "127.0.0.1", *, must_listen: bool = True) -> Target:
    return Target(name="etcd1", address=address, port=port, what="etcd", must_listen=must_listen)


@pytest.fixture(params=["bash", "curl"])
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Only this program is there."""
    for other in ("bash", "curl", "nc", "ping"):
        if other != request.param:
            monkeypatch.setattr(reach, "_TRY", reach._TRY.replace(f"command -v {other} >/dev/null", "false"))
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    monkeypatch.setattr(reach, "_PATIENCE", 1)
    return str(request.param)


async def test_open_and_refused(bench: Bench, tool: str, listening: int, closed: int) -> None:
    assert await tried(bench, etcd(listening)) == []
    assert await tried(bench, etcd(closed, must_listen=False)) == []
    (finding,) = await tried(bench, etcd(listening), etcd(closed))
    assert finding.problem == f"it does not reach etcd1 (127.0.0.1) on TCP {closed} (etcd): refused"
    assert "running" in finding.remedy


async def test_a_listener_that_does_not_answer(bench: Bench, tool: str) -> None:
    with socket.socket() as server, contextlib.ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):  # the kernel drops what does not fit into the backlog, as a firewall would
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        (finding,) = await tried(bench, etcd(server.getsockname()[1], must_listen=False))
    assert finding.problem.endswith("no answer in 1 s")


async def test_a_name_that_nobody_knows(bench: Bench, tool: str) -> None:
    (finding,) = await tried(bench, etcd(2379, "etcd.invalid"))
    assert finding.problem.endswith("its name does not resolve")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("bash: connect: No route to host", "no way there"),
        ("bash: connect: Network is unreachable", "no way there"),
        ("bash: connect: Connection timed out", "no answer in 3 s"),
    ],
)
async def test_other_answers(bench: Bench, said: str, verdict: str) -> None:
    bench.program("bash", f"echo '{said}' >&2; exit 1")
    (finding,) = await tried(bench, etcd(2379, must_listen=False))
    assert finding.problem.endswith(verdict)


@pytest.mark.parametrize(("code", "reached"), [(0, True), (1, False)])
async def test_ping_alone_tells_of_the_host_only(
    bench: Bench, code: int, reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("bash", "curl", "nc"):
        monkeypatch.setattr(reach, "_TRY", reach._TRY.replace(f"command -v {other} >/dev/null", "false"))
    bench.program("ping", f"exit {code}")
    (finding,) = await tried(bench, etcd(2379, must_listen=False))
    assert finding.warning == reached


async def test_the_sixth_version(bench: Bench, tool: str) -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with server:
        assert await tried(bench, etcd(server.getsockname()[1], "::1")) == []
