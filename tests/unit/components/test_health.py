"""Asking units how they are: once to look, on the host to wait, and their own last words if they never come up."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kubexm.components.health import PortListened, ProgramAnswers, last_line
from kubexm.errors import CommandError
from tests.unit.step.bench import Bench

SYSTEMCTL = """\
case "$*" in
  *NRestarts*) n=$(cat {root}/restarts 2>/dev/null || echo 0); echo "$n"; echo $((n + {step})) >{root}/restarts ;;
  *LoadState*) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nInvocationID=i1\\n' ;;
  *is-active*) exit {active} ;;
esac
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench.make(tmp_path)
    bench.program("systemctl", SYSTEMCTL.format(root=tmp_path, step=0, active=0))
    bench.program("journalctl", "echo 'F1116 etcd is not what it was'")
    return bench


async def test_the_api_server_is_asked_as_the_super_administrator(bench: Bench, tmp_path: Path) -> None:
    bench.program("kubectl", f'echo "$*" >>{tmp_path}/asked; echo ok')
    assert (await bench.check(ProgramAnswers(unit="kube-apiserver", path="/readyz"))).satisfied
    asked = (tmp_path / "asked").read_text()
    assert asked == "--kubeconfig /etc/kubernetes/super-admin.conf --request-timeout 5s get --raw /readyz\n"


async def test_other_programs_are_asked_with_a_certificate_and_no_secret(bench: Bench, tmp_path: Path) -> None:
    bench.program("kubectl", f'echo "$*" >>{tmp_path}/asked; echo ok')
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        step = ProgramAnswers(unit="kube-scheduler", path="/healthz", port=port)
        assert (await bench.check(step)).reason == f"nobody listens on port {port} yet"
        assert not (tmp_path / "asked").exists()  # starting a program to hear that would be waste
        server.listen()
        assert (await bench.check(step)).satisfied
    asked = (tmp_path / "asked").read_text()
    assert f"--kubeconfig /dev/null --server https://127.0.0.1:{port} --insecure-skip-tls-verify" in asked
    assert "--client-certificate /etc/kubernetes/pki/apiserver-kubelet-client.crt" in asked
    assert "token" not in asked


async def test_what_is_not_ready_yet_is_waited_for_in_one_command(bench: Bench, tmp_path: Path) -> None:
    counter = tmp_path / "n"
    bench.program(
        "kubectl",
        f"n=$(cat {counter} 2>/dev/null || echo 0); echo $((n + 1)) >{counter}\n"
        "[ $n -ge 3 ] || { echo 'rbac/bootstrap-roles failed' >&2; exit 1; }",
    )
    step = ProgramAnswers(unit="kube-apiserver", path="/readyz")
    assert (await bench.check(step)).reason == "rbac/bootstrap-roles failed"
    before = bench.connector.reads
    await bench.reach(step)
    assert not any(command.changes for command in bench.connector.commands)
    assert bench.connector.reads - before <= 3
    assert counter.read_text().strip() == "5"


async def test_one_that_keeps_falling_over_is_given_up_with_its_last_words(bench: Bench, tmp_path: Path) -> None:
    bench.program("systemctl", SYSTEMCTL.format(root=tmp_path, step=1, active=0))
    bench.program("kubectl", "echo 'connection refused' >&2; exit 1")
    with pytest.raises(CommandError) as caught:
        await bench.run(ProgramAnswers(unit="kube-apiserver", path="/readyz"))
    error = caught.value
    assert "kube-apiserver answers /readyz (connection refused)" in error.message
    assert "etcd is not what it was" in error.message
    assert "journalctl -u kube-apiserver.service` on n1" in error.hint


async def test_one_that_never_answers_is_given_up_after_a_while(bench: Bench) -> None:
    bench.program("kubectl", "echo 'not ready' >&2; exit 1")
    with pytest.raises(CommandError, match="not ready"):
        await bench.run(ProgramAnswers(unit="kube-apiserver", path="/readyz", within=1))


async def test_a_port_counts_if_the_unit_is_up_and_somebody_listens(bench: Bench, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        step = PortListened(unit="kube-proxy", port=port)
        assert (await bench.check(step)).satisfied
        bench.program("systemctl", SYSTEMCTL.format(root=tmp_path, step=0, active=3))
        assert not (await bench.check(step)).satisfied
    bench.program("systemctl", SYSTEMCTL.format(root=tmp_path, step=0, active=0))
    assert not (await bench.check(step)).satisfied


def test_what_they_touch_and_say() -> None:
    step = PortListened(unit="kube-proxy", port=10256)
    assert step.reads() == {"unit:kube-proxy.service"}
    assert not step.writes()
    assert step.describe() == "kube-proxy listens on port 10256"
    assert last_line("a\n\n b \n\n") == "b"
    assert last_line("") == ""
