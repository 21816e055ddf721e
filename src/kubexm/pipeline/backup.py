"""Backup: an etcd snapshot and the cluster's keys as one set, checked after writing and after copying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubexm.pipeline.base import Pipeline
from kubexm.pipeline.declaration import Kind, Option

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph
    from kubexm.runtime import PipelineContext

__all__ = ["BackupCluster"]


class BackupCluster(Pipeline):
    """One backup set. A cluster with hosts that are down can be backed up as long as etcd has a quorum."""

    name = "backup"
    summary = "Back up a cluster; list, verify and prune backup sets."
    description = (
        "Take a backup set: a snapshot of one healthy etcd member, verified on its host and again after copying, a "
        "manifest, and CAs, keys, cluster.yaml and state, sealed for a recipient's public key. Without a recipient "
        "they are left out."
    )
    command = ("backup", "now")
    options = (
        Option(
            name="to",
            kind=Kind.TEXT,
            metavar="DIRECTORY",
            local=True,
            help="Directory for the set; by default `backups` in the work directory.",
        ),
        Option(
            name="recipient",
            kind=Kind.NAMES,
            metavar="KEY",
            help="Public key to seal secrets for (age1…); instead of spec.etcd.backup.recipients.",
        ),
    )
    takes = ("dry_run",)
    needs_all_hosts = False

    def __init__(self, *, to: str = "", recipient: Sequence[str] = ()) -> None:
        self._to = to
        self._recipients = tuple(recipient)

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module."""
        from kubexm.components.backup.module import Backup
        from kubexm.module import sequence
        from kubexm.plan import FailureMode, FailurePolicy

        policy = FailurePolicy(mode=FailureMode.ISOLATE)
        return sequence(Backup(to=self._to, recipients=self._recipients)).graph(ctx, name=self.name, policy=policy)
