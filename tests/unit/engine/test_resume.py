"""Killed anywhere and resumed, a run ends as if nothing had happened, and no change is made twice."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.connector import ReceiptState
from kubexm.engine import Journal
from kubexm.errors import JournalError
from kubexm.plan import ExecutionGraph, RunStatus
from kubexm.store import read_journal, step_logs
from tests.unit.engine.graphs import examples
from tests.unit.engine.world import Died, Shout, Thing, World, execute, graph, node, states


def plan() -> ExecutionGraph:
    return graph(
        node("one", "ab", Thing(name="one", makes="one")),
        node("shout", "ab", Shout(name="shout"), after_same_host=("m.t.one",)),
        node("token", "a", Thing(name="token", makes="token", secret=True), on_demand=True),
        node("join", "bc", Thing(name="join", wants=("token",)), after=("m.t.token", "m.t.one")),
        node("end", "abc", Thing(name="end", wants=("one",)), after=("m.t.join", "m.t.shout", "m.t.one")),
    )


@examples(25)
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=4))
def test_a_resumed_run_equals_an_uninterrupted_one(deaths: list[tuple[int, bool]]) -> None:
    async def play(directory: Path) -> None:
        world = World("a", "b", "c")
        resume = False
        for after, carried_out in deaths:
            world.die_at, world.die_after = world.changes + after, carried_out
            try:
                result = await execute(world, plan(), directory, resume=resume)
            except Died:
                resume = True
            else:
                break
        else:
            world.die_at = -1
            result = await execute(world, plan(), directory, resume=resume)
        assert result.status is RunStatus.SUCCEEDED
        ended = states(result)
        assert ended.pop("token@a") in ("succeeded", "excluded"), "who joined before needs no token after"
        assert set(ended.values()) == {"succeeded"}
        assert world.things == {
            "a": {"one", "shout", "token", "end"},
            "b": {"one", "shout", "join", "end"},
            "c": {"join", "end"},
        }
        assert set(world.made.values()) == {1}, f"something was made twice: {world.made}"
        seqs = [event.seq for event in read_journal(directory / "journal")]
        assert seqs == list(range(1, len(seqs) + 1))

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(play(Path(name)))


async def test_what_cannot_be_read_back_is_settled_by_its_receipt(tmp_path: Path) -> None:
    world = World("a")
    world.die_at, world.die_after = 0, True
    shout = graph(node("shout", "a", Shout(name="shout")))
    with pytest.raises(Died):
        await execute(world, shout, tmp_path)
    result = await execute(world, shout, tmp_path, resume=True)
    assert states(result) == {"shout@a": "succeeded"}
    assert world.made == {("a", "shout"): 1}


async def test_without_a_receipt_on_the_same_boot_it_never_began_and_is_run(tmp_path: Path) -> None:
    world = World("a")
    world.die_at = 0
    shout = graph(node("shout", "a", Shout(name="shout")))
    with pytest.raises(Died):
        await execute(world, shout, tmp_path)
    assert states(await execute(world, shout, tmp_path, resume=True)) == {"shout@a": "succeeded"}
    world.memory["a"].reboot("another")
    assert states(await execute(world, shout, tmp_path, resume=True)) == {"shout@a": "satisfied"}
    assert world.made == {("a", "shout"): 1}


async def test_after_a_reboot_an_unreadable_outcome_is_unknown_and_not_repeated(tmp_path: Path) -> None:
    world = World("a")
    world.die_at, world.die_after = 0, True
    shout = graph(node("shout", "a", Shout(name="shout")))
    with pytest.raises(Died):
        await execute(world, shout, tmp_path)
    world.memory["a"].reboot("boot-2")
    result = await execute(world, shout, tmp_path, resume=True)
    assert states(result) == {"shout@a": "failed"}
    error = result.nodes["m.t.shout"].hosts["a"].error
    assert error is not None
    assert error.kind == "OutcomeUnknown"
    assert world.made == {("a", "shout"): 1}


@pytest.mark.parametrize(("ended", "expected", "made"), [(True, "succeeded", 2), (False, "failed", 1)])
async def test_a_command_that_kubexm_ended_is_run_again_and_one_that_failed_is_not(
    tmp_path: Path, ended: bool, expected: str, made: int
) -> None:
    world = World("a", "b")
    world.die_at, world.die_after = 1, True
    shout = graph(node("shout", "ab", Shout(name="shout")))
    with pytest.raises(Died):
        await execute(world, shout, tmp_path)
    for host in "ab":
        receipts = world.memory[host].receipts
        for name, receipt in receipts.items():
            state = ReceiptState.ENDED if ended and host == "b" else ReceiptState.EXITED
            receipts[name] = replace(receipt, state=state, exit_code=143 if host == "b" else 0)
    result = await execute(world, shout, tmp_path, resume=True)
    assert states(result) == {"shout@a": "succeeded", "shout@b": expected}
    assert world.made == {("a", "shout"): 1, ("b", "shout"): made}


@pytest.mark.parametrize(("code", "expected"), [(0, "succeeded"), (3, "failed")])
async def test_what_a_command_printed_before_the_resume_is_in_the_log(tmp_path: Path, code: int, expected: str) -> None:
    world = World("a", "b")
    world.die_at, world.die_after = 1, True
    shout = graph(node("shout", "ab", Shout(name="shout")))
    with pytest.raises(Died):
        await execute(world, shout, tmp_path)
    receipts = world.memory["b"].receipts
    for name, receipt in receipts.items():
        receipts[name] = replace(receipt, exit_code=code, stdout=b"halfway\n", stderr=b"no space left\n")
    result = await execute(world, shout, tmp_path, resume=True)
    assert states(result) == {"shout@a": "succeeded", "shout@b": expected}
    logs = step_logs(read_journal(tmp_path / "journal"))
    log = next(log for log in logs if (log.node, log.host) == ("m.t.shout", "b"))
    assert (log.stdout, log.stderr) == ("halfway\n", "no space left\n")


async def test_resuming_a_run_that_succeeded_reports_no_changes_unless_there_are_new_ones(tmp_path: Path) -> None:
    world = World("a", "b")
    work = graph(node("one", "ab"), node("shout", "ab", Shout(name="shout")))
    assert (await execute(world, work, tmp_path)).changed
    again = await execute(world, work, tmp_path, resume=True)
    assert not again.changed
    assert set(states(again).values()) == {"satisfied"}
    world.things["b"].remove("one")
    repaired = await execute(world, work, tmp_path, resume=True)
    assert states(repaired) == {
        "one@a": "satisfied",
        "one@b": "succeeded",
        "shout@a": "satisfied",
        "shout@b": "satisfied",
    }
    assert world.made[("b", "shout")] == 1


async def test_resume_trusts_no_end_that_can_be_tested(tmp_path: Path) -> None:
    world = World("a")
    await execute(world, graph(node("one", "a")), tmp_path)
    world.things["a"].clear()
    result = await execute(world, graph(node("one", "a")), tmp_path, resume=True)
    assert states(result) == {"one@a": "succeeded"}
    assert world.made == {("a", "one"): 2}


async def test_a_torn_last_line_is_cut_off_and_damage_before_it_is_an_error(tmp_path: Path) -> None:
    world = World("a")
    await execute(world, graph(node("one", "a")), tmp_path)
    path = tmp_path / "journal"
    whole = path.read_bytes()
    path.write_bytes(whole + b'12345678 [7,1.0,"unit.do')
    journal, events = Journal.reopen(path)
    await journal.close()
    assert path.read_bytes() == whole
    assert len(events) == whole.count(b"\n")
    path.write_bytes(whole.replace(b"unit.done", b"unit.dome"))
    with pytest.raises(JournalError, match=r"journal:\d+: this line of the journal is damaged"):
        Journal.reopen(path)
