"""A small world of in-memory hosts with things that are there or not, steps that make them, and deaths on demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from kubexm.cache import Key
from kubexm.connector import Command, CommandResult, Connector, Receipt, Streams, Upload
from kubexm.engine import Cancellation, Journal, LocalEngine, Prior, RunOptions
from kubexm.engine.asked import Attempts
from kubexm.engine.attempts import LocalAttempts, Output
from kubexm.errors import ConnectionLost, HostError
from kubexm.events import Event, Observer
from kubexm.plan import ExecutionFragment, ExecutionGraph, ExecutionNode, FailurePolicy, GraphExecutionResult
from kubexm.redact import Secret
from kubexm.runtime import Context, StepContext
from kubexm.step import Check, Resources, Step, Values, resources
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

ATTEMPTS: Callable[[Context, Output], Attempts] = LocalAttempts
"""Who carries out attempts in `execute`."""


class Died(BaseException):
    """kubexm was killed here, as far as the engine can tell."""


class World:
    """Hosts by name; each has things. Counts how often each was made, and kills whoever makes the n-th."""

    def __init__(self, *hosts: str) -> None:
        self.things: dict[str, set[str]] = {host: set() for host in hosts}
        self.made: Counter[tuple[str, str]] = Counter()
        self.broken: set[tuple[str, str]] = set()
        """Things whose making fails."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """Things whose making fails this often, then works."""
        self.dead: dict[str, int] = {}
        """Hosts that answer so many more commands, and then no more."""
        self.die_at = -1
        self.die_after = False
        self.changes = 0
        self.memory = {host: self._host(host) for host in hosts}

    def _host(self, host: str) -> MemoryConnector:
        def make(command: Command) -> CommandResult | int:
            name = command.script.split()[1]
            if (host, name) in self.broken:
                return CommandResult(host=host, command=command.script, exit_code=7, stderr=b"error: it is broken\n")
            if self.failures[host, name] > 0:
                self.failures[host, name] -= 1
                return 1
            self.made[host, name] += 1
            self.things[host].add(name)
            return 0

        connector = MemoryConnector(host)
        connector.on(
            re.compile(r"there \S+"), callback=lambda command: int(command.script.split()[1] not in self.things[host])
        )
        connector.on(re.compile(r"make \S+"), callback=make)
        connector.on(re.compile(r"unmake \S+"), callback=lambda c: self.things[host].discard(c.script.split()[1]))
        return connector

    def context(self, work_dir: Path, *, unreached: dict[str, HostError] | None = None) -> Context:
        return memory_context(
            work_dir, {host: Mortal(self, inner) for host, inner in self.memory.items()}, unreached=unreached
        )


class Mortal:
    """A connector whose user dies at the n-th change, before it is sent or after it was carried out."""

    def __init__(self, world: World, inner: Connector) -> None:
        self._world = world
        self._inner = inner

    @property
    def host(self) -> str:
        return self._inner.host

    @property
    def streams(self) -> Streams:
        return self._inner.streams

    async def connect(self) -> None:
        await self._inner.connect()

    async def close(self) -> None:
        await self._inner.close()

    async def execute(self, command: Command) -> CommandResult:
        if (left := self._world.dead.get(self.host)) is not None:
            if not left:
                raise ConnectionLost("the connection was lost", host=self.host)
            self._world.dead[self.host] = left - 1
        if not command.changes:
            return await self._inner.execute(command)
        mine = self._world.changes
        self._world.changes += 1
        if mine == self._world.die_at and not self._world.die_after:
            raise Died
        result = await self._inner.execute(command)
        if mine == self._world.die_at:
            raise Died
        return result

    async def upload(self, upload: Upload) -> bool:
        return await self._inner.upload(upload)

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        await self._inner.download(path, target, sudo=sudo)

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        return await self._inner.settle(prefix, wait=wait)

    async def forget(self, prefix: str) -> None:
        await self._inner.forget(prefix)

    async def boot_id(self) -> str:
        return await self._inner.boot_id()

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        self._inner.fence(path, token, held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing(Step):
    """The thing is there."""

    name: str
    makes: str = ""
    wants: tuple[str, ...] = ()
    secret: bool = False

    def reads(self) -> Resources:
        return resources(f"thing:{self.name}")

    def writes(self) -> Resources:
        return resources(f"thing:{self.name}")

    def produces(self) -> tuple[Key[Any], ...]:
        return (Key(self.makes, secret=self.secret),) if self.makes else ()

    def consumes(self) -> tuple[Key[Any], ...]:
        return tuple(Key(name) for name in self.wants)

    async def precheck(self, ctx: StepContext) -> Check:
        result = await ctx.host.connector.execute(Command(script=f"there {self.name}"))
        value: object = Secret(f"hush-{self.name}") if self.secret else f"value of {self.name}"
        values = dict.fromkeys(self.produces(), value) if result.ok else {}
        return Check(result.ok, values=values, reason="" if result.ok else "it is not there")

    async def run(self, ctx: StepContext) -> Values | None:
        for key in self.consumes():
            ctx.value(key)
        (await ctx.host.connector.execute(Command(script=f"make {self.name}", changes=True))).check()
        return None

    async def rollback(self, ctx: StepContext) -> None:
        await ctx.host.connector.execute(Command(script=f"unmake {self.name}", changes=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Thing):
    """Comes about by itself."""

    def writes(self) -> Resources:
        return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone(Step):
    """The thing is not there."""

    name: str

    def reads(self) -> Resources:
        return resources(f"thing:{self.name}")

    def writes(self) -> Resources:
        return resources(f"thing:{self.name}")

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(not (await ctx.host.connector.execute(Command(script=f"there {self.name}"))).ok)

    async def run(self, ctx: StepContext) -> Values | None:
        (await ctx.host.connector.execute(Command(script=f"unmake {self.name}", changes=True))).check()
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shout(Step):
    """Something that leaves nothing to read back."""

    name: str
    commands: ClassVar[int | None] = 1

    def reads(self) -> Resources:
        return frozenset()

    def writes(self) -> Resources:
        return resources(f"thing:{self.name}")

    async def precheck(self, ctx: StepContext) -> Check:
        return Check.unreadable()

    async def run(self, ctx: StepContext) -> Values | None:
        (await ctx.host.connector.execute(Command(script=f"make {self.name}", changes=True))).check()
        return None


def node(name: str, hosts: str, step: Step | None = None, **more: Any) -> ExecutionNode:
    return ExecutionNode(id=f"m.t.{name}", step=step or Thing(name=name), hosts=tuple(hosts), **more)


GROUND = ExecutionNode(id="m.t.ground", step=Thing(name="ground"), hosts=("a", "b", "c"), excluded="never runs")
"""First in every test graph, on three hosts: no index of a node equals that of one of its units, or of its host."""


def graph(*nodes: ExecutionNode, policy: FailurePolicy | None = None) -> ExecutionGraph:
    return bare_graph(GROUND, *nodes, policy=policy)


def bare_graph(*nodes: ExecutionNode, policy: FailurePolicy | None = None) -> ExecutionGraph:
    """For tests of what is shown of a run: nothing but these nodes."""
    return ExecutionGraph.build("test", ExecutionFragment(nodes), policy=policy)


class Watcher:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


async def execute(
    world: World,
    plan: ExecutionGraph,
    directory: Path,
    *,
    resume: bool = False,
    dry_run: bool = False,
    rollback: bool = False,
    observers: tuple[Observer, ...] = (),
    cancellation: Cancellation | None = None,
    unreached: dict[str, HostError] | None = None,
    parallel: int = 10,
    run: str = "r1",
) -> GraphExecutionResult:
    """One execution over the world, journalled in `directory`."""
    directory.mkdir(exist_ok=True)
    context = world.context(directory / "work", unreached=unreached)
    path = directory / "journal"
    prior = None
    if resume:
        journal, events = Journal.reopen(path)
        prior = Prior.of(events)
    else:
        journal = Journal.create(path)
    options = RunOptions(
        run=run,
        journal=journal,
        dry_run=dry_run,
        prior=prior,
        observers=observers,
        logs=directory / "logs",
        cancellation=cancellation or Cancellation(),
        rollback=rollback,
    )
    try:
        return await LocalEngine(parallel=parallel, attempts=ATTEMPTS).execute(context, plan, options)
    finally:
        await journal.close()


def states(result: GraphExecutionResult) -> dict[str, str]:
    return {
        f"{name.removeprefix('m.t.')}@{host.host}": host.state.value
        for name, host in result.results()
        if name != GROUND.id
    }
