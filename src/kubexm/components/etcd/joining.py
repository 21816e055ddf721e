"""Members that join a cluster that is there: empty ones, be they new or reinstalled. The survivors decide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from kubexm.components.etcd.client import EtcdClient, Member, Membership, has_quorum, quorum
from kubexm.components.etcd.data import DataState, WalIds, parse_state, state_script
from kubexm.components.etcd.forming import foreign_data, look_at_data
from kubexm.components.etcd.layout import BOOTSTRAP, UNIT
from kubexm.components.etcd.unit import joining, sealed_for
from kubexm.connector.base import shell
from kubexm.errors import CommandError, StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import snapshot

__all__ = ["MemberAdmitted", "recognise"]

_PATIENCE = 60.0
_LATER = (
    "unhealthy cluster",
    "leader changed",
    "timed out",
    "too many learner",
    "deadline exceeded",
    "no leader",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAdmitted(Step):
    """This host's member belongs to the cluster: it has the cluster's data, or is expected as a learner.

    An empty host whose old self is still listed takes its place: the old one is removed, as long as the others are a
    quorum. Data of another cluster is refused, and left alone.
    """

    data_dir: str
    peer_urls: tuple[tuple[str, str], ...]
    """Name and peer URL of every member the file names."""
    others: tuple[tuple[str, str], ...]
    """Name and client URL of the members that were brought up before."""

    async def precheck(self, ctx: StepContext) -> Check:
        """A member that runs from its data belongs, as does one whose data is of the cluster it was sealed for; of any
        other the survivors are asked.
        """
        script = (
            f"{state_script(self.data_dir)}\nsystemctl is-active {UNIT}\ncat -- {shell(BOOTSTRAP)} 2>/dev/null || :"
        )
        result = await ctx.host.command.read(script, display=f"look at {self.data_dir}")
        line, active, told = [*(result.text + "\n").split("\n", 2), "", ""][:3]
        state = parse_state(line)
        if state.ids is not None and (active == "active" or state.ids.cluster == sealed_for(told)):
            return Check(True)
        if state.stranger:
            raise foreign_data(ctx, self.data_dir, state)
        found = await self._client(ctx).members()
        if state.ids is None:
            return self._expected(ctx, found, told)
        if found is None:
            return Check(False, reason="whose data it has cannot be told: the others do not answer")
        recognise(ctx, self.data_dir, state.ids, found)
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Has the survivors expect it, and tells it who they are."""
        found = await self._survivors(ctx)
        state = await look_at_data(ctx, self.data_dir)
        if state.ids is not None:
            recognise(ctx, self.data_dir, state.ids, found)
            return
        own = self._old_self(ctx, found)
        if own is not None and own.name:
            found = await self._remove(ctx, found, own)
        if found.with_peer_url(self._url(ctx)) is None:
            url = self._url(ctx)
            added = ("member", "add", ctx.host.name, "--learner", f"--peer-urls={url}")
            found = await self._change(ctx, *added, until=lambda members: members.with_peer_url(url) is not None)
        await ctx.host.files.write(BOOTSTRAP, self._told(ctx, found), snapshot=snapshot(ctx))

    def reads(self) -> Resources:
        """The data, the unit, and who the members are."""
        return resources(f"file:{self.data_dir}/*", f"unit:{UNIT}.service", "etcd:members")

    def writes(self) -> Resources:
        """Who the members are, and what this one is told."""
        return resources("etcd:members", f"file:{BOOTSTRAP}")

    def describe(self) -> str:
        """The state."""
        return "etcd member admitted"

    def _client(self, ctx: StepContext) -> EtcdClient:
        urls = tuple(url for name, url in self.others if name != ctx.host.name)
        return EtcdClient(ctx.host, urls or tuple(url for _, url in self.others))

    def _url(self, ctx: StepContext) -> str:
        return dict(self.peer_urls)[ctx.host.name]

    def _expected(self, ctx: StepContext, found: Membership | None, told: str) -> Check:
        """Whether an empty member need only be started."""
        if found is None:
            return Check(False, reason="it has no data, and the others do not answer")
        own = found.with_peer_url(self._url(ctx))
        if own is None:
            return Check(False, reason="it is not a member yet")
        if own.name:
            return Check(False, reason="its data is gone")
        same = told == self._told(ctx, found)
        return Check(True) if same else Check(False, reason="it does not know the other members yet")

    async def _survivors(self, ctx: StepContext) -> Membership:
        """Who is a member, as the survivors know; StepError where they are too few to say."""
        until = time.monotonic() + _PATIENCE / 2
        while True:
            found = await self._client(ctx).members()
            if found is not None:
                return found
            if time.monotonic() > until:
                raise StepError(
                    "the members that are left are too few to let it join: etcd has no quorum",
                    host=ctx.host.name,
                    hint="bring other members back first; if their data is lost for good, restore a snapshot of etcd",
                )
            await asyncio.sleep(1.0)

    def _old_self(self, ctx: StepContext, found: Membership) -> Member | None:
        named = next((member for member in found.members if member.name == ctx.host.name), None)
        return found.with_peer_url(self._url(ctx)) or named

    async def _remove(self, ctx: StepContext, found: Membership, own: Member) -> Membership:
        """Takes the place of the old self, whose data is gone, off the list, if the others are a quorum."""
        others = [member for member in found.voters if member.id != own.id]
        urls = {url: member.id for member in others for url in member.client_urls}
        healthy = {urls[url] for url in await self._client(ctx).healthy(urls)}
        if not own.learner and not has_quorum(len(found.voters), len(healthy)):
            raise StepError(
                "its data is gone, and taking its place anew could cost etcd its quorum: "
                f"of {len(found.voters)} members {len(healthy)} are well, and {quorum(len(found.voters))} must be",
                host=ctx.host.name,
                hint="bring the other members back first, then run again",
            )
        removed = ("member", "remove", own.hex_id)
        return await self._change(ctx, *removed, until=lambda members: members.with_id(own.id) is None)

    async def _change(self, ctx: StepContext, *words: str, until: Callable[[Membership], bool]) -> Membership:
        """Tells the survivors, again while they are not ready for it; what was done though no answer came is done."""
        end, wait = time.monotonic() + _PATIENCE, 0.5
        while True:
            result = await self._client(ctx).change(*words, display=f"etcdctl {' '.join(words)}")
            found = await self._survivors(ctx)
            if until(found):
                return found
            if time.monotonic() > end or not any(word in result.error_text for word in _LATER):
                raise CommandError(
                    host=ctx.host.name,
                    command=result.command,
                    exit_code=result.exit_code,
                    stderr=result.error_text,
                    message=f"the members of etcd refuse `{' '.join(words[:2])}`",
                    hint="are all of them well? `etcdctl endpoint health --cluster` on one of them tells",
                )
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)

    def _told(self, ctx: StepContext, found: Membership) -> str:
        """What it must know to join: every member under its own URL, this one under its name."""
        peers = [
            (ctx.host.name if url == self._url(ctx) else member.name or member.hex_id, url)
            for member in found.members
            for url in member.peer_urls
        ]
        return joining(peers)


def recognise(ctx: StepContext, data_dir: str, ids: WalIds, found: Membership) -> None:
    """Refuses data that is not of one of these members."""
    if ids.cluster != found.cluster:
        raise foreign_data(ctx, data_dir, DataState(ids))
    if found.with_id(ids.member) is None:
        raise StepError(
            f"{data_dir} holds data of this cluster's, of a member that was removed ({ids.member:x})",
            host=ctx.host.name,
            hint=f"it is of no use to the cluster any more: remove what is in {data_dir}, then run again; the "
            "member joins anew",
        )
