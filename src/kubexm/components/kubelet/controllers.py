"""The controllers that let nodes in are at work. Must not know who joins.

A kubelet without a certificate is turned away and asks ever more seldom; one that is started before anybody signs
certificates reads the cluster's services so late that its first pods fail, and are not tried again for ten seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.api import Kind, Selection, kube_client, through_api
from kubexm.components.milestones import API_READY
from kubexm.errors import ApiUnavailable, StepError
from kubexm.runtime import StepContext, TaskContext
from kubexm.step import NOTHING, Check, Resources, Step, resources
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["ControllersWork", "controllers_work"]

# What a controller writes into every namespace: all of them have read what they need when the first has.
_WRITTEN: Final = Selection(
    kind=Kind("", "v1", "ConfigMap"), namespace="kube-system", fields="metadata.name=kube-root-ca.crt"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllersWork(Step):
    """One controller manager leads, and its controllers have begun."""

    patience: float = 120.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for what they write."""
        try:
            found = await kube_client(ctx).list(_WRITTEN, metadata_only=True)
        except ApiUnavailable:
            return Check(False, reason="the API does not answer")
        return Check(True) if found else Check(False, reason="no controller has done anything yet")

    async def run(self, ctx: StepContext) -> None:
        """Changes nothing: watches until they have begun."""
        if not await kube_client(ctx).until(_WRITTEN, bool, within=self.patience, patience=self.patience):
            raise StepError(
                f"no controller manager does its work after {self.patience:g} s",
                host=ctx.host.name,
                hint="its log tells why: `crictl logs` or `journalctl -u kube-controller-manager` on a control plane; "
                "`kubectl -n kube-system get lease kube-controller-manager` says who leads",
            )

    def reads(self) -> Resources:
        """What they write, whenever they do."""
        return resources("api:controllers")

    def writes(self) -> Resources:
        """Nothing, ever."""
        return NOTHING

    def describe(self) -> str:
        """The state."""
        return "controllers work"


def controllers_work(g: FragmentBuilder, ctx: TaskContext) -> NodeHandle:
    """Adds `controllers`, after which kubelets that ask for certificates may start."""
    return g.add("controllers", ControllersWork(), needs=API_READY, weight=3.0, **through_api(ctx))
