"""Command lines as users type them, up to where hosts would be needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from kubexm import __version__
from kubexm.cli.exits import ExitCode
from kubexm.cli.lazy import Verb, _load
from kubexm.cli.main import VERBS, main
from kubexm.cli.report import report
from kubexm.cli.settings import Settings
from kubexm.errors import (
    AuthenticationError,
    CommandError,
    ConfigError,
    ConnectError,
    InitializationError,
    KubexmError,
    LeaseHeldError,
    StalePlanError,
    UsageError,
)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("version") == 0
    assert capsys.readouterr().out.startswith("kubexm 0.")
    assert run("version", "-o", "json") == 0
    assert '"kubexm": "0.' in capsys.readouterr().out


def test_version_as_an_option_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"kubexm {__version__}\n"
    assert run("plan", "--version") == ExitCode.USAGE
    assert "No such option: --version" in capsys.readouterr().err


def test_no_arguments_show_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == ExitCode.USAGE
    shown = capsys.readouterr()
    assert "preflight" in shown.out + shown.err


def test_an_unknown_verb_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("prefligth") == ExitCode.USAGE
    assert "Did you mean 'preflight'?" in capsys.readouterr().err


def test_a_wrong_option_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "-o", "png") == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "png" in error
    assert "mermaid" in error


def test_no_cluster_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("facts") == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith("error: no cluster file was given")
    assert "  → give one with -f FILE" in error


def test_every_verb_has_its_app() -> None:
    import importlib

    for verb in VERBS:
        if verb.pipelines:
            assert _load(verb).name == verb.name
        else:
            assert isinstance(importlib.import_module(verb.module).app, typer.Typer), verb.name


class _Probe:
    """A verb that tells what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, body: Any = None) -> None:
        self.settings: Settings | None = None
        probe = self
        app = typer.Typer()

        @app.command()
        def probe_(ctx: typer.Context, name: str = "") -> None:
            """Probe."""
            probe.settings = ctx.ensure_object(Settings)
            if body is not None:
                body()

        import sys
        from types import ModuleType

        module = ModuleType("kubexm_probe")
        module.app = app  # type: ignore[attr-defined]  # what a verb's module has
        monkeypatch.setitem(sys.modules, "kubexm_probe", module)
        verbs = (*VERBS, Verb("sample", "kubexm_probe", "Probe.", "Hosts"))
        monkeypatch.setattr("kubexm.cli.main._Root.verbs", verbs)


@pytest.mark.parametrize(
    "line",
    [
        ["-v", "--debug", "--work-dir", "/w", "--accept-new-host-keys", "sample", "-v"],
        ["sample", "-vv", "--debug", "--work-dir", "/w", "--accept-new-host-keys"],
        ["sample", "--name", "x", "-v", "--accept-new-host-keys", "-v", "--work-dir=/w", "--debug"],
    ],
)
def test_global_options_stand_anywhere(line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    probe = _Probe(monkeypatch)
    assert run(*line) == 0
    assert probe.settings == Settings(debug=True, verbose=2, work_dir=Path("/w"), accept_new_host_keys=True)


def test_no_color_reaches_everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    seen: list[str | None] = []
    _Probe(monkeypatch, lambda: seen.append(os.environ.get("NO_COLOR")))
    try:
        assert run("sample", "--no-color") == 0
    finally:
        os.environ.pop("NO_COLOR", None)
    assert seen == ["1"]


def test_an_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ConfigError("cluster.yaml: it is not valid", hint="mend it")

    _Probe(monkeypatch, fail)
    assert run("sample") == ExitCode.USAGE
    assert capsys.readouterr().err == "error: cluster.yaml: it is not valid\n  → mend it\n"


def test_a_bug_is_one_line_and_a_traceback_on_demand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("the\nwheels came off")

    _Probe(monkeypatch, fail)
    assert run("sample") == ExitCode.FAILED
    error = capsys.readouterr().err
    assert error.startswith("internal error: RuntimeError: the wheels came off\n  → ")
    assert "--debug" in error
    assert "Traceback" not in error
    assert run("sample", "--debug") == ExitCode.FAILED
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (ConfigError("x"), 2),
        (StalePlanError("x"), 2),
        (InitializationError([ConnectError("x", host="a")]), 3),
        (AuthenticationError("x", host="a"), 3),
        (CommandError(host="a", command="x", exit_code=1), 1),
        (LeaseHeldError("x", host="a"), 1),
        (KubexmError("x"), 1),
        (FileNotFoundError(2, "No such file", "/x"), 1),
    ],
)
def test_exit_codes_of_errors(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("status", "code"),
    [("succeeded", 0), ("failed", 1), ("partial", 4), ("cancelled", 130), ("interrupted", 130)],
)
def test_exit_codes_of_runs(status: str, code: int) -> None:
    assert ExitCode.of_status(status) == code


def test_an_error_of_a_host_names_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConnectError("connection refused", host="n1"))
    report(ConnectError("n1 refused the connection", host="n1"))
    assert capsys.readouterr().err == "error: n1: connection refused\nerror: n1 refused the connection\n"
    report(ConnectError("the bastion cannot reach n10 port 22", host="n1"))
    assert capsys.readouterr().err == "error: n1: the bastion cannot reach n10 port 22\n"


def test_what_is_wrong_with_a_file_is_told_as_config_validate_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("metadata: {name: demo}\nspec:\n  hosts: []\n  hsots: []\n")
    assert run("config", "validate", "-f", str(file)) == ExitCode.USAGE
    validated = capsys.readouterr().err
    assert run("preflight", "-f", str(file)) == ExitCode.USAGE
    refused = capsys.readouterr().err
    assert refused == validated
    assert refused.startswith(f"{file}:"), "an editor finds the place"
    assert not any("error: " in line.partition("error: ")[2] for line in refused.splitlines()), "and it is said once"


def test_a_server_is_for_verbs_a_server_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--server", "https://127.0.0.1:1", "version") == ExitCode.USAGE
    assert "is done on this machine, and not by a server" in capsys.readouterr().err
    assert run("version", "--server", "https://127.0.0.1:1") == ExitCode.USAGE
    remote = {verb.name for verb in VERBS if verb.remote}
    assert remote >= {"create", "delete", "verify", "preflight", "plan", "apply", "runs", "kubeconfig", "facts"}
    assert not remote & {"exec", "lab", "bundle", "serve", "audit"}


def test_a_plan_with_no_host_asked_tells_of_missing_bundles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "metadata: {name: demo}\nspec:\n  hosts: [{name: n1, address: 10.0.0.1}, {name: n2, address: 10.0.0.2}]\n"
        "  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n2]}\n  assets: {sources: [{bundle: ./none.tar}]}\n"
    )
    assert run("plan", "--offline", "-f", str(file)) == 0
    assert f"there is no bundle {tmp_path / 'none.tar'} on this machine" in capsys.readouterr().err
