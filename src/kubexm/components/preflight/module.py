"""Preflight: everything about the hosts that should be known before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kubexm.components.preflight.tasks import (
    Capacity,
    Connection,
    Contents,
    Identity,
    NetworkAround,
    OperatingSystem,
    Settings,
)
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Preflight"]

_NEVER_SKIPPED = ".versions"
"""What a run must not change is not for the file to allow."""


class Preflight(Module):
    """All checks of all hosts, side by side, so that all findings come at once."""

    def __init__(self, *, fix: bool = False, uid: str = "", keep_versions: bool = False) -> None:
        """`fix`: fix what is safe to fix. `uid`: of the cluster, where it is known already.

        `keep_versions`: refuse hosts that run other versions than the file asks for.
        """
        self._fix = fix
        self._uid = uid
        self._keep_versions = keep_versions

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """What kubexm needs, then what the host is, has, is set to, is called, can reach and holds."""
        return (
            Connection(),
            OperatingSystem(),
            Capacity(),
            Settings(self._fix),
            Identity(),
            NetworkAround(),
            Contents(self._uid, self._keep_versions),
        )

    def plan(self, ctx: ModuleContext) -> ExecutionFragment:
        """The checks, without those the file leaves out."""
        fragment = super().plan(ctx)
        skip = ctx.cluster.spec.preflight.skip
        known = [node.id for node in fragment.nodes if not node.id.endswith(_NEVER_SKIPPED)]
        left_out = {node for name in skip for node in _named(name, known)}
        return ExecutionFragment(
            tuple(
                replace(node, excluded="left out by spec.preflight.skip") if node.id in left_out else node
                for node in fragment.nodes
            )
        )


def _named(name: str, known: Sequence[str]) -> list[str]:
    """The nodes a user means, by the name of the check or by the whole id; none if this plan has no such check."""
    return [node for node in known if name in (node, node.rpartition(".")[2])]
