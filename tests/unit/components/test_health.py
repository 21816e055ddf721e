"""Asking units how they are: once to look, on the host to wait, and their own last words if they never come up."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.components.health import PortListened, ProgramAnswers, last_line
from kubexm.errors import CommandError
from kubexm.runner import Facts
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
    return make(tmp_path)


@pytest.fixture
def port() -> Iterator[int]:
    """A port somebody listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def make(root: Path, *commands: str) -> Bench:
    """A host with these programs beside the usual ones, whose kubectl and curl note what they are asked."""
    facts = Facts.assumed()
    bench = Bench.make(root, facts=replace(facts, commands=(*facts.commands, *commands)))
    bench.program("systemctl", SYSTEMCTL.format(root=root, step=0, active=0))
    bench.program("journalctl", "echo 'F1116 etcd is not what it was'")
    for name in ("kubectl", "curl"):
        answers(bench, name)
    return bench


def answers(bench: Bench, name: str, script: str = "echo ok") -> None:
    bench.program(name, f'echo "$*" >>{bench.root}/{name}.asked\n{script}')


def asked(bench: Bench, name: str) -> list[str]:
    path = bench.root / f"{name}.asked"
    return path.read_text().splitlines() if path.exists() else []


def api_server(port: int, *, within: int = 180) -> ProgramAnswers:
    return ProgramAnswers(unit="kube-apiserver", path="/readyz", port=port, api=True, within=within)


async def test_the_api_server_is_asked_as_the_super_administrator(bench: Bench, port: int) -> None:
    assert (await bench.check(api_server(port))).satisfied
    assert asked(bench, "kubectl") == [
        "--kubeconfig /etc/kubernetes/super-admin.conf --request-timeout 5s get --raw /readyz"
    ]
    assert not asked(bench, "curl"), "the host has none"


async def test_nobody_is_asked_before_somebody_listens(tmp_path: Path) -> None:
    bench = make(tmp_path, "curl")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        for step in (api_server(port), ProgramAnswers(unit="kube-scheduler", path="/healthz", port=port)):
            assert (await bench.check(step)).reason == f"nobody listens on port {port} yet"
    # Starting a program to hear that would be waste.
    assert not asked(bench, "kubectl")
    assert not asked(bench, "curl")


async def test_other_programs_are_asked_with_a_certificate_and_no_secret(bench: Bench, port: int) -> None:
    assert (await bench.check(ProgramAnswers(unit="kube-scheduler", path="/healthz", port=port))).satisfied
    (said,) = asked(bench, "kubectl")
    assert f"--kubeconfig /dev/null --server https://127.0.0.1:{port} --insecure-skip-tls-verify" in said
    assert "--client-certificate /etc/kubernetes/pki/apiserver-kubelet-client.crt" in said
    assert "token" not in said


async def test_where_there_is_curl_it_is_enough(tmp_path: Path, port: int) -> None:
    bench = make(tmp_path, "curl")
    assert (await bench.check(api_server(port))).satisfied
    assert (await bench.check(ProgramAnswers(unit="kube-scheduler", path="/healthz", port=port))).satisfied
    api, other = asked(bench, "curl")
    pki = "/etc/kubernetes/pki"
    assert f"--cacert {pki}/ca.crt --cert {pki}/apiserver-kubelet-client.crt" in api
    assert api.endswith(f"https://127.0.0.1:{port}/readyz")
    assert "--insecure" not in api
    assert "--insecure" in other
    assert "apiserver-kubelet-client" not in other
    for said in (api, other):
        assert said.startswith("-q --silent --show-error --fail "), "no settings of root's, and errors count"
        assert "--noproxy * --max-time 5" in said
    assert not asked(bench, "kubectl")


async def test_what_curl_does_not_say_yes_to_is_asked_in_full(tmp_path: Path, port: int) -> None:
    bench = make(tmp_path, "curl")
    answers(bench, "curl", "echo 'curl: (22) The requested URL returned error: 403' >&2; exit 22")
    assert (await bench.check(api_server(port))).satisfied, "curl's identity may have no right to ask"
    answers(bench, "kubectl", "echo '[-]etcd failed' >&2; exit 1")
    assert (await bench.check(api_server(port))).reason == "[-]etcd failed"


async def test_waiting_is_done_with_curl_and_failing_told_by_kubectl(tmp_path: Path, port: int) -> None:
    bench = make(tmp_path, "curl")
    answers(bench, "curl", f"[ $(wc -l <{tmp_path}/curl.asked) -gt 4 ] || exit 22")
    answers(bench, "kubectl", "echo 'rbac/bootstrap-roles failed' >&2; exit 1")
    await bench.reach(api_server(port))
    assert len(asked(bench, "curl")) == 6
    assert len(asked(bench, "kubectl")) == 1, "by the first check alone"
    answers(bench, "curl", "exit 22")
    with pytest.raises(CommandError, match=r"kube-apiserver answers /readyz \(rbac/bootstrap-roles failed\)"):
        await bench.run(api_server(port, within=1))
    assert len(asked(bench, "kubectl")) == 2, "and once at the end"


async def test_an_answer_in_full_ends_the_wait_where_curl_has_no_right(tmp_path: Path, port: int) -> None:
    bench = make(tmp_path, "curl")
    answers(bench, "curl", "exit 22")
    await bench.run(api_server(port))
    assert (len(asked(bench, "curl")), len(asked(bench, "kubectl"))) == (10, 1)


async def test_what_is_not_ready_yet_is_waited_for_in_one_command(bench: Bench, port: int) -> None:
    answers(
        bench,
        "kubectl",
        f"[ $(wc -l <{bench.root}/kubectl.asked) -gt 3 ] || {{ echo 'rbac/bootstrap-roles failed' >&2; exit 1; }}",
    )
    step = api_server(port)
    assert (await bench.check(step)).reason == "rbac/bootstrap-roles failed"
    before = bench.connector.reads
    await bench.reach(step)
    assert not any(command.changes for command in bench.connector.commands)
    assert bench.connector.reads - before <= 3
    assert len(asked(bench, "kubectl")) == 5


async def test_one_that_keeps_falling_over_is_given_up_with_its_last_words(bench: Bench, port: int) -> None:
    bench.program("systemctl", SYSTEMCTL.format(root=bench.root, step=1, active=0))
    answers(bench, "kubectl", "echo 'connection refused' >&2; exit 1")
    with pytest.raises(CommandError) as caught:
        await bench.run(api_server(port))
    error = caught.value
    assert "kube-apiserver answers /readyz (connection refused)" in error.message
    assert "etcd is not what it was" in error.message
    assert "journalctl -u kube-apiserver.service` on n1" in error.hint


async def test_one_that_never_answers_is_given_up_after_a_while(bench: Bench, port: int) -> None:
    answers(bench, "kubectl", "echo 'not ready' >&2; exit 1")
    with pytest.raises(CommandError, match="not ready"):
        await bench.run(api_server(port, within=1))


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
