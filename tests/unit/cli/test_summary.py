"""What people read when a run is over: every root cause once, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kubexm.cli.display.summary import causes, result_data, summary_lines
from kubexm.errors import StepError
from kubexm.plan import Budget, FailurePolicy, Retry
from kubexm.runner.facts.model import Os
from kubexm.runtime import StepContext
from kubexm.step import Check, Step
from tests.unit.components.preflight.fleet import Fleet
from tests.unit.engine.world import Wait, World, bare_graph, execute, node
from tests.unit.plan.render.samples import result as sample


def text(lines: list[str]) -> str:
    return "\n".join(lines)


async def test_nothing_changed(tmp_path: Path) -> None:
    world = World("a")
    world.things["a"].add("one")
    shown = text(summary_lines(await execute(world, bare_graph(node("one", "a")), tmp_path), resume="resume me"))
    assert shown.startswith("\ntest: nothing changed, all is as it should be after ")
    assert shown.endswith(": 1 already so")


async def test_nothing_changed_after_a_wait(tmp_path: Path) -> None:
    plan = bare_graph(node("one", "a", Wait(name="one")))
    shown = text(summary_lines(await execute(World("a"), plan, tmp_path)))
    assert shown.startswith("\ntest: nothing changed, all is as it should be after ")
    assert shown.endswith(": 1 waited for")


async def test_what_changed(tmp_path: Path) -> None:
    plan = bare_graph(node("one", "abc"), node("two", "a"))
    shown = summary_lines(await execute(World("a", "b", "c"), plan, tmp_path))
    assert shown[1].startswith("test: done after ")
    assert shown[2:] == ["  + m.t.one on a, b, c: thing: one", "  + m.t.two on a: thing: two"]


async def test_long_lists_are_cut_unless_asked_for(tmp_path: Path) -> None:
    result = await execute(World("a"), bare_graph(*(node(f"n{number}", "a") for number in range(30))), tmp_path)
    assert summary_lines(result)[-1] == "  … and 11 more (kubexm runs show r1)"
    assert len(summary_lines(result, verbose=1)) == 32


async def test_a_root_cause_is_told_once_with_all_one_needs(tmp_path: Path) -> None:
    world = World("a", "b", "c")
    world.broken |= {("a", "one"), ("b", "one")}
    plan = bare_graph(
        node("one", "abc", retry=Retry(times=1, delay=0.0)),
        node("two", "abc", after_same_host=("m.t.one",)),
        node("three", "c", after=("m.t.two",)),
    )
    result = await execute(world, plan, tmp_path)
    shown = text(summary_lines(result, logs=tmp_path / "logs", resume="kubexm runs resume r1"))
    assert shown.count("✗ failed") == 1
    assert "✗ failed m.t.one on a, b: thing: one\n" in shown
    assert "    command:   make one\n    exit code: 7\n" in shown
    assert shown.count("error: it is broken") == 1, "not repeated below the message that holds it"
    assert "    after 2 attempts\n" in shown
    assert "    3 units could not be done because of this\n" in shown
    assert f"    the whole output: {tmp_path}/logs/m.t.one@a.log" in shown
    assert shown.endswith("\nTo go on where this stopped: kubexm runs resume r1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Awkward(Step):
    """Fails on each host in other words."""

    name: str
    hint: bool = False

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(False)

    async def run(self, ctx: StepContext) -> None:
        ctx.warn("this is awkward")
        hint = f"ask {ctx.host.name}" if self.hint else "think again"
        raise StepError(f"{ctx.host.name} does not like it", host=ctx.host.name, hint=hint)


async def test_reasons_that_differ_by_host(tmp_path: Path) -> None:
    plan = bare_graph(node("one", "ab", Awkward(name="x")), node("two", "ab", Awkward(name="y", hint=True)))
    shown = summary_lines(await execute(World("a", "b"), plan, tmp_path))
    assert shown[2:] == [
        "  ! a, b: this is awkward (m.t.one)",
        "  ! a, b: this is awkward (m.t.two)",
        "",
        "✗ failed m.t.one on a, b: awkward: x",
        "    a: a does not like it",
        "    b: b does not like it",
        "    → think again",
        "",
        "✗ failed m.t.two on a, b: awkward: y",
        "    a: a does not like it",
        "    → ask a",
        "    b: b does not like it",
        "    → ask b",
    ]


async def test_very_many_reasons_are_cut(tmp_path: Path) -> None:
    hosts = "abcdefghijklmno"
    shown = summary_lines(await execute(World(*hosts), bare_graph(node("one", hosts, Awkward(name="x"))), tmp_path))
    assert "    … and 5 more hosts (kubexm runs logs r1 m.t.one)" in shown


async def test_lost_hosts_within_the_budget(tmp_path: Path) -> None:
    world = World("a", "b")
    world.broken.add(("b", "one"))
    policy = FailurePolicy(budgets=(Budget("worker", ("b",), 1),))
    result = await execute(world, bare_graph(node("one", "ab"), policy=policy), tmp_path)
    shown = text(summary_lines(result, resume="kubexm runs resume r1"))
    assert "test: done, except for 1 lost host after " in shown
    assert "  lost b: m.t.one failed on b" in shown
    assert "To go on where this stopped" in shown


async def test_optional_failures_are_told_as_such(tmp_path: Path) -> None:
    world = World("a")
    world.broken.add(("a", "one"))
    shown = text(summary_lines(await execute(world, bare_graph(node("one", "a", optional=True)), tmp_path)))
    assert "! failed, but optional: m.t.one on a: thing: one" in shown


async def test_rollback(tmp_path: Path) -> None:
    world = World("a")
    world.broken.add(("a", "two"))
    plan = bare_graph(node("one", "a"), node("two", "a", after=("m.t.one",)))
    shown = text(summary_lines(await execute(world, plan, tmp_path, rollback=True)))
    assert "Rolled back 2 units." in shown


async def test_dry_run(tmp_path: Path) -> None:
    world = World("a", "b")
    world.things["a"].add("one")
    plan = bare_graph(node("one", "ab"), node("two", "b", after=("m.t.one",)))
    result = await execute(world, plan, tmp_path, dry_run=True)
    shown = summary_lines(result, resume="no")
    assert shown[1].startswith("test: dry run after ")
    assert shown[1].endswith(": 2 would change, 1 would not")
    assert shown[2:] == ["  ~ m.t.one on b: it is not there", "  ~ m.t.two on b: it is not there"]


async def test_dry_run_tells_what_would_be_waited_for(tmp_path: Path) -> None:
    plan = bare_graph(node("one", "a"), node("two", "a", Wait(name="two")))
    shown = summary_lines(await execute(World("a"), plan, tmp_path, dry_run=True))
    assert shown[1].endswith(": 1 would change, 1 would be waited for")
    assert shown[2:] == ["  ~ m.t.one on a: it is not there", "  … m.t.two on a: it is not there"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(Step):
    """A file that would be written anew."""

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(False, reason="its content differs", diff="--- /x\n+++ /x\n@@ -1 +1 @@\n-old\n+new\n")

    async def run(self, ctx: StepContext) -> None:
        raise AssertionError("a dry run changes nothing")


async def test_dry_run_shows_contents(tmp_path: Path) -> None:
    result = await execute(World("a", "b"), bare_graph(node("one", "ab", Written())), tmp_path, dry_run=True)
    assert summary_lines(result)[2:] == [
        "  ~ m.t.one on a, b: its content differs",
        "      --- /x",
        "      +++ /x",
        "      @@ -1 +1 @@",
        "      -old",
        "      +new",
    ]


async def test_nothing_would_change(tmp_path: Path) -> None:
    world = World("a")
    world.things["a"].add("one")
    result = await execute(world, bare_graph(node("one", "a")), tmp_path, dry_run=True)
    assert summary_lines(result)[1].endswith("nothing would change")


def test_the_same_for_programs() -> None:
    data = result_data(sample(), exit_code=4, resume="kubexm runs resume x")
    assert (data["status"], data["exit_code"], data["resume"]) == ("partial", 4, "kubexm runs resume x")
    assert data["units"] == {"succeeded": 76, "satisfied": 23, "failed": 1, "excluded": 20}
    (cause,) = data["causes"]
    assert (cause["node"], cause["hosts"]) == ("workers.join.join", ["w07"])
    assert cause["reasons"][0]["error"]["exit_code"] == 1


def test_colours_only_where_they_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in text(summary_lines(sample()))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31;1m✗ failed" in text(summary_lines(sample()))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in text(summary_lines(sample()))
    assert [cause.node for cause in causes(sample())] == ["workers.join.join"]


async def test_preflight_says_which_systems_are_tested_expected_to_work_and_refused(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.change("w1", os=Os(id="rocky", version="9.4", name="Rocky Linux 9.4", family="rhel"))
    shown = text(summary_lines((await fleet.preflight(tmp_path / "two")).result))
    assert "  operating systems: cp[1:3], w2 tested; w1 not tested\n" in shown
    fleet.change("w2", os=Os(id="debian", version="10", name="Debian GNU/Linux 10 (buster)", family="debian"))
    shown = text(summary_lines((await fleet.preflight(tmp_path / "three")).result))
    assert "  operating systems: cp[1:3] tested; w1 not tested; w2 refused\n" in shown
