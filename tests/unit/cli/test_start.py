"""`kubexm --help` is fast because it imports next to nothing; what it does import is pinned here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

HEAVY = {
    "asyncio",
    "asyncssh",
    "cryptography",
    "httpx",
    "jinja2",
    "pydantic",
    "rich",
    "ruamel",
    "zstandard",
    "kubexm.apis",
    "kubexm.assets",
    "kubexm.config",
    "kubexm.connector",
    "kubexm.engine",
    "kubexm.lab",
    "kubexm.plan",
    "kubexm.runner",
    "kubexm.runtime",
    "kubexm.service",
    "kubexm.store",
}
CONNECTING = {"asyncssh", "cryptography", "httpx", "kubexm.connector", "kubexm.plan", "kubexm.service"}


def imported(*arguments: str) -> tuple[set[str], str]:
    """Every module and package that a command line imports, and what it printed."""
    command = [sys.executable, "-X", "importtime", "-m", "kubexm", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    return {".".join(name.split(".")[:n]) for name in names for n in range(1, name.count(".") + 2)}, done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    modules, shown = imported(*arguments)
    assert modules & HEAVY == set()
    for verb in ("preflight", "facts", "exec", "plan", "apply", "runs", "config", "bundle", "lab", "version"):
        assert f"\n  {verb} " in shown


@pytest.mark.parametrize("verb", ["preflight", "facts", "exec", "plan", "apply", "runs", "config", "version"])
def test_help_of_a_verb_connects_nothing(verb: str) -> None:
    modules, shown = imported(verb, "--help")
    assert modules & CONNECTING == set()
    assert f"Usage: kubexm {verb}" in shown


def test_version_imports_nothing_heavy() -> None:
    modules, shown = imported("version")
    assert modules & (HEAVY - {"pydantic"}) == set(), "typer itself reads choices with pydantic"
    assert shown.startswith("kubexm ")


def test_completion_of_verbs_imports_none_of_them() -> None:
    environment = {"_KUBEXM_COMPLETE": "complete_bash", "COMP_WORDS": "kubexm pre", "COMP_CWORD": "1"}
    code = "import sys; sys.argv=['kubexm']; import kubexm.cli.main as m; m.main()"
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["preflight"]
    assert "kubexm.cli.preflight" not in done.stderr


def test_completion_of_runs(tmp_path: Path) -> None:
    for name in ("20250101-000000-aaaa", "20250102-000000-bbbb"):
        (tmp_path / ".kubexm" / "prod" / "runs" / name).mkdir(parents=True)
    code = "import sys; sys.argv=['kubexm']; import kubexm.cli.main as m; m.main()"
    environment = {"_KUBEXM_COMPLETE": "complete_bash", "COMP_WORDS": "kubexm runs show 2", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
    )
    assert done.stdout.split() == ["20250102-000000-bbbb", "20250101-000000-aaaa"]


def test_completion_of_options_and_nested_commands() -> None:
    code = "import sys; sys.argv=['kubexm']; import kubexm.cli.main as m; m.main()"
    for words, number, expected in (
        ("kubexm runs ", "2", {"list", "show", "graph", "timeline", "logs", "resume", "cancel"}),
        ("kubexm plan --off", "2", {"--offline"}),
    ):
        environment = {"_KUBEXM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
        )
        assert set(done.stdout.split()) == expected


def _output(arguments: list[str], stdout: int | IO[bytes], **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kubexm", *arguments]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("arguments", [["version"], ["config", "schema"]])
def test_a_full_disk_is_an_error_of_the_output(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = _output(arguments, full)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error: the output cannot be written: No space left on device")
    assert b"internal" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_any_encoding_of_stdout_will_do(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "metadata: {name: demo}\nspec:\n"
        "  hosts: [{name: n1, address: 10.0.0.1}, {name: n2, address: 10.0.0.2}]\n"
        "  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n2]}\n"
    )
    environment = {"PYTHONCOERCECLOCALE": "0", **environment}
    done = _output(["plan", "--offline", "-f", str(file)], subprocess.PIPE, **environment)
    assert done.returncode == 0, done.stderr
    assert b"preflight" in done.stdout
