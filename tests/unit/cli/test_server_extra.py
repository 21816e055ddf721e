"""Commands other than the server's work without the packages of the extra `kubexm[server]`, and without the lab."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kubexm.cli.main import VERBS
from kubexm.cli.server_options import SERVER_PACKAGES
from tests.unit.config.files import HA

ROOT = Path(__file__).parents[3]
# Hides modules as if they were not installed, then runs kubexm as its console script does.
HIDING = """
import sys
from importlib.machinery import PathFinder

hidden = sys.argv.pop(1).split(",")

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in hidden):
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
from kubexm.cli.main import main
main()
"""
SERVER = ("kubexm.rest", "kubexm.web", "starlette", *SERVER_PACKAGES)
LAB = ("kubexm.lab",)


def kubexm(hidden: tuple[str, ...], *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command line in a process in which these modules cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", HIDING, ",".join(hidden), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env={**os.environ, "KUBEXM_DATA_DIR": str(directory / "data")},
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(HA)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["config", "validate"], "cluster.yaml"),
        (["config", "schema"], '"properties"'),
        (["plan", "create", "--offline"], "etcd"),
        (["plan", "delete", "--offline"], "delete"),
        (["runs", "list"], ""),
        (["version"], "kubexm "),
    ],
    ids=" ".join,
)
def test_commands_need_neither_server_nor_lab(arguments: list[str], shown: str, directory: Path) -> None:
    done = kubexm((*SERVER, *LAB), *arguments, directory=directory)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_a_remote_command_needs_no_packages_of_a_server(directory: Path) -> None:
    done = kubexm(
        (*SERVER, *LAB), "runs", "list", "--server", "http://127.0.0.1:1", "--token", "x" * 20, directory=directory
    )
    assert "127.0.0.1:1" in done.stderr, "it gets as far as connecting"
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_help_needs_neither_server_nor_lab(verb: str, directory: Path) -> None:
    hidden = SERVER if verb == "lab" else (*SERVER, *LAB)
    done = kubexm(hidden, verb, "--help", directory=directory)
    assert done.returncode == 0, done.stderr
    assert f"Usage: kubexm {verb}" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", "rotate-key"],
        ["serve", "token", "list"],
        ["serve", "token", "create", "--role", "admin"],
        ["audit", "verify"],
    ],
    ids=" ".join,
)
def test_a_server_without_its_packages_names_the_extra(arguments: list[str], directory: Path) -> None:
    done = kubexm(("fastapi", "sqlalchemy"), *arguments, directory=directory)
    assert done.returncode == 2
    first, hint = done.stderr.splitlines()
    assert first.startswith(f"error: `kubexm {arguments[0]}")
    assert first.endswith("needs packages that are not installed: fastapi, sqlalchemy")
    assert "pip install 'kubexm[server]'" in hint
    assert not (directory / "data").exists(), "and nothing was written"


def test_the_packages_that_are_checked_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [requirement.split(">")[0].split("[")[0] for requirement in project["optional-dependencies"]["server"]]
    assert [name.replace("-", "_") for name in names] == list(SERVER_PACKAGES)


@pytest.mark.parametrize("lock", ["requirements-server.lock", "requirements-dev.lock", "requirements-bench.lock"])
def test_locks_agree_with_the_core_lock(lock: str) -> None:
    def pins(name: str) -> set[str]:
        return {line.removesuffix(" \\") for line in (ROOT / name).read_text().splitlines() if line[:1].isalnum()}

    assert pins("requirements.lock") < pins(lock)
    locked = {pin.split("==")[0] for pin in pins("requirements.lock")}
    assert not locked & {name.replace("_", "-") for name in SERVER_PACKAGES}
