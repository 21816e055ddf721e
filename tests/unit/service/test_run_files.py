"""A run on disk: what it was asked, who carries it out, how it stands, and what damage does."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubexm.errors import JournalError, KubexmError, UsageError
from kubexm.events import Event, EventKind
from kubexm.plan import RunSpec
from kubexm.service import RunFiles, RunRecord
from kubexm.service.run_files import _process_start
from kubexm.store import to_line
from tests.unit.plan.paper import graph, node

RECORD = RunRecord(
    id="20250101-000000-abcd",
    cluster="demo",
    spec=RunSpec("work", {"root": "/tmp"}),
    file="/etc/cluster.yaml",
    changes=True,
    config={"spec": {"hosts": [{"name": "n1"}]}},
)


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles.create(tmp_path / "runs" / RECORD.id, RECORD, graph(node("one", "ab")))


def journal(files: RunFiles, *events: tuple[EventKind, dict[str, Any]]) -> None:
    lines = [to_line(Event(seq, float(seq), kind, data=data)) for seq, (kind, data) in enumerate(events, 1)]
    files.journal.write_bytes(b"".join(lines))


STARTED: tuple[EventKind, dict[str, Any]] = (EventKind.RUN_STARTED, {"units": 2})


def test_request_and_graph_come_back_and_are_private(files: RunFiles) -> None:
    assert files.record() == RECORD
    assert files.graph() == graph(node("one", "ab"))
    assert stat.S_IMODE(files.path.stat().st_mode) == 0o700
    with pytest.raises(KubexmError, match="cannot be made: File exists"):
        RunFiles.create(files.path, RECORD, graph(node("one")))


def test_while_it_is_held_it_runs_and_nobody_else_can_hold_it(files: RunFiles) -> None:
    journal(files, STARTED)
    assert files.info().status == "interrupted"
    with files.held():
        assert files.process() is not None
        assert files.info().status == "running"
        with pytest.raises(UsageError, match="still running"), files.held():
            pass
        assert files.info().status == "running", "who was refused has changed nothing"
    assert files.process() is None
    with files.held():
        pass


def test_errors_inside_are_not_taken_for_the_lock(files: RunFiles) -> None:
    with pytest.raises(OSError, match="disk"), files.held():
        raise OSError("disk full")
    assert files.process() is None


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    # Whoever runs the tests in the background of a script has them ignore SIGINT, and children inherit that.
    script = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); print(1, flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", script],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    if child.poll() is None:
        child.kill()
    child.communicate()


def note(files: RunFiles, pid: int, started: str) -> None:
    (files.path / "process.json").write_text(json.dumps({"pid": pid, "started": started}))


def test_cancel_asks_the_process_that_carries_it_out(files: RunFiles, process: subprocess.Popen[bytes]) -> None:
    note(files, process.pid, _process_start(process.pid))
    assert files.process() == process.pid
    files.cancel()
    assert process.wait(30) == -signal.SIGINT
    assert files.process() is None
    with pytest.raises(UsageError, match=rf"run {RECORD.id} is not running"):
        files.cancel()


def test_a_later_process_with_the_same_number_is_not_taken_for_it(
    files: RunFiles, process: subprocess.Popen[bytes]
) -> None:
    note(files, process.pid, "1")
    assert files.process() is None
    for rubbish in ("{}", "[]", '{"pid": "1", "started": ""}', "not json"):
        (files.path / "process.json").write_text(rubbish)
        assert files.process() is None


def test_how_a_run_stands(files: RunFiles) -> None:
    assert (files.info().status, files.info().units, files.events()) == ("interrupted", 0, [])
    done = (EventKind.UNIT_DONE, {"state": "failed"})
    journal(files, STARTED, done, (EventKind.RUN_ENDED, {"status": "failed"}))
    info = files.info()
    assert (info.status, info.started, info.ended, info.states) == ("failed", 1.0, 3.0, {"failed": 1})
    journal(files, STARTED, done, (EventKind.RUN_ENDED, {"status": "failed"}), (EventKind.RUN_RESUMED, {"units": 2}))
    info = files.info()
    assert (info.status, info.started, info.ended, info.units) == ("interrupted", 1.0, None, 2)


def test_logs_of_a_unit_are_read_whole(files: RunFiles) -> None:
    assert files.log_text("m.t.n", "a") == ""
    files.logs.mkdir()
    (files.logs / "m.t.n@a.log").write_text("all of it\n")
    assert files.log_text("m.t.n", "a") == "all of it\n"


@pytest.mark.parametrize("name", ["run.json", "graph.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"id": "x", "more": 1}', "null"])
def test_damage_is_told_with_the_files_name(files: RunFiles, name: str, content: str) -> None:
    (files.path / name).write_text(content)
    with pytest.raises(JournalError, match=name):
        files.record() if name == "run.json" else files.graph()


def test_what_is_missing_is_told_with_its_name(files: RunFiles, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"run\.json is missing"):
        RunFiles(tmp_path / "nowhere").info()


def test_lists_read_a_summary_and_not_the_journal(files: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    done = (EventKind.UNIT_DONE, {"state": "succeeded"})
    journal(files, STARTED, done, (EventKind.RUN_ENDED, {"status": "succeeded"}))
    told = files.info()
    files.write_summary()
    with monkeypatch.context() as blind:
        blind.setattr(RunFiles, "events", lambda _: pytest.fail("the journal was read"))
        assert files.info() == told
    journal(files, STARTED, done, (EventKind.RUN_ENDED, {"status": "succeeded"}), (EventKind.RUN_RESUMED, {"units": 2}))
    assert files.info().status == "interrupted", "a summary of an older journal is not believed"
    (files.path / "summary.json").write_text("{")
    assert files.info().status == "interrupted"


def test_a_run_of_older_code_is_shown_as_far_as_it_is_known(files: RunFiles) -> None:
    journal(files, STARTED, (EventKind.UNIT_DONE, {"state": "succeeded", "started": 1.0}))
    data = json.loads((files.path / "graph.json").read_text())
    data["nodes"][0]["step"] = {"$": "kubexm.gone:SomethingRemoved"}
    (files.path / "graph.json").write_text(json.dumps(data))
    with pytest.raises(JournalError):
        files.graph()
    known = files.known_graph()
    assert [(node.id, node.step.describe()) for node in known.nodes.values()] == [("m.t.one", "SomethingRemoved")]
    (files.path / "graph.json").unlink()
    assert list(files.known_graph().nodes) == [""], "the journal has the rest"


def test_a_run_of_another_format_is_refused_with_both_numbers(files: RunFiles) -> None:
    data = json.loads((files.path / "run.json").read_text())
    for old, message in (({**data, "format": 3}, "format 3"), ({"id": RECORD.id, "pipeline": "work"}, "format 1")):
        (files.path / "run.json").write_text(json.dumps(old))
        with pytest.raises(JournalError, match=f"the {message}, and this version of kubexm reads format 2") as caught:
            files.record()
        assert "starting anew is always safe" in caught.value.hint
