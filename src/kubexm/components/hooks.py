"""Commands of the user's own at fixed places of an installation. Must not know where these places are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kubexm.apis.v1alpha1 import Cluster
from kubexm.apis.v1alpha1.system import Hook
from kubexm.connector import Host
from kubexm.connector.base import shell
from kubexm.plan import Milestone
from kubexm.runner import STATE
from kubexm.runtime import StepContext, TaskContext
from kubexm.step import EVERYTHING, Check, Resources, Step, resources
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["HookRun", "add_hooks"]

_DONE = STATE / "hooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun(Step):
    """A script of the user's ran to its end on this host; once it did, it is run again only if it was changed."""

    commands: ClassVar[int | None] = 1

    name: str
    script: str
    place: str
    """Which hook it is: the same script may stand in two places."""
    within: float = 300.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for the mark that a run to its end leaves."""
        if await ctx.host.files.exists(self._mark):
            return Check(True)
        return Check(False, reason="it has not been run")

    async def run(self, ctx: StepContext) -> None:
        """Runs it, as root, by sh; the mark is left by the same command."""
        done = f"( umask 022; mkdir -p -- {shell(_DONE)} ) && : >{shell(self._mark)}"
        await ctx.host.command.run(
            f"{shell('sh', '-c', self.script)} && {done}",
            within=self.within,
            long=True,
            display=self.name,
            hint="it is a command of yours, from `system` in the file: mend it there, then run again",
        )

    def reads(self) -> Resources:
        """The mark."""
        return resources(f"file:{self._mark}")

    def writes(self) -> Resources:
        """Anything: nobody knows what it does."""
        return EVERYTHING

    def describe(self) -> str:
        """Its name."""
        return f"hook {self.name!r}"

    @property
    def _mark(self) -> str:
        digest = hashlib.sha256(f"{self.place}\0{self.name}\0{self.script}".encode()).hexdigest()
        return str(_DONE / digest[:32])


def add_hooks(
    g: FragmentBuilder,
    ctx: TaskContext,
    hooks: Sequence[Hook],
    *,
    place: str,
    after: Sequence[NodeHandle] = (),
    after_same_host: Sequence[NodeHandle] = (),
    needs: Milestone | Sequence[Milestone] = (),
) -> list[NodeHandle]:
    """Adds a node for each hook; on a host they run one after the other, in the order of the file."""
    added: dict[NodeHandle, set[str]] = {}
    names: set[str] = set()
    for number, hook in enumerate(hooks, start=1):
        name = _node_name(hook.name, number, names)
        within = hook.timeout.total_seconds()
        hosts = _hook_hosts(ctx.cluster, ctx.hosts(), hook.on)
        earlier = [handle for handle, others in added.items() if any(host.name in others for host in hosts)]
        handle = g.add(
            name,
            HookRun(name=hook.name, script=hook.run, place=place, within=within),
            on=hosts,
            after=after,
            after_same_host=[*after_same_host, *earlier],
            needs=needs,
            optional=hook.ignore_errors,
            timeout=within + 30,
        )
        added[handle] = {host.name for host in hosts}
    return list(added)


def _hook_hosts(cluster: Cluster, hosts: Iterable[Host], targets: Sequence[str]) -> tuple[Host, ...]:
    """The hosts that these groups, names and ranges mean, in the order of the file."""
    named = {name for target in targets for name in cluster.target(target)[0]}
    return tuple(host for host in hosts if host.name in named)


def _node_name(text: str, number: int, taken: set[str]) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:40] or f"hook-{number}"
    if name in taken:
        name = f"{name}-{number}"
    taken.add(name)
    return name
