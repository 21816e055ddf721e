"""The code in docs/add-a-pipeline.md, run as it stands there, and what the page says follows from it."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubexm.cli import plan as plan_command
from kubexm.cli import running
from kubexm.cli.main import VERBS, main
from kubexm.cli.pipelines import pipeline_verbs
from kubexm.errors import UsageError
from kubexm.pipeline import PIPELINES, Pipeline, declared, pipeline_for
from kubexm.plan import RunSpec
from kubexm.rest.models import PipelineOut, start_model
from kubexm.runner import Intent
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.runtime.clusters import cluster_file
from tests.unit.service.work import CLUSTER

PAGE = Path(__file__).parents[3] / "docs" / "add-a-pipeline.md"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module made of all the code on the page, in order; its pipeline is in the catalog meanwhile."""
    before, text = dict(PIPELINES), PAGE.read_text()
    made = types.ModuleType("add_a_pipeline_page")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        source = "\n" * (text[: match.start()].count("\n") + 1) + match[1]
        exec(compile(source, str(PAGE), "exec", dont_inherit=True), made.__dict__)
    monkeypatch.setattr("kubexm.cli.main._Root.verbs", pipeline_verbs([verb for verb in VERBS if not verb.pipelines]))
    yield made
    PIPELINES.clear()
    PIPELINES.update(before)


def test_its_own_test_passes(page: Any, tmp_path: Path) -> None:
    page.test_only_some_hosts(tmp_path)


def test_it_is_a_command(page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    asked: list[RunSpec] = []
    monkeypatch.setattr(running, "run_spec", lambda ctx, spec, file, **_: asked.append(spec))
    file = cluster_file(tmp_path, CLUSTER)
    for line in (["announce", "at ten", "--hosts", "w[1:2],n1", "--dry-run", "-f", str(file)], ["announce", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(line)
        assert ended.value.code == 0
    assert asked == [RunSpec("announce", {"message": "at ten", "hosts": ("w1", "w2", "n1")}, dry_run=True)]
    shown = capsys.readouterr().out
    assert "Write a message into /etc/motd of all hosts" in shown
    assert "--rollback" not in shown


def test_it_can_be_planned_with_its_options(page: Any) -> None:
    names = [each.name for each in plan_command._parameters()]
    assert {"message", "hosts"} <= set(names)


def test_it_is_a_request_and_a_button(page: Any) -> None:
    model = start_model(declared("announce"))
    fields = {"message", "hosts", "dry_run", "parallel", "accept_new_host_keys"}
    assert set(model.model_fields) == fields
    body = model.model_validate({"message": "at ten", "hosts": ["n1"], "dry_run": True})
    assert body.spec("announce") == RunSpec("announce", {"message": "at ten", "hosts": ["n1"]}, dry_run=True)
    with pytest.raises(ValueError, match="rollback"):
        model.model_validate({"message": "at ten", "rollback": True})
    told = PipelineOut.of(declared("announce"))
    assert told.button == "Announce"
    first = told.options[0]
    assert (first.name, first.widget, first.label) == ("message", "text", "Message")


def test_its_options_are_checked_wherever_they_come_from(page: Any) -> None:
    with pytest.raises(UsageError, match="announce needs MESSAGE"):
        pipeline_for(RunSpec("announce"))
    with pytest.raises(UsageError, match="announce does not take --rollback"):
        pipeline_for(RunSpec("announce", {"message": "x"}, rollback=True))


def test_its_operation_holds_once(page: Any, tmp_path: Path) -> None:
    context = memory_context(tmp_path, {"n1": MemoryConnector("n1"), "n2": MemoryConnector("n2")})
    intent = page.Move(message="hi").intent(context.pipeline_context())
    assert intent == Intent(operation="move", goal="hi", hold=True)
    assert page.Move.operation


def test_every_attribute_is_in_its_table() -> None:
    text = PAGE.read_text()
    names = [name for name in Pipeline.__annotations__ if name not in ("measures", "probes", "leaves_hosts")]
    assert [name for name in names if f"`{name}`" not in text] == []
