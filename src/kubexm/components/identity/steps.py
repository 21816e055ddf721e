"""The cluster's UID in the work directory, and the mark by which each host knows its cluster (decision 20)."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kubexm.cache import Key
from kubexm.components.identity.keys import CA_FINGERPRINT, CLUSTER_UID
from kubexm.errors import StepError
from kubexm.runner.facts import ClusterMarker
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["ClusterIdentified", "HostMarked"]

_MARK = "file:/var/lib/kubexm/cluster.json"
_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentified(Step):
    """The work directory has the cluster's UID: the one its hosts carry, or for a new cluster one of its own."""

    cluster: str
    found: str = ""
    """The UID on the hosts of a cluster that is there already."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads it; refuses a directory that belongs to another cluster of this name."""
        known = ctx.cluster_uid
        if not known:
            return Check(False, reason="the cluster has no UID yet" if not self.found else "it is on the hosts only")
        if self.found and known != self.found:
            raise StepError(
                f"{ctx.work_dir} is of another cluster of the name {self.cluster} ({known}) than the hosts are "
                f"({self.found})",
                host=ctx.host.name,
                hint="name the right directory with --work-dir, or move this one away: what is needed of the cluster "
                "is then fetched from its control planes",
            )
        return Check(True, values={CLUSTER_UID: known})

    async def run(self, ctx: StepContext) -> None:
        """Writes it, whole or not at all."""
        path = ctx.work_dir / "uid"
        _write(path, f"{self.found or uuid.uuid4()}\n")

    def reads(self) -> Resources:
        """The UID."""
        return resources("secret:uid")

    def writes(self) -> Resources:
        """The UID."""
        return resources("secret:uid")

    def produces(self) -> tuple[Key[Any], ...]:
        """The UID."""
        return (CLUSTER_UID,)

    def describe(self) -> str:
        """The state."""
        return f"UID of the cluster {self.cluster}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMarked(Step):
    """The host carries this cluster's mark, and on it this role, if any; roles it has already stay."""

    cluster: str
    role: str = ""
    """etcd, controlPlane or worker once that was brought up there; empty: the host is the cluster's, no more."""

    async def precheck(self, ctx: StepContext) -> Check:
        """What the facts of this run say is enough if it holds; else reads. Refuses another cluster's host."""
        if not (ctx.has(CLUSTER_UID) and ctx.has(CA_FINGERPRINT)):
            return Check(False, reason="which cluster it is, is not known yet")
        if self._holds(ctx, ctx.facts.marker):
            return Check(True)
        marker = await ctx.host.marker.read()
        self._refuse_foreign(ctx, marker)
        if self._holds(ctx, marker):
            return Check(True)
        if marker is None:
            return Check(False, reason="it carries no mark")
        return Check(False, reason=f"its mark does not say {self.role}" if self.role else "its mark lacks the CA")

    async def run(self, ctx: StepContext) -> None:
        """Writes the mark with what was on it before."""
        marker = await ctx.host.marker.read()
        self._refuse_foreign(ctx, marker)
        if marker is None:
            marker = ClusterMarker(uid=ctx.value(CLUSTER_UID), name=self.cluster)
        roles = dict.fromkeys((*marker.roles, *((self.role,) if self.role else ())))
        await ctx.host.marker.write(
            replace(marker, ca_fingerprint=ctx.value(CA_FINGERPRINT), roles=tuple(sorted(roles)))
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Takes the role off the mark again; ownership goes with the mark itself, if no role is left on it."""
        marker = await ctx.host.marker.read()
        if marker is None or marker.uid != ctx.cluster_uid:
            return
        roles = tuple(role for role in marker.roles if role != self.role)
        if self.role:
            await ctx.host.marker.write(replace(marker, roles=roles))
        elif not roles:
            await ctx.host.marker.remove()

    def reads(self) -> Resources:
        """The mark."""
        return resources(_MARK)

    def writes(self) -> Resources:
        """The mark."""
        return resources(_MARK)

    def consumes(self) -> tuple[Key[Any], ...]:
        """Which cluster it is."""
        return (CLUSTER_UID, CA_FINGERPRINT)

    def describe(self) -> str:
        """The state."""
        return f"host marked as {self.cluster}'s" + (f" {self.role}" if self.role else "")

    def _holds(self, ctx: StepContext, marker: ClusterMarker | None) -> bool:
        return (
            marker is not None
            and marker.uid == ctx.value(CLUSTER_UID)
            and marker.name == self.cluster
            and marker.ca_fingerprint == ctx.value(CA_FINGERPRINT)
            and (not self.role or self.role in marker.roles)
        )

    def _refuse_foreign(self, ctx: StepContext, marker: ClusterMarker | None) -> None:
        """Another cluster's host, or one that was made with another CA, is never touched."""
        if marker is None:
            return
        if marker.uid == _UNREADABLE:
            raise StepError(
                "its mark /var/lib/kubexm/cluster.json cannot be read, so nobody knows which cluster it is in",
                host=ctx.host.name,
                hint="put it back from another host of that cluster, or remove it if there is none any more",
            )
        uid, fingerprint = ctx.value(CLUSTER_UID), ctx.value(CA_FINGERPRINT)
        if marker.uid != uid or marker.name != self.cluster:
            raise StepError(
                f"it belongs to another cluster: {marker.name} ({marker.uid}), not {self.cluster} ({uid})",
                host=ctx.host.name,
                hint="take it out of this file, or delete it from that cluster first; if another run made this cluster "
                "meanwhile, use that one's work directory",
            )
        # As long as nothing was brought up there, a CA that was lost may be made anew.
        if marker.roles and marker.ca_fingerprint and marker.ca_fingerprint != fingerprint:
            raise StepError(
                f"it was made with another CA ({marker.ca_fingerprint}) than the one in {ctx.work_dir} ({fingerprint})",
                host=ctx.host.name,
                hint="put the right work directory back, or move this one away: the CA is then fetched from the hosts",
            )


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
