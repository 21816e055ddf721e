"""Commands that are derived from what pipelines declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.cli import running
from kubexm.cli.exits import ExitCode
from kubexm.cli.lazy import Verb
from kubexm.cli.main import main
from kubexm.cli.pipelines import pipeline_verbs
from kubexm.pipeline import PIPELINES, Kind, Option, Pipeline
from kubexm.plan import RunSpec
from tests.unit.runtime.clusters import cluster_file
from tests.unit.service.work import CLUSTER

CERTS = Verb("certs", "", "Inspect and renew certificates.", "Clusters", remote=True)


class Renew(Pipeline):
    """The first command below a word."""

    name = "certs-renew"
    summary = "Renew certificates."
    description = "Renew the certificates of all hosts, or of some."
    command = ("certs", "renew")
    options = (
        Option(name="level", kind=Kind.CHOICE, choices=("soon", "all"), default="soon", help="Which ones."),
        Option(name="days", kind=Kind.COUNT, least=1, help="Those that expire within so many days."),
        Option(name="restart", kind=Kind.FLAG, default=True, help="Restart what uses them."),
        Option(name="note", kind=Kind.TEXT, help="A note."),
    )
    takes = ("only",)
    disrupts = True


class Rotate(Pipeline):
    """The second."""

    name = "certs-rotate"
    summary = "Rotate keys."
    description = "Rotate the keys of the cluster."
    command = ("certs", "rotate")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunSpec]:
    """What would have been run."""
    for kind in (Renew, Rotate):
        monkeypatch.setitem(PIPELINES, kind.name, f"{__name__}:{kind.__name__}")
    monkeypatch.setattr("kubexm.cli.main._Root.verbs", pipeline_verbs([CERTS]))
    found: list[RunSpec] = []
    monkeypatch.setattr(running, "run_spec", lambda ctx, spec, file, **_: found.append(spec))
    return found


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_pipelines_join_the_verb_of_their_first_word(asked: list[RunSpec], capsys: pytest.CaptureFixture[str]) -> None:
    (verb,) = [verb for verb in pipeline_verbs([CERTS]) if verb.name == "certs"]
    assert verb.pipelines == ("certs-renew", "certs-rotate")
    assert call("certs", "--help") == ExitCode.DONE
    shown = capsys.readouterr().out
    assert "Inspect and renew certificates." in shown
    assert "renew" in shown
    assert "rotate" in shown


def test_only_what_differs_from_the_default_is_asked_for(asked: list[RunSpec], tmp_path: Path) -> None:
    file = str(cluster_file(tmp_path, CLUSTER))
    assert call("certs", "renew", "-f", file, "--level", "soon", "--restart") == ExitCode.DONE
    line = ("--level", "all", "--days", "30", "--no-restart", "--note", "x y", "--probes", "full", "--only", "a,b")
    assert call("certs", "renew", "-f", file, *line, "--accept-new-host-keys") == ExitCode.DONE
    assert call("certs", "rotate", "-f", file) == ExitCode.DONE
    options = {"level": "all", "days": 30, "restart": False, "note": "x y", "probes": "full"}
    assert asked == [
        RunSpec("certs-renew"),
        RunSpec("certs-renew", options, only=("a", "b"), accept_new_host_keys=True),
        RunSpec("certs-rotate"),
    ]


@pytest.mark.parametrize("line", [["--days", "0"], ["--level", "some"], ["--rollback"], ["--only", ""]])
def test_what_it_does_not_take_is_refused(asked: list[RunSpec], tmp_path: Path, line: list[str]) -> None:
    assert call("certs", "renew", "-f", str(cluster_file(tmp_path, CLUSTER)), *line) == ExitCode.USAGE
    assert asked == []
