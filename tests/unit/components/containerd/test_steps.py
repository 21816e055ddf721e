"""The runtime's own steps: registries' settings in a real shell, and what a runtime says of itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from kubexm.components.containerd.registries import MARK, RegistryFile
from kubexm.components.containerd.steps import RegistriesConfigured, RuntimeAnswers
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.runtime.clusters import needs_root
from tests.unit.step.bench import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench.make(tmp_path)
    monkeypatch.setattr("kubexm.components.containerd.steps.CERTS", made.path("certs.d"))
    made.context.secrets.put("registry.r.example.com.login", Secret("c2VjcmV0OndvcmQ="))
    return made


def file(bench: Bench, name: str, *pieces: str | SecretRef) -> RegistryFile:
    return RegistryFile(path=bench.path(f"certs.d/{name}/hosts.toml"), pieces=(f"{MARK}\n", *pieces))


@needs_root
async def test_files_are_written_shown_and_removed_when_no_longer_wanted(bench: Bench) -> None:
    theirs = bench.local("certs.d/own.example.com/hosts.toml")
    theirs.write_text('server = "https://own.example.com"\n')
    plain = file(bench, "docker.io", 'server = "https://registry-1.docker.io"\n')
    step = RegistriesConfigured(files=(plain, file(bench, "quay.io", 'server = "https://quay.io"\n')))
    check = await bench.check(step)
    assert '+server = "https://quay.io"' in check.diff
    await bench.reach(step)
    bench.connector.commands.clear()
    assert (await bench.check(step)).satisfied
    assert len(bench.connector.commands) == 1
    fewer = RegistriesConfigured(files=(plain,))
    assert "quay.io/hosts.toml is no longer wanted" in (await bench.check(fewer)).reason
    await bench.reach(fewer)
    assert not bench.local("certs.d/quay.io/hosts.toml").exists()
    assert theirs.exists(), "what kubexm did not make stays"
    assert decode(encode(step), RegistriesConfigured) == step


@needs_root
async def test_logins_are_written_0600_and_never_shown(bench: Bench) -> None:
    login = file(bench, "r.example.com", 'authorization = "Basic ', SecretRef("registry.r.example.com.login"), '"\n')
    step = RegistriesConfigured(files=(login,))
    check = await bench.check(step)
    assert check.diff == ""
    await bench.reach(step)
    place = Path(login.path)
    assert place.stat().st_mode & 0o777 == 0o600
    assert "Basic c2VjcmV0OndvcmQ=" in place.read_text()
    place.chmod(0o644)
    assert (await bench.check(step)).satisfied is False, "everybody could read it"
    assert "c2VjcmV0" not in json.dumps(encode(step))
    lacking = replace(step, files=(file(bench, "x", SecretRef("gone")),))
    assert "the secret gone is not in the work directory" in (await bench.check(lacking)).reason


@needs_root
async def test_rollback_puts_back_what_was_there(bench: Bench) -> None:
    place = bench.local("certs.d/docker.io/hosts.toml")
    place.write_text("before\n")
    step = RegistriesConfigured(files=(file(bench, "docker.io", "x = 1\n"), file(bench, "quay.io", "y = 1\n")))
    await bench.reach(step)
    await bench.rollback(step)
    assert place.read_text() == "before\n"
    assert not bench.local("certs.d/quay.io/hosts.toml").exists()


def info(ready: bool, reason: str = "") -> str:
    conditions = [
        {"type": "RuntimeReady", "status": ready, "reason": reason, "message": ""},
        {"type": "NetworkReady", "status": False, "reason": "NetworkPluginNotReady", "message": "cni"},
    ]
    return json.dumps({"status": {"conditions": conditions}})


@pytest.mark.parametrize(
    ("output", "code", "reason"),
    [
        (info(True), 0, ""),
        (f"time=… level=warning msg=something\n{info(True)}", 0, ""),
        (info(False, "Broken"), 0, "RuntimeReady is false: Broken"),
        ("{}", 0, "says nothing about RuntimeReady"),
        ('level=fatal msg="connect: no such file"', 1, "connect: no such file"),
        ("", 127, "no answer"),
    ],
)
async def test_a_runtime_counts_once_it_calls_itself_ready(output: str, code: int, reason: str, tmp_path: Path) -> None:
    host = MemoryConnector("n1").on(re.compile(r"(?s).*crictl info.*"), stdout=output, exit_code=code)
    context = memory_context(tmp_path, {"n1": host})
    check = await RuntimeAnswers().precheck(context.step_context("a.b.c", UnitConnector(host, Transcript), "r"))
    assert check.satisfied is (reason == "")
    assert reason in check.reason
    assert RuntimeAnswers().writes() == frozenset()


def test_the_directory_is_all_it_touches() -> None:
    step = RegistriesConfigured(files=(RegistryFile(path=PurePosixPath("/x"), pieces=(SecretRef("s"),)),))
    assert step.writes() == {"file:/etc/containerd/certs.d/*"}
    assert "secret:s" in step.reads()
