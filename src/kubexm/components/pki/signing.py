"""Certificates that are signed here and kept nowhere but on the host they are for."""

from __future__ import annotations

from datetime import timedelta

from kubexm.components.pki import kept, names
from kubexm.components.pki.x509 import Authority, Certificate, Pair, issue
from kubexm.runtime import StepContext

__all__ = ["sign_node"]


async def sign_node(ctx: StepContext, duration: int) -> Pair:
    """A client certificate of this host's kubelet, valid for so many seconds, as kubeadm would make it."""
    wanted = Certificate(
        name="",
        authority=names.CA,
        common_name=f"system:node:{ctx.host.name}",
        organizations=("system:nodes",),
        client=True,
    )
    authority = kept.pair_of(ctx, names.CA)
    return await kept.in_thread(lambda: issue(wanted, Authority(authority), timedelta(seconds=duration), kept.now()))
