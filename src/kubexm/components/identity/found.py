"""What the marks on the hosts say about the cluster: read when planning, from facts alone. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components import topology
from kubexm.errors import PlanError
from kubexm.runner.facts import ClusterMarker
from kubexm.runtime import TaskContext

__all__ = ["FoundCluster", "found_cluster"]

_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """The cluster as its hosts know it."""

    uid: str = ""
    """Empty: no host carries this cluster's mark."""
    fingerprint: str = ""
    """Of the CA it was brought up with; empty: nothing was brought up yet."""
    initialised: bool = False
    """True: some etcd member or control plane was brought up, so nothing is made anew."""


def found_cluster(ctx: TaskContext) -> FoundCluster:
    """What all marks together say. Refuses hosts of other clusters, and marks that contradict each other."""
    name = ctx.cluster.name
    marks = {host.name: mark for host in ctx.hosts() if (mark := ctx.facts(host).marker) is not None}
    keepers = [host.name for host in topology.keepers(ctx)]
    uid = ctx.cluster_uid or next(
        (marks[host].uid for host in keepers if host in marks and marks[host].name == name), ""
    )
    foreign = [f"{host}: {_foreign(mark, name, uid)}" for host, mark in marks.items() if not _ours(mark, name, uid)]
    if foreign:
        raise PlanError(
            "hosts of this file belong to another cluster, and are not touched:\n" + _lines(foreign),
            hint="take them out of the file, or delete them from that cluster first (`kubexm delete cluster` with its "
            "file); if that cluster is gone, remove /var/lib/kubexm on the host",
        )
    brought_up = {host: mark.ca_fingerprint for host, mark in marks.items() if mark.roles}
    if len(set(brought_up.values())) > 1:
        raise PlanError(
            f"the hosts of {name} do not agree on its CA:\n" + _lines(f"{h}: {f}" for h, f in brought_up.items()),
            hint="a host was put back from an older copy? Take it out of the file, clean it, and let it join again",
        )
    initialised = topology.is_initialised(ctx)
    if not initialised:
        _refuse_unless_reached(ctx)
    return FoundCluster(
        uid=uid if marks else "", fingerprint=next(iter(brought_up.values()), ""), initialised=initialised
    )


def _refuse_unless_reached(ctx: TaskContext) -> None:
    """A cluster is brought up for the first time only if it is certain that it is the first time."""
    asked = [host for host in ctx.hosts() if not ctx.facts(host).is_assumed]
    missing = [host.name for host in topology.keepers(ctx) if ctx.facts(host).is_assumed]
    if asked and missing:
        raise PlanError(
            f"{', '.join(missing)} could not be reached, so nobody knows whether {ctx.cluster.name} is there already",
            hint="to bring one up, each etcd and control-plane host must be reached; `kubexm preflight` says why",
        )


def _ours(mark: ClusterMarker, name: str, uid: str) -> bool:
    return mark.uid != _UNREADABLE and mark.name == name and mark.uid == uid


def _foreign(mark: ClusterMarker, name: str, uid: str) -> str:
    if mark.uid == _UNREADABLE:
        return "its mark /var/lib/kubexm/cluster.json cannot be read"
    if mark.name != name:
        return f"the cluster {mark.name}"
    if not uid:
        return f"a cluster {mark.name} of which no etcd or control-plane host in the file is part"
    return f"another cluster of the name {mark.name} ({mark.uid}, not {uid})"


def _lines(items: Iterable[str]) -> str:
    return "\n".join(f"  {item}" for item in items)
