"""Pki: which cluster this is, what it trusts, and a certificate for everybody in it."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.pki.tasks import ClaimHosts, IssueCertificates, KeepAuthorities
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Pki"]


class Pki(Module):
    """All on the control node but the marks, which go to every host."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """What lasts, then whose the hosts are, then what is issued."""
        return (KeepAuthorities(), ClaimHosts(), IssueCertificates())
