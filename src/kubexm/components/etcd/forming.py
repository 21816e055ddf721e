"""What members of a cluster that is formed are told: before they start whom they form it with, then that they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubexm.cache import Key
from kubexm.components.etcd.data import DataState, cluster_id, parse_state, state_script
from kubexm.components.etcd.layout import BOOTSTRAP
from kubexm.components.etcd.unit import founding, sealed
from kubexm.components.identity import CLUSTER_UID
from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import restore, snapshot

__all__ = ["FoundersKnown", "MemberSealed", "foreign_data", "look_at_data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundersKnown(Step):
    """A member without data knows whom it forms the cluster with; data of any other cluster is refused, and left alone.

    A member that has data of this very cluster, from a run that was cut short, has no need of it.
    """

    data_dir: str
    peers: tuple[tuple[str, str], ...]
    """Name and peer URL of every member."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the head of the log that is there and what the member was told, in one go."""
        if not ctx.has(CLUSTER_UID):
            return Check(False, reason="the cluster has no UID yet")
        script = f"{state_script(self.data_dir)}\ncat -- {shell(BOOTSTRAP)} 2>/dev/null || :"
        result = await ctx.host.command.read(script, display=f"look at {self.data_dir}")
        line, _, told = (result.text + "\n").partition("\n")
        state = parse_state(line)
        if state.ids is not None and state.ids.cluster == cluster_id((url for _, url in self.peers), self._token(ctx)):
            return Check(True)
        if not state.is_empty:
            raise foreign_data(ctx, self.data_dir, state)
        if told == self._text(ctx):
            return Check(True)
        return Check(False, reason="it does not know the other members yet")

    async def run(self, ctx: StepContext) -> None:
        """Writes it."""
        await ctx.host.files.write(BOOTSTRAP, self._text(ctx), snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, BOOTSTRAP)

    def reads(self) -> Resources:
        """The data, and the file."""
        return resources(f"file:{self.data_dir}/*", f"file:{BOOTSTRAP}")

    def writes(self) -> Resources:
        """The file."""
        return resources(f"file:{BOOTSTRAP}")

    def consumes(self) -> tuple[Key[Any], ...]:
        """The cluster's UID: with it in their token, members of two clusters never take each other for their own."""
        return (CLUSTER_UID,)

    def describe(self) -> str:
        """Who forms it."""
        return f"etcd to be formed by {', '.join(name for name, _ in self.peers)}"

    def _token(self, ctx: StepContext) -> str:
        return ctx.value(CLUSTER_UID)

    def _text(self, ctx: StepContext) -> str:
        return founding(self.peers, token=self._token(ctx))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSealed(Step):
    """A member that serves is told that it belongs to this cluster: if it loses its data, it forms no other one."""

    data_dir: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares with the cluster its log names, in one read."""
        script = f"{state_script(self.data_dir)}\ncat -- {shell(BOOTSTRAP)} 2>/dev/null || :"
        result = await ctx.host.command.read(script, display=f"look at {self.data_dir}")
        line, _, told = result.text.partition("\n")
        state = parse_state(line)
        if state.ids is None:
            return Check(False, reason="it has no data yet")
        same = f"{told}\n" == sealed(state.ids.cluster)
        return Check(True) if same else Check(False, reason="what it is told is for a member to be")

    async def run(self, ctx: StepContext) -> None:
        """Writes it."""
        state = await look_at_data(ctx, self.data_dir)
        if state.ids is None:
            raise StepError(f"{self.data_dir} holds no data, though the member served", host=ctx.host.name)
        await ctx.host.files.write(BOOTSTRAP, sealed(state.ids.cluster), snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, BOOTSTRAP)

    def reads(self) -> Resources:
        """The data, and the file."""
        return resources(f"file:{self.data_dir}/*", f"file:{BOOTSTRAP}")

    def writes(self) -> Resources:
        """The file."""
        return resources(f"file:{BOOTSTRAP}")

    def describe(self) -> str:
        """The file."""
        return f"file {BOOTSTRAP} of a member"


async def look_at_data(ctx: StepContext, data_dir: str) -> DataState:
    """What is in a member's directory."""
    result = await ctx.host.command.read(state_script(data_dir), display=f"look at {data_dir}")
    return parse_state(result.text)


def foreign_data(ctx: StepContext, directory: str, state: DataState) -> StepError:
    """The error for data that is not this cluster's."""
    what = f"data of another etcd cluster ({state.ids.cluster:x})" if state.ids is not None else f"`{state.stranger}`"
    return StepError(
        f"{directory} holds {what}, which kubexm does not touch",
        host=ctx.host.name,
        hint=f"if it is still needed, choose another spec.etcd.dataDir; if not, remove what is in {directory} "
        "yourself, then run again",
    )
