"""Members that serve, and restarts that cost no quorum. What etcd itself says counts, not that its process is there."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from kubexm.cache import Key, Scope
from kubexm.components.etcd.client import EtcdClient, Membership, has_quorum, parse_members, telling
from kubexm.components.etcd.layout import ETCDCTL, UNIT
from kubexm.connector.base import shell
from kubexm.errors import CommandError, StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, ServiceRunning, Step, resources
from kubexm.step.undo import remember

__all__ = ["MemberRunning", "MemberServing"]

_MEMBERS, _HEALTH = "etcd:members", "etcd:health"
_ALARM = "alarm"
_CRASHES = 3
"""Starts in vain after which waiting longer is no use."""
_OUTAGE = 20.0
"""Seconds without a quorum anywhere after which waiting for one member is no use: the others need something too."""
_DEFERRED: Key[bool] = Key("etcd.serving.deferred", per_host=True, scope=Scope.STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberServing(Step):
    """This host's member votes, answers with a quorum behind it, and has no alarm."""

    url: str
    """Of the member on the host itself."""
    peer_urls: tuple[tuple[str, str], ...]
    """Name and peer URL of every member the file names."""
    others: tuple[str, ...] = ()
    """Client URLs of all members of a cluster that is kept, one member after the other: they are asked to let a learner
    vote, and where no member has a quorum this one is not to blame, and the next gets its turn."""
    within: float = 120.0
    """Seconds for it to serve."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks the member itself, by reads that take a quorum."""
        if ctx.has(_DEFERRED):
            return Check(True)
        reason, found = await self._ask(ctx, long=False)
        if found is not None and not self.others and ctx.host.name == self.peer_urls[0][0]:
            self._warn_of_strangers(ctx, found)
        return Check(False, reason=reason) if reason else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Waits for it, and lets a learner vote once it has caught up; who does not come up tells its last words."""
        began, wait, reason = time.monotonic(), 0.2, ""
        silent = bool(self.others)
        while time.monotonic() < began + self.within:
            if self.others and await self._promote(ctx):
                silent = False
            reason, _ = await self._ask(ctx, long=True)
            if not reason:
                return
            status = await ctx.host.services.status(UNIT)
            if _ALARM in reason or status.active == "failed" or (not status.is_active and status.restarts >= _CRASHES):
                break
            if silent and status.is_active and time.monotonic() > began + _OUTAGE:
                remember(ctx, _DEFERRED, True)
                return
            await asyncio.sleep(wait)
            wait = min(wait * 2, 2.0)
        raise await self._failure(ctx, reason)

    def reads(self) -> Resources:
        """Its unit, and how etcd is."""
        return resources(f"unit:{UNIT}.service", _MEMBERS, _HEALTH)

    def writes(self) -> Resources:
        """Who votes, where there may be learners."""
        return resources(_MEMBERS) if self.others else NOTHING

    def describe(self) -> str:
        """The state."""
        return "etcd member serving"

    async def _ask(self, ctx: StepContext, *, long: bool) -> tuple[str, Membership | None]:
        """Why it does not serve, or nothing; and who the members are."""
        client = EtcdClient(ctx.host, (self.url,))
        ask = " && ".join(
            [
                f"[ -x {shell(ETCDCTL)} ]",
                client.command("endpoint", "health", seconds=3) + " >/dev/null",
                client.command("member", "list", "-w", "json", seconds=3),
            ]
        )
        result = await ctx.host.command.read(ask, check=False, long=long, display="ask etcd how it is")
        if not result.ok:
            return _reason(result.error_text), None
        found = parse_members(result.text)
        own = found.with_peer_url(dict(self.peer_urls)[ctx.host.name]) if found is not None else None
        if own is None:
            return "it answers, and is not listed as a member", found
        return ("it does not vote yet", found) if own.learner else ("", found)

    async def _promote(self, ctx: StepContext) -> bool:
        """Lets this member vote if it is a learner; etcd refuses until it has caught up, so it is asked again.

        False if no member answers with a quorum.
        """
        client = EtcdClient(ctx.host, self.others)
        found = await client.members()
        own = found.with_peer_url(dict(self.peer_urls)[ctx.host.name]) if found is not None else None
        if own is not None and own.learner and own.name:
            await client.change("member", "promote", own.hex_id, display=f"let {ctx.host.name} vote in etcd")
        return found is not None

    async def _failure(self, ctx: StepContext, reason: str) -> StepError | CommandError:
        log = await _last_words(ctx, separator="\n")
        failure = await ctx.host.services.failure(UNIT)
        hint = f"its whole log: `journalctl -u {UNIT}` on {ctx.host.name}"
        if isinstance(failure, CommandError):
            return await _did_not_stay_up(ctx, failure)
        if _ALARM in reason:
            hint = "see `etcdctl alarm list`; of a full database: compact, defragment, then `etcdctl alarm disarm`"
            return StepError(f"etcd refuses writes: {reason}", host=ctx.host.name, hint=hint)
        return CommandError(
            host=ctx.host.name,
            command=f"ask etcd at {self.url}",
            exit_code=1,
            stderr=log,
            message=f"etcd runs, and does not serve after {self.within:g} s ({reason})",
            hint=f"can its members reach each other at their peer URLs? {hint}",
        )

    def _warn_of_strangers(self, ctx: StepContext, found: Membership) -> None:
        known = {url for _, url in self.peer_urls}
        for member in found.members:
            if known.isdisjoint(member.peer_urls):
                name = member.name or ", ".join(member.peer_urls)
                ctx.warn(
                    f"etcd has a member {name} that the file does not name; to remove it: "
                    f"`etcdctl member remove {member.hex_id}`"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRunning(ServiceRunning):
    """etcd runs from these inputs, as ServiceRunning has it; restarted only if the others are a quorum without it."""

    urls: tuple[tuple[str, str], ...] = ()
    """Name and client URL of every member of a cluster that is there; of one that is formed, nobody is asked."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks systemd; an etcd that does not stay up tells why in its own words."""
        # By name: a class with slots is made anew, which super() without arguments does not know.
        check = await ServiceRunning.precheck(self, ctx)
        if check.satisfied or not any(word in check.reason for word in ("failed", "activating")):
            return check
        words = await _last_words(ctx)
        return Check(False, reason=f"etcd does not stay up (`journalctl -u {UNIT}` has it all): {words}")

    async def run(self, ctx: StepContext) -> None:
        """Restarts it, unless that would cost the quorum."""
        if self.urls and (await ctx.host.services.status(self.unit)).is_active:
            await self._spare_quorum(ctx)
        try:
            await ServiceRunning.run(self, ctx)
        except CommandError as error:
            raise await _did_not_stay_up(ctx, error) from error

    def writes(self) -> Resources:
        """The unit, and how etcd is: what others read of that before no longer counts."""
        return ServiceRunning.writes(self) | (resources(_HEALTH) if self.urls else NOTHING)

    async def _spare_quorum(self, ctx: StepContext) -> None:
        """Refuses if others are missing; where there is no quorum now, a restart can only help."""
        client = EtcdClient(ctx.host, tuple(url for _, url in self.urls))
        found = await client.members()
        if found is None:
            return
        own = dict(self.urls)[ctx.host.name]
        others = [member for member in found.voters if own not in member.client_urls]
        urls = {url: member for member in others for url in member.client_urls}
        healthy = {urls[url].id for url in await client.healthy(urls)}
        voters = len(others) + 1
        # Of one or two members, none can be missed: then all others must be well, and the restart is a short break.
        if len(healthy) == len(others) if voters <= 2 else has_quorum(voters, len(healthy)):
            return
        missing = [member.name or member.hex_id for member in others if member.id not in healthy]
        raise StepError(
            f"restarting etcd here would leave {len(healthy)} of {voters} members, too few to go on: "
            f"{', '.join(missing)} does not answer",
            host=ctx.host.name,
            hint=f"bring {missing[0]} back first (`journalctl -u {UNIT}` there), then run again",
        )


async def _did_not_stay_up(ctx: StepContext, error: CommandError) -> CommandError:
    """The error with what of etcd's log tells."""
    return CommandError(
        host=ctx.host.name,
        command=error.command,
        exit_code=error.exit_code,
        stderr=await _last_words(ctx, separator="\n"),
        message="etcd does not stay up",
        hint=f"its whole log: `journalctl -u {UNIT}` on {ctx.host.name}",
    )


async def _last_words(ctx: StepContext, separator: str = " | ") -> str:
    """What of etcd's log tells why it does not come up: usage that it prints after an error can be long."""
    log = await ctx.host.services.logs(UNIT, 600)
    return separator.join(telling(log))


def _reason(output: str) -> str:
    """What etcdctl's complaint comes down to."""
    text = output.lower()
    if "rpc not supported for learner" in text:
        return "it does not vote yet"
    if _ALARM in text:
        return f"it has an {_ALARM}: {' '.join(output.split())[-200:]}"
    if "certificate" in text or "tls" in text:
        return "its certificate or ours is refused"
    return "it does not answer with a quorum"
