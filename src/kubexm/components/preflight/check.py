"""What a check is: a state that kubexm cannot bring about, and a remedy for the user if it does not hold.

Most checks look at facts that were gathered at the start anyway, so they cost no round trip. Must not change anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step

__all__ = ["Finding", "HostCheck", "Share", "few", "share_of", "shared", "size"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be on a host, and what to do about it."""

    problem: str
    remedy: str
    warning: bool = False
    """True: the cluster can be made all the same, but the user should know."""
    remains: bool = False
    """True: it may be kubexm's own, from a run that was stopped before it marked the host."""

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


class HostCheck(Step):
    """A check of one host: `find` tells all that is wrong."""

    __slots__ = ()

    async def find(self, ctx: StepContext) -> list[Finding]:
        """Everything that is not as it should be, by facts unless `look` says otherwise."""
        return list(self.look(ctx))

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """The findings that facts alone give."""
        raise NotImplementedError

    async def precheck(self, ctx: StepContext) -> Check:
        """Satisfied if nothing is wrong; else fails, here and in a dry run alike, since `run` could not mend it."""
        found = await self.find(ctx)
        for finding in found:
            if finding.warning:
                ctx.warn(str(finding))
        errors = [finding for finding in found if not finding.warning]
        if errors:
            raise StepError(
                "; ".join(finding.problem for finding in errors),
                host=ctx.host.name,
                hint="; ".join(dict.fromkeys(finding.remedy for finding in errors)),
            )
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Changes nothing, ever: looks again."""
        await self.precheck(ctx)

    def reads(self) -> Resources:
        """Facts, which do not change during a run."""
        return NOTHING

    def writes(self) -> Resources:
        """Nothing, ever."""
        return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What some hosts have in common: keeps plans of many hosts small."""

    hosts: tuple[str, ...]
    items: tuple[Any, ...]


def shared(items: Mapping[str, tuple[Any, ...]]) -> tuple[Share, ...]:
    """The hosts of each distinct value, in order of first mention; hosts with nothing are left out."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for host, value in items.items():
        if value:
            groups.setdefault(value, []).append(host)
    return tuple(Share(hosts=tuple(hosts), items=value) for value, hosts in groups.items())


def share_of(shares: tuple[Share, ...], host: str) -> tuple[Any, ...]:
    """What this host has."""
    return next((share.items for share in shares if host in share.hosts), ())


def few(names: Iterable[object], most: int = 5) -> str:
    """Names for a sentence: not more than a reader wants."""
    listed = [str(name) for name in names]
    rest = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + rest


def size(amount: int) -> str:
    """Bytes for people."""
    value = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit in ("B", "KiB") else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
