"""Steps that prove what others did are told whether anything was done: changes count, waiting does not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kubexm.cache import RUN_CHANGED
from kubexm.plan import Prediction
from kubexm.runtime import StepContext
from kubexm.step import OUTCOME, Check, Resources, Step, Values, resources
from tests.unit.engine.world import Thing, Wait, World, execute, graph, node, states


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof(Step):
    """Needed only if something changed."""

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(None) if ctx.has(RUN_CHANGED) else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Proves it."""

    def reads(self) -> Resources:
        return frozenset()

    def writes(self) -> Resources:
        return resources("api:proof")


async def test_proof_is_needed_after_a_change_on_any_host_and_not_without_one(tmp_path: Path) -> None:
    world = World("a", "b")
    plan = graph(node("one", "b"), node("proof", "a", Proof(), after=("m.t.one",)))
    assert states(await execute(world, plan, tmp_path / "1")) == {"one@b": "succeeded", "proof@a": "succeeded"}
    assert states(await execute(world, plan, tmp_path / "2")) == {"one@b": "satisfied", "proof@a": "satisfied"}


async def test_waiting_is_no_change(tmp_path: Path) -> None:
    world = World("a")
    plan = graph(node("one", "a", Wait(name="one")), node("proof", "a", Proof(), after=("m.t.one",)))
    result = await execute(world, plan, tmp_path)
    assert states(result) == {"one@a": "succeeded", "proof@a": "satisfied"}
    assert result.nodes["m.t.one"].hosts["a"].waited
    assert not result.changed


async def test_waiting_in_vain_is_no_change_either_and_nothing_to_roll_back(tmp_path: Path) -> None:
    world = World("a")
    world.broken.add(("a", "one"))
    result = await execute(world, graph(node("one", "a", Wait(name="one"))), tmp_path, rollback=True)
    assert states(result) == {"one@a": "failed"}
    assert result.nodes["m.t.one"].hosts["a"].rolled_back is None
    assert not result.changed


async def test_a_dry_run_tells_what_would_be_waited_for(tmp_path: Path) -> None:
    result = await execute(World("a"), graph(node("one", "a", Wait(name="one"))), tmp_path, dry_run=True)
    assert result.nodes["m.t.one"].hosts["a"].prediction is Prediction.WAIT
    assert not result.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Wait):
    """Lives by itself, and suffers from what is done elsewhere."""

    def reads(self) -> Resources:
        return resources("api:health", OUTCOME)


async def test_how_a_run_leaves_the_cluster_is_looked_at_when_all_is_done(tmp_path: Path) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Breaker(Thing):
        async def run(self, ctx: StepContext) -> Values | None:
            world.things["a"].discard("health")
            return await Thing.run(self, ctx)

    world = World("a", "b")
    world.things["a"] |= {"health", "slow"}
    plan = graph(
        node("breaker", "b", Breaker(name="breaker")),
        node("slow", "a", after=("m.t.breaker",)),
        node("health", "a", Health(name="health"), after=("m.t.slow",)),
    )
    result = await execute(world, plan, tmp_path)
    assert states(result) == {"breaker@b": "succeeded", "slow@a": "satisfied", "health@a": "succeeded"}


async def test_a_dry_run_tells_that_proof_will_be_needed(tmp_path: Path) -> None:
    plan = graph(node("one", "a"), node("proof", "a", Proof(), after=("m.t.one",)))
    result = await execute(World("a"), plan, tmp_path, dry_run=True)
    assert result.nodes["m.t.proof"].hosts["a"].prediction is Prediction.CHANGE


async def test_a_resumed_run_knows_what_its_earlier_process_changed_on_any_host(tmp_path: Path) -> None:
    world = World("a", "b", "c")
    plan = graph(
        node("wait", "abc", Wait(name="wait")),
        node("one", "c"),
        node("two", "a", after=("m.t.one",)),
        node("proof", "a", Proof(), after=("m.t.two",)),
    )
    for things in world.things.values():
        things.add("wait")
    world.broken.add(("a", "two"))
    first = await execute(world, plan, tmp_path)
    assert {name: state for name, state in states(first).items() if not name.startswith("wait")} == {
        "one@c": "succeeded",
        "two@a": "failed",
        "proof@a": "blocked",
    }
    world.broken.clear()
    world.things["a"].add("two")  # somebody did it meanwhile
    resumed = await execute(world, plan, tmp_path, resume=True)
    assert states(resumed)["proof@a"] == "succeeded"
