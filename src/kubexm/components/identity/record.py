"""What the file said when the cluster was last brought to it: kept here and on control planes, so that edits are seen.

Nothing secret is in it and nothing of how hosts are reached, since that is not guarded. On control planes it leaves
/var/lib/kubexm/applied.json, which goes with that directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from kubexm.apis.v1alpha1 import Cluster, guarded
from kubexm.components import topology
from kubexm.components.milestones import API_READY
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runner import LAYOUT, STATE
from kubexm.runtime import ModuleContext, StepContext, TaskContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import restore, snapshot
from kubexm.task import FragmentBuilder, Task

__all__ = ["APPLIED", "ClusterRecord", "SpecRecorded", "SpecRecordedHere", "applied_text"]

APPLIED: Final = "applied.json"
"""Name of the file, in the work directory and in kubexm's own directory on control planes."""
_ON_HOST: Final = STATE / APPLIED


def applied_text(cluster: Cluster) -> str:
    """What is recorded of a cluster."""
    data = {"layout": LAYOUT, **guarded(cluster)}
    return json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRecordedHere(Step):
    """The work directory knows what the cluster was last brought to."""

    text: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares."""
        path = ctx.work_dir / APPLIED
        same = path.exists() and path.read_text("utf-8") == self.text
        return Check(True) if same else Check(False, reason="the file says something else than it did before")

    async def run(self, ctx: StepContext) -> None:
        """Writes it, whole or not at all."""
        path = ctx.work_dir / APPLIED
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(self.text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def reads(self) -> Resources:
        """The record."""
        return resources("secret:applied")

    def writes(self) -> Resources:
        """The record."""
        return resources("secret:applied")

    def describe(self) -> str:
        """The state."""
        return "the applied settings are recorded here"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRecorded(Step):
    """The control plane knows what the cluster was last brought to."""

    text: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares by digest; what differs is shown where it is applied, not here."""
        same = await ctx.host.files.matches(_place(ctx), content=self.text, mode=0o600)
        return Check(True) if same else Check(False, reason="it is not there, or differs")

    async def run(self, ctx: StepContext) -> None:
        """Writes it."""
        await ctx.host.files.write(_place(ctx), self.text, mode=0o600, keep=False, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, _place(ctx))

    def reads(self) -> Resources:
        """The record."""
        return resources(f"file:{_ON_HOST}")

    def writes(self) -> Resources:
        """The record."""
        return resources(f"file:{_ON_HOST}")

    def describe(self) -> str:
        """The state."""
        return f"the applied settings are recorded in {_ON_HOST}"


def _place(ctx: StepContext) -> PurePosixPath:
    return ctx.host.runner.state / APPLIED


class RecordSpec(Task):
    """Records what the file says, once there is a cluster that it is said of."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Here and on every control plane: either survives the loss of the other."""
        g, text = FragmentBuilder("record.settings"), applied_text(ctx.cluster)
        g.add("here", SpecRecordedHere(text=text), on=ctx.control_node, needs=API_READY)
        g.add("hosts", SpecRecorded(text=text), on=topology.control_planes(ctx), needs=API_READY)
        return g.build()


class ClusterRecord(Module):
    """What the cluster was brought to, for judging later edits (decision 21). Listed after the control plane."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One."""
        return (RecordSpec(),)
