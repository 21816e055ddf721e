"""Runs behave the same when everything between the driver and its attempts is sent as bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubexm.cache import Key
from kubexm.connector import Command
from kubexm.errors import StepError
from kubexm.plan import RunStatus
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from tests.unit.engine import test_brackets, test_resume, test_via, world
from tests.unit.engine.crossing import Crossing
from tests.unit.engine.world import Thing, World, execute, graph, node, states


@pytest.fixture
def crossing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "ATTEMPTS", Crossing)


@pytest.mark.usefixtures("crossing")
@pytest.mark.parametrize(
    "law",
    [
        test_resume.test_a_resumed_run_equals_an_uninterrupted_one,
        test_brackets.test_killed_anywhere_and_resumed_nothing_stays_out_of_service,
        test_via.test_a_resumed_unit_is_settled_where_it_began_or_read_from_elsewhere,
    ],
)
def test_the_laws_of_the_engine_hold(law: Callable[[], None]) -> None:
    law()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Step):
    """A secret is in the work directory, and another one is used to make it."""

    name: str
    uses: str = ""
    declared: bool = True

    def reads(self) -> Resources:
        return resources(f"secret:{self.name}", *([f"secret:{self.uses}"] if self.uses and self.declared else []))

    def writes(self) -> Resources:
        return resources(f"secret:{self.name}")

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(ctx.has_secret(SecretRef(self.name)))

    async def run(self, ctx: StepContext) -> None:
        used = ctx.secret(SecretRef(self.uses)).reveal() if self.uses else "first"
        ctx.keep({self.name: Secret(f"{used}+{self.name}")})


@pytest.mark.usefixtures("crossing")
async def test_secrets_come_back_with_the_report_and_reach_who_declares_them(tmp_path: Path) -> None:
    plan = graph(node("one", "a", Kept(name="one")), node("two", "b", Kept(name="two", uses="one"), after=("m.t.one",)))
    result = await execute(World("a", "b", "c"), plan, tmp_path)
    assert states(result) == {"one@a": "succeeded", "two@b": "succeeded"}
    assert (tmp_path / "work" / "secrets" / "two").read_text() == "first+one+two"


async def test_a_secret_that_a_step_does_not_declare_is_refused(tmp_path: Path) -> None:
    two = Kept(name="two", uses="one", declared=False)
    plan = graph(node("one", "a", Kept(name="one")), node("two", "b", two, after=("m.t.one",)))
    result = await execute(World("a", "b", "c"), plan, tmp_path)
    error = result.nodes["m.t.two"].hosts["b"].error
    assert error is not None
    assert error.message == "m.t.two uses the secret one, which its step does not declare"


UP: Key[bool] = Key("up", per_host=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Up(Thing):
    """A thing that tells that its host is up."""

    def produces(self) -> tuple[Key[Any], ...]:
        return (UP,)

    async def precheck(self, ctx: StepContext) -> Check:
        found = await ctx.host.connector.execute(Command(script=f"there {self.name}"))
        return Check(found.ok, values={UP: True} if found.ok else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Step):
    """So many hosts are up, of those that told."""

    most: int
    declared: bool = True

    def may_use(self) -> tuple[Key[Any], ...]:
        return (UP,) if self.declared else ()

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(len(ctx.values(UP)) == self.most)

    async def run(self, ctx: StepContext) -> None:
        raise StepError(f"{sorted(ctx.values(UP))} are up", host=ctx.host.name)


@pytest.mark.usefixtures("crossing")
async def test_a_step_is_given_the_values_it_may_use_and_no_others(tmp_path: Path) -> None:
    here = World("a", "b", "c")
    here.broken.add(("b", "up"))
    plan = graph(
        node("up", "abc", Up(name="up"), optional=True),
        node("seen", "c", Counted(most=2), after=("m.t.up",)),
        node("unseen", "c", Counted(most=0, declared=False), after=("m.t.up",)),
    )
    ended = states(await execute(here, plan, tmp_path))
    assert (ended["up@b"], ended["seen@c"], ended["unseen@c"]) == ("failed", "satisfied", "satisfied")


@pytest.mark.usefixtures("crossing")
async def test_a_failed_run_is_rolled_back_by_the_same_way(tmp_path: Path) -> None:
    here = World("a", "b", "c")
    here.broken.add(("b", "two"))
    plan = graph(node("one", "ab"), node("two", "b", Thing(name="two"), after=("m.t.one",)))
    result = await execute(here, plan, tmp_path, rollback=True)
    assert result.status is RunStatus.FAILED
    assert result.nodes["m.t.two"].hosts["b"].stderr == "error: it is broken\n"
    assert here.things == {"a": set(), "b": set(), "c": set()}
