"""Whose host it is: before anything is removed, every host must be this cluster's, or nobody's."""

from __future__ import annotations

from dataclasses import dataclass

from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step

__all__ = ["HostNotAnothers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNotAnothers(Step):
    """The host carries this cluster's mark, or none."""

    cluster: str
    uid: str = ""
    """Of this cluster; empty if neither the work directory nor a host tells."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares the mark; refuses another cluster's host, so that nothing is touched anywhere."""
        marker = ctx.facts.marker
        if marker is None:
            return Check(True)
        if marker.uid == "unreadable":
            raise StepError(
                "its mark /var/lib/kubexm/cluster.json cannot be read, so nobody knows which cluster it is in",
                host=ctx.host.name,
                hint="put it back from another host of that cluster, or remove it if the host is surely of this one",
            )
        if marker.name != self.cluster or marker.uid != (self.uid or marker.uid):
            other = marker.name if marker.name != self.cluster else f"another cluster of this name ({marker.uid})"
            raise StepError(
                f"it belongs to {other}, not to {self.cluster}" + (f" ({self.uid})" if self.uid else ""),
                host=ctx.host.name,
                hint="take it out of this file, or use the file of the cluster it belongs to; nothing was removed",
            )
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Never needed."""

    def reads(self) -> Resources:
        """Facts, which do not change during a run."""
        return NOTHING

    def writes(self) -> Resources:
        """Nothing."""
        return NOTHING

    def describe(self) -> str:
        """The state."""
        return f"host of {self.cluster}, or of nobody"
