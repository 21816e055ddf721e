"""A backup as nodes: snapshot on a member's host, fetched and compared, sealed and published on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kubexm.components.assets import image
from kubexm.components.backup.access import EtcdAccess
from kubexm.components.backup.age import SealError, parse_recipient
from kubexm.components.backup.publishing import SetPublished
from kubexm.components.backup.sets import BACKUPS
from kubexm.components.backup.steps import SnapshotFetched, SnapshotRemoved, SnapshotTaken
from kubexm.components.runtimes import runtime_of
from kubexm.components.topology import control_planes, etcd_members, internal_address, server_url
from kubexm.errors import PlanError
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["Backup", "TakeBackup"]

_LONGEST = 2 * 3600.0


class TakeBackup(Task):
    """Takes one backup set."""

    def __init__(self, *, to: str, recipients: Sequence[str]) -> None:
        self._to = to
        self._recipients = tuple(recipients)

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """A bracket around the snapshot on the host: whatever happens, it does not stay there."""
        g, spec = FragmentBuilder("backup.set"), ctx.cluster.spec
        if not ctx.cluster_uid:
            raise PlanError(
                f"there is no cluster {ctx.cluster.name} that could be backed up from this work directory",
                hint="`kubexm create cluster` creates it, or fetches back what is needed of a cluster that exists",
            )
        here, cluster = ctx.control_node, ctx.cluster.name
        target = str(Path(self._to).expanduser().absolute() if self._to else Path(ctx.work_dir) / BACKUPS)
        recipients = self._checked(self._recipients or spec.etcd.backup.recipients)
        hosts = etcd_members(ctx) or control_planes(ctx)
        taken = g.add(
            "snapshot",
            SnapshotTaken(access=_access(ctx)),
            on=here,
            via=hosts,
            on_demand=True,
            timeout=_LONGEST,
            weight=5.0,
        )
        fetched = g.add(
            "fetch",
            SnapshotFetched(target=target, cluster=cluster),
            on=here,
            via=hosts,
            after_same_host=[taken],
            timeout=_LONGEST,
        )
        g.add("clean", SnapshotRemoved(), on=here, via=hosts, after_same_host=[fetched], closes=taken)
        published = SetPublished(
            target=target, cluster=cluster, kubernetes=str(spec.kubernetes.version), recipients=recipients
        )
        g.add("publish", published, on=here, after_same_host=[fetched])
        return g.build()

    @staticmethod
    def _checked(recipients: Sequence[str]) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(map(parse_recipient, recipients)))
        except SealError as error:
            raise PlanError(
                f"recipient {error}",
                hint="`kubexm backup keygen FILE` makes a key pair, and prints its public key",
            ) from None


class Backup(Module):
    """A backup set of the cluster."""

    def __init__(self, *, to: str = "", recipients: Sequence[str] = ()) -> None:
        self._to = to
        self._recipients = tuple(recipients)

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One."""
        return (TakeBackup(to=self._to, recipients=self._recipients),)


def _access(ctx: TaskContext) -> EtcdAccess:
    etcd = ctx.cluster.spec.etcd
    if etcd.type == "external":
        return EtcdAccess(type=etcd.type, endpoints=tuple(("", url) for url in etcd.external.endpoints))
    members = etcd_members(ctx)
    return EtcdAccess(
        type=etcd.type,
        endpoints=tuple((host.name, server_url(internal_address(ctx, host), etcd.client_port)) for host in members),
        image=image(ctx, "etcd") if etcd.type == "kubeadm" else "",
        runtime=runtime_of(ctx.cluster).name,
    )
