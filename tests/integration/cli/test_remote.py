"""`kubexm --server`: the same verbs through a real server with TLS, on hosts behind real sshd; same words and codes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import REPO, Fleet

SUDO = "sesame-open-the-door"


class Serving:
    """A server process, which can be killed and started again at the same address."""

    def __init__(self, directory: Path, *more: str) -> None:
        self.data = directory / "server"
        self._log = directory / "server.log"
        self._more = more
        self._port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.url = self.token = self.fingerprint = ""

    def start(self) -> None:
        words = ["serve", "--data-dir", str(self.data), "--listen", f"127.0.0.1:{self._port}", *self._more]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBEXM_")}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.cli.work_pipeline", *words],
                stdout=log,
                stderr=log,
                env={**environment, "PYTHONPATH": str(REPO)},
            )
        deadline = time.monotonic() + 60
        while "token:" not in self._log.read_text():
            assert time.monotonic() < deadline, self._log.read_text()
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.05)
        text = self._log.read_text()
        self.url = _found(r"serves at (\S+)", text)
        self.token = self.token or Path(_found(r"token: +in (\S+)", text)).read_text().strip()
        self.fingerprint = _found(r"SHA-256 (\S+)", text) if "SHA-256" in text else ""

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]


def _free_port() -> int:
    with socket.socket() as near:
        near.bind(("127.0.0.1", 0))
        return int(near.getsockname()[1])


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Shared, since starting one takes a while: what it has of other tests must not matter."""
    made = Serving(tmp_path_factory.mktemp("serving"), "--tls-self-signed")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def remote(fleet: Fleet, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """The command line, for which the environment names the server."""
    token = fleet.file.parent / "token"
    token.touch(0o600)
    token.write_text(f"{serving.token}\n")
    for name, value in {
        "KUBEXM_SERVER": serving.url,
        "KUBEXM_TOKEN_FILE": str(token),
        "KUBEXM_SERVER_FINGERPRINT": serving.fingerprint,
    }.items():
        monkeypatch.setenv(name, value)
    return fleet


@pytest.fixture
def here(remote: Fleet, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The same command line, without the server."""

    def run(*words: str, check: int = 0) -> str:
        with monkeypatch.context() as without:
            without.delenv("KUBEXM_SERVER")
            return remote.kubexm(*words, check=check).stdout

    return run


def let_go(fleet: Fleet) -> None:
    for host in fleet.servers:
        fleet.on(host, "touch /run/go")


def without_times(text: str) -> list[str]:
    """What was printed, but for run ids and seconds; steps end in any order."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]+", "RUN", text)
    text = re.sub(r"\(?\b\d+(\.\d+)? (ms|s|min)\b\)?", "TIME", text)
    return sorted(re.sub(r"^ +\d+\.\d+ ", "", line) for line in text.splitlines())


def test_what_the_file_takes_from_this_machine_is_uploaded(
    remote: Fleet, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPS_SUDO", SUDO)
    text = (
        remote.file.read_text()
        .replace("name: try", "name: fresh")
        .replace("spec:\n", "spec:\n  global: {sudoPassword: 'env:OPS_SUDO'}  # sudo\n")
    )
    remote.file.write_text(text)
    done = remote.kubexm("config", "upload").stdout
    assert done == f"fresh: registered at {serving.url}, version 1\n"
    assert "unchanged" in remote.kubexm("config", "upload").stdout
    remote.file.write_text(text.replace("maxFailedWorkers: 0", "maxFailedWorkers: 0, parallel: 7"))
    assert "updated" in remote.kubexm("config", "upload").stdout
    sent = remote.kubexm("plan", "create", "--offline", "-o", "json").stdout
    assert SUDO not in sent
    key = Path(remote.servers["n1"].private_key).read_bytes()
    for path in serving.data.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert SUDO.encode() not in content, path
            assert key not in content, path
    assert SUDO.encode() not in Path(f"/proc/{serving.process.pid}/environ").read_bytes()  # type: ignore[union-attr]
    remote.file.write_text(text.replace("address: 127.0.0.21", "type: local"))
    refused = remote.kubexm("preflight", check=2)
    assert "cluster.yaml:7" in refused.stderr
    assert "would be the server itself" in refused.stderr


def test_the_same_verbs_say_the_same(remote: Fleet, here: Callable[..., str]) -> None:
    for words, code in ((["preflight"], 1), (["plan", "create"], 0)):
        assert without_times(here(*words, check=code)) == without_times(remote.kubexm(*words, check=code).stdout)
    let_go(remote)
    local = here("create", "cluster")
    for host in remote.servers:
        remote.on(host, "rm -rf /run/work /run/gone")
    there = remote.kubexm("create", "cluster")
    assert without_times(there.stdout) == without_times(local)
    assert "create: done after" in there.stdout
    again = remote.kubexm("create", "cluster").stdout
    assert "nothing changed, all is as it should be" in again
    assert remote.kubexm("kubeconfig", check=1).stderr.startswith("error: try has no kubeconfig yet")
    remote.kubexm("delete", "cluster", "--yes")

    listed = json.loads(remote.kubexm("runs", "list", "-n", "5", "-o", "json").stdout)
    assert [run["pipeline"] for run in listed] == [
        "delete",
        "create",
        "create",
        "plan create",
        "preflight",
    ]
    assert listed[0]["units"] == 6
    made = listed[2]["id"]
    shown = remote.kubexm("runs", "show", made).stdout
    assert "status    succeeded" in shown
    assert re.search(r"\+ work.do.wait on n[12], n[12]\n", shown)
    assert "/api/v1/tasks/" in shown
    drawn = remote.kubexm("runs", "graph", made, "-o", "mermaid").stdout
    assert "3 nodes on 2 hosts, 6 units: succeeded after " in drawn
    assert "work.do.wait" in remote.kubexm("runs", "timeline", made).stdout
    traced = json.loads(remote.kubexm("runs", "timeline", made, "-o", "trace").stdout)
    assert traced
    failed = remote.kubexm("runs", "logs", listed[-1]["id"], "preflight.system", "--failed").stdout
    assert "── preflight.system.init on n1: failed" in failed
    assert remote.kubexm("runs", "show", "nonsense", check=2).stderr.startswith("error: there is no run 'nonsense'")


def test_a_plan_is_saved_and_carried_out_where_it_was_made(remote: Fleet, here: Callable[..., str]) -> None:
    remote.kubexm("plan", "create", "--save", "there.kxp")
    here("plan", "create", "--save", "here.kxp")
    let_go(remote)
    assert "6 would change" in remote.kubexm("apply", "there.kxp", "--dry-run").stdout
    assert "create: done after" in remote.kubexm("apply", "there.kxp").stdout
    refused = remote.kubexm("apply", "here.kxp", check=2)
    assert "has no such plan of try" in refused.stderr


def test_a_failure_is_told_in_the_same_words_and_resumed(remote: Fleet, here: Callable[..., str]) -> None:
    let_go(remote)
    remote.on("n2", "touch /run/broken")
    local = here("create", "cluster", check=1)
    for host in remote.servers:
        remote.on(host, "rm -rf /run/work /run/gone")
    failed = remote.kubexm("create", "cluster", check=1).stdout

    def words(text: str) -> list[str]:
        return [line for line in without_times(text) if "whole output" not in line and "To go on" not in line]

    assert words(failed) == words(local)
    assert "exit code: 9" in failed
    resume = failed.rsplit("To go on where this stopped: kubexm ", 1)[1].split()
    remote.on("n2", "rm /run/broken")
    assert "create: done after" in remote.kubexm(*resume).stdout
    events = remote.kubexm("create", "cluster", "-o", "json").stdout.splitlines()
    kinds = [json.loads(line)["kind"] for line in events]
    assert [kinds[0], kinds[1], kinds[-1]] == ["plan", "run.started", "result"]


def test_hosts_that_do_not_answer(remote: Fleet) -> None:
    remote.file.write_text(remote.file.read_text().replace(f"port: {remote.servers['n2'].port}", "port: 1"))
    run = remote.kubexm("create", "cluster", check=3)
    assert run.stderr.startswith("error: 1 host could not be initialised:\n  n2: ")


def test_the_command_line_and_a_server_exclude_each_other(remote: Fleet, here: Callable[..., str]) -> None:
    process = remote.start("create", "cluster")
    try:
        remote.wait_on("n2", "[ -e /run/waiting ]")
        second = remote.kubexm("create", "cluster", check=1)
        task = json.loads(remote.kubexm("runs", "list", "-o", "json").stdout)[0]["id"]
        assert f"error: task {task} (create, running) is changing try" in second.stderr
        with pytest.MonkeyPatch.context() as without:
            without.delenv("KUBEXM_SERVER")
            held = remote.kubexm("create", "cluster", check=1)
        assert task in held.stderr, "the lease on the hosts names the run that holds it"
        facts = remote.kubexm("facts").stdout
        assert "n1" in facts, "looking on is allowed all the while"
        let_go(remote)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, output

    for host in remote.servers:
        remote.on(host, "rm -rf /run/work /run/go /run/gone /run/waiting")
    with pytest.MonkeyPatch.context() as without:
        without.delenv("KUBEXM_SERVER")
        process = remote.start("create", "cluster")
    try:
        remote.wait_on("n2", "[ -e /run/waiting ]")
        held = remote.kubexm("create", "cluster", check=1)
        run = json.loads(here("runs", "list", "-o", "json"))[0]
        assert run["status"] == "running"
        assert run["id"] in held.stderr, "and the other way round"
        let_go(remote)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, output


def test_ctrl_c_twice(remote: Fleet) -> None:
    process = remote.start("create", "cluster")
    try:
        for host in remote.servers:
            remote.wait_on(host, "[ -e /run/waiting ]")
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        while "finishing what runs, starting nothing; press" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "✗ stopped work.do.wait on n1, n2" in output
    assert remote.on("n1", "[ -e /run/gone ]") != 0, "it was stopped on the host"
    let_go(remote)
    assert "create: done after" in remote.kubexm("runs", "resume", "last").stdout


def test_logs_are_followed_and_a_run_is_cancelled_from_elsewhere(remote: Fleet) -> None:
    process = remote.start("create", "cluster")
    follower = None
    try:
        remote.wait_on("n2", "[ -e /run/waiting ]")
        follower = remote.start("runs", "logs", "last", "--follow", "-o", "json")
        assert follower.stdout is not None
        first = json.loads(follower.stdout.readline())
        assert first["node"] == "work.do.first"
        assert "was asked to stop" in remote.kubexm("runs", "cancel", "last").stdout
        let_go(remote)
        rest = [json.loads(line) for line in follower.communicate(timeout=60)[0].splitlines()]
        assert {(each["node"], each["state"]) for each in rest} >= {
            ("work.do.wait", "succeeded"),
            ("work.do.last", "cancelled"),
        }
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        if follower is not None:
            follower.kill()
    assert process.returncode == 130, output
    assert "create: cancelled after" in output
    assert remote.on("n1", "[ -e /run/gone ]") == 0, "what ran was finished"
    assert remote.on("n1", "[ -e /run/work/last ]") != 0, "nothing was started"


class _Proxy(threading.Thread):
    """Passes bytes on to a server, and cuts every line when told to."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._far = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.cuts = 0

    def run(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._far))
            except OSError:
                return
            self._pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket) -> None:
        try:
            while piece := one.recv(65536):
                other.sendall(piece)
        except OSError:
            pass
        finally:
            other.close()

    def cut(self) -> None:
        self.cuts += 1
        for pair in self._pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def stop(self) -> None:
        self._listening.close()
        self.cut()


def test_a_line_that_breaks_is_taken_up_where_it_broke(
    remote: Fleet, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = _Proxy(int(serving.url.rpartition(":")[2]))
    proxy.start()
    monkeypatch.setenv("KUBEXM_SERVER", f"https://127.0.0.1:{proxy.port}")
    process = remote.start("create", "cluster", "-o", "json")
    try:
        for _ in range(3):
            remote.wait_on("n2", "[ -e /run/waiting ]")
            proxy.cut()
            time.sleep(0.4)
        let_go(remote)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        proxy.stop()
    assert process.returncode == 0, output
    assert "broke" in output, "it says so"
    told = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    numbers = [each["seq"] for each in told if "seq" in each]
    assert numbers == list(range(1, len(numbers) + 1)), "nothing was missed, nothing came twice"
    assert told[-1]["data"]["status"] == "succeeded"


def test_a_server_that_dies_and_comes_back_is_waited_for(remote: Fleet, serving: Serving) -> None:
    process = remote.start("create", "cluster")
    try:
        remote.wait_on("n2", "[ -e /run/waiting ]")
        serving.stop(signal.SIGKILL)
        serving.start()
        output, _ = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "create: stopped after" in output
    resume = output.rsplit("To go on where this stopped: kubexm ", 1)[1].split()
    let_go(remote)
    assert "create: done after" in remote.kubexm(*resume).stdout


def test_only_the_right_server_is_talked_to_and_only_safely(
    remote: Fleet, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = serving.fingerprint[:-2] + ("00" if serving.fingerprint[-2:] != "00" else "11")
    refused = remote.kubexm("runs", "list", "--server-fingerprint", wrong, check=1)
    assert "shows another certificate" in refused.stderr
    assert "nothing was sent" in refused.stderr
    monkeypatch.delenv("KUBEXM_SERVER_FINGERPRINT")
    unknown = remote.kubexm("runs", "list", check=1)
    assert "the certificate of the server is not trusted: self-signed certificate" in unknown.stderr
    assert "--server-fingerprint" in unknown.stderr
    assert "does not answer" not in unknown.stderr
    authority = str(serving.data / "tls" / "cert.pem")
    assert remote.kubexm("runs", "list", "--server-ca", authority).stderr in ("", "There are no runs.\n")
    plain = remote.kubexm("runs", "list", "--server", "http://192.0.2.7:8080", check=2)
    assert "without TLS everybody on the way can read the token" in plain.stderr
    assert "not an address" in remote.kubexm("runs", "list", "--server", "192.0.2.7:8080", check=2).stderr

    token = Path(os.environ["KUBEXM_TOKEN_FILE"])
    token.chmod(0o644)
    assert "can be read by others" in remote.kubexm("runs", "list", "--server-ca", authority, check=2).stderr
    token.chmod(0o600)
    monkeypatch.delenv("KUBEXM_TOKEN_FILE")
    monkeypatch.setenv("KUBEXM_TOKEN", "kx_nobody")
    denied = remote.kubexm("runs", "list", "--server-ca", authority, check=2)
    assert "this token is not valid" in denied.stderr
    assert "--token-file" in denied.stderr
    shown = remote.kubexm("runs", "list", "--server-ca", authority, "--token", serving.token)
    assert "can see a token on the command line" in shown.stderr


def test_what_a_server_cannot_do_says_so(remote: Fleet, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not through a server" in remote.kubexm("exec", "--", "true", check=2).stderr
    for words in (["lab", "status"], ["version"], ["serve", "token", "list"]):
        refused = remote.kubexm("--server", serving.url, *words, check=2)
        assert "is done on this machine, and not by a server" in refused.stderr
    assert remote.kubexm("version").stdout.startswith("kubexm "), "what the environment says is for those it is for"
    monkeypatch.delenv("KUBEXM_SERVER")
    assert "there is no server to upload to" in remote.kubexm("config", "upload", check=2).stderr
