"""A saved plan is executed exactly as it is, or refused with the reason: all of them, by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.errors import KubexmError, PlanError, StalePlanError
from kubexm.plan import RunSpec, SavedPlan, changed_paths
from kubexm.runner import Facts
from kubexm.runtime import FactsTrace
from tests.unit.plan.paper import graph, node

FACTS = Facts.assumed(hostname="n1")
CONFIG: dict[str, Any] = {"spec": {"hosts": [{"name": "n1"}, {"name": "n2"}], "version": "v1.34.1"}}


def plan() -> SavedPlan:
    trace = FactsTrace()
    facts = trace.view("n1", FACTS)
    assert facts.os.family == "debian"
    facts.has_command("zfs")
    return SavedPlan(
        spec=RunSpec("preflight", {"fix": True}, only=("one", "two")),
        cluster="prod",
        file="/etc/prod.yaml",
        config=CONFIG,
        reads=trace.reads(),
        graph=graph(node("one", "ab"), node("two", "ab", after=["one"])),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "plan.kxp"
    plan().save(path)
    return path


def test_it_comes_back_as_it_was_and_fits_what_it_was_made_from(saved: Path) -> None:
    loaded = SavedPlan.load(saved)
    assert loaded == plan()
    assert loaded.graph.digest == plan().graph.digest
    loaded.check(CONFIG, {"n1": FACTS})


def test_the_same_plan_is_the_same_file(saved: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.kxp"
    plan().save(again)
    assert again.read_bytes() == saved.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.kxp", "plan.kxp"]


def test_facts_that_planning_did_not_read_may_change(saved: Path) -> None:
    SavedPlan.load(saved).check(CONFIG, {"n1": replace(FACTS, hostname="other", uptime=5.0)})


def test_every_difference_is_named(saved: Path) -> None:
    changed = {"spec": {"hosts": [{"name": "n1"}, {"name": "n9"}], "version": "v1.34.2", "etcd": {}}}
    facts = replace(FACTS, os=replace(FACTS.os, family="rhel"), commands=("zfs",))
    with pytest.raises(StalePlanError) as caught:
        SavedPlan.load(saved).check(changed, {"n1": facts})
    assert caught.value.message.splitlines() == [
        "this plan no longer fits:",
        "  spec.etcd: was null, is {}",
        '  spec.hosts[1].name: was "n2", is "n9"',
        '  spec.version: was "v1.34.1", is "v1.34.2"',
        '  n1: os.family was "debian", is "rhel"',
        "  n1: has_command('zfs') was false, is true",
    ]
    assert "plan --save" in caught.value.hint


def test_a_host_that_planning_looked_at_must_be_there(saved: Path) -> None:
    with pytest.raises(StalePlanError, match=r"n1: could not be reached, and planning read its os\.family"):
        SavedPlan.load(saved).check(CONFIG, {})


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.kxp"
    replace(plan(), version="0.0.1").save(path)
    with pytest.raises(StalePlanError, match=r"made by kubexm 0\.0\.1, and this is "):
        SavedPlan.load(path)


def test_a_plan_that_was_edited_is_refused(saved: Path) -> None:
    data = json.loads(saved.read_text())
    data["graph"]["nodes"][0]["hosts"] = ["b"]
    saved.write_text(json.dumps(data))
    with pytest.raises(PlanError, match="edited or damaged"):
        SavedPlan.load(saved)


@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    path = tmp_path_factory.mktemp("cut") / "plan.kxp"
    plan().save(path)
    whole = path.read_bytes().rstrip()
    path.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(PlanError, match=r"plan\.kxp: ") as caught:
        SavedPlan.load(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"[" * 200_000, b"null", b'{"format": "other/1"}', b"\xff\xfe", b"kind: Cluster\n"]
)
def test_what_is_no_plan_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.kxp"
    path.write_bytes(content)
    with pytest.raises(PlanError, match="not a saved plan"):
        SavedPlan.load(path)


def test_a_plan_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.kxp"
    path.write_text('{"format": "kubexm-plan/1", "pipeline": "create"}')
    with pytest.raises(
        PlanError, match="a plan of format kubexm-plan/1, and this version reads kubexm-plan/2"
    ) as caught:
        SavedPlan.load(path)
    assert caught.value.hint == "make it again with `kubexm plan --save`"


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        SavedPlan.load(tmp_path / "gone.kxp")
    file = tmp_path / "file"
    file.write_text("x")
    for bad in (tmp_path / "no" / "dir" / "plan.kxp", file / "plan.kxp"):
        with pytest.raises(PlanError, match="cannot be written"):
            plan().save(bad)
    (tmp_path / "dir").mkdir()
    with pytest.raises(KubexmError, match="cannot be written"):
        plan().save(tmp_path / "dir")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dir", "file"]


def test_differences_are_told_by_path() -> None:
    assert changed_paths({"a": [1, 2]}, {"a": [1, 3]}) == ["a[1]: was 2, is 3"]
    assert changed_paths({"a": [1, 2]}, {"a": [1]}) == ["a: was [1, 2], is [1]"]
    assert changed_paths({"a": {"b": 1}}, {"a": {}}) == ["a.b: was 1, is null"]
    assert changed_paths(1, 2) == ["the file: was 1, is 2"]
    assert changed_paths({"a": [{"b": 1}]}, {"a": ({"b": 1},)}) == []
    assert "…" in changed_paths({"a": "x" * 200}, {"a": "y"})[0]
