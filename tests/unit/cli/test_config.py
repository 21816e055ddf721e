from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from kubexm import config
from kubexm.apis.v1alpha1 import json_schema
from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES
from kubexm.cli.config import app
from kubexm.errors import UsageError
from tests.unit.config.files import HA, MINIMAL, spec

cli = CliRunner()
WRONG = spec("kubernetes: {type: Kubeadm}\nnetwork: {podCIDR: 10.0.0.0/16}\n")


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are checked on a day on which upstream supports 1.35 to 1.37."""
    monkeypatch.setattr("kubexm.cli.config.today", lambda: date(2026, 11, 18))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(HA)
    return path


@pytest.mark.parametrize("topology", ["single", "ha", "airgap"])
def test_init_prints_a_file_that_is_valid(topology: str, tmp_path: Path) -> None:
    printed = cli.invoke(app, ["init", "--topology", topology])
    assert printed.exit_code == 0
    assert config.loads(printed.stdout).cluster.name == topology
    target = tmp_path / "cluster.yaml"
    target.write_text(printed.stdout)
    assert cli.invoke(app, ["validate", "-f", str(target)]).exit_code == 0


def test_init_takes_a_name() -> None:
    printed = cli.invoke(app, ["init", "--name", "prod"])
    assert config.loads(printed.stdout).cluster.name == "prod"


def test_init_refuses_a_wrong_name() -> None:
    done = cli.invoke(app, ["init", "--name", "My Cluster"])
    assert isinstance(done.exception, UsageError)
    assert "My Cluster" in done.exception.message
    assert done.exception.hint == "did you mean `my-cluster`?"
    assert done.stdout == ""


def test_init_knows_its_topologies() -> None:
    done = cli.invoke(app, ["init", "--topology", "huge"])
    assert done.exit_code == 2
    assert "single" in done.output


def test_validate_warns_about_a_version_past_its_support(file: Path) -> None:
    file.write_text(HA + "  kubernetes: {version: v1.34.4}\n")
    done = cli.invoke(app, ["validate", "-f", str(file)])
    assert done.exit_code == 0
    message = (
        "spec.kubernetes.version: Kubernetes 1.34 gets no more security fixes: upstream support ended on 2026-10-27"
    )
    assert f"warning: {message}" in done.stderr
    assert "supported are 1.35, 1.36, 1.37" in done.stderr
    assert cli.invoke(app, ["validate", "--strict", "-f", str(file)]).exit_code == 2
    piped = cli.invoke(app, ["validate", "-f", "-"], input=file.read_text())
    assert message in piped.stderr
    file.write_text(HA + "  kubernetes: {version: v1.35.1}\n")
    assert cli.invoke(app, ["validate", "-f", str(file)]).stderr == ""


def test_validate_says_ok_and_what_it_saw(file: Path) -> None:
    done = cli.invoke(app, ["validate", "-f", str(file)])
    assert done.exit_code == 0
    assert (
        done.stdout
        == f"{file}: OK: demo, Kubernetes {DEFAULT_KUBERNETES}, 6 hosts (3 etcd, 3 control plane, 3 worker)\n"
    )


def test_validate_shows_warnings_and_still_says_ok(file: Path) -> None:
    file.write_text(HA.replace('etcd: ["cp[1:3]"]', "etcd: [cp1, cp2]"))
    done = cli.invoke(app, ["validate", "-f", str(file)])
    assert done.exit_code == 0
    assert "OK, 1 warning:" in done.stdout
    assert "warning: spec.roleGroups.etcd: 2 members of etcd" in done.stderr
    assert cli.invoke(app, ["validate", "-f", str(file), "--strict"]).exit_code == 2


def test_validate_shows_every_problem_and_exits_with_2(file: Path) -> None:
    file.write_text(WRONG)
    done = cli.invoke(app, ["validate", "-f", str(file)])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert f"{file}:13:22: error: spec.kubernetes.type: expected one of kubeadm, kubexm" in done.stderr
    assert f"{file}:14:22: error: spec.network.podCIDR:" in done.stderr
    assert done.stderr.endswith("2 errors\n")


def test_validate_for_programs(file: Path) -> None:
    file.write_text(WRONG)
    done = cli.invoke(app, ["validate", "-f", str(file), "-o", "json"])
    assert done.exit_code == 2
    result = json.loads(done.stdout)
    assert result["valid"] is False
    assert [(problem["line"], problem["column"], problem["path"]) for problem in result["problems"]] == [
        (13, 22, "spec.kubernetes.type"),
        (14, 22, "spec.network.podCIDR"),
    ]
    assert result["problems"][0]["hint"] == "did you mean `kubeadm`?"
    assert result["problems"][0]["severity"] == "error"
    as_yaml = cli.invoke(app, ["validate", "-f", str(file), "-o", "yaml"]).stdout
    assert YAML(typ="safe", pure=True).load(as_yaml) == result


def test_validate_reads_standard_input() -> None:
    done = cli.invoke(app, ["validate", "-f", "-"], input=MINIMAL)
    assert done.exit_code == 0
    assert done.stdout.startswith("<stdin>: OK: demo")
    wrong = cli.invoke(app, ["validate", "-f", "-"], input="nope")
    assert wrong.exit_code == 2


def test_validate_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli.invoke(app, ["validate"])
    assert done.exit_code == 2
    assert "cluster.yaml: error: there is no such file" in done.stderr


def test_schema() -> None:
    done = cli.invoke(app, ["schema"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == json_schema()
    as_yaml = cli.invoke(app, ["schema", "-o", "yaml"]).stdout
    assert YAML(typ="safe", pure=True).load(as_yaml) == json_schema()


def test_importing_the_commands_is_cheap() -> None:
    """`kubexm --help` must not pay for what it does not use."""
    code = "import sys, kubexm.cli.config; print({'pydantic', 'ruamel.yaml', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
