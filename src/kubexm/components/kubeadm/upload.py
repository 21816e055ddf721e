"""kubeadm's settings in the cluster, where kubeadm itself and people look for them. Not needed by kubexm."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from kubexm.components.api import Ref, kube_client
from kubexm.components.kubeadm.layout import CONFIG, DIGEST
from kubexm.connector.base import shell
from kubexm.errors import ApiUnavailable
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["SettingsUploaded"]

_MAPS: Final = tuple(Ref("", "ConfigMap", "kube-system", name, "v1") for name in ("kubeadm-config", "kubelet-config"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsUploaded(Step):
    """kubeadm-config and kubelet-config in kube-system are those of these settings."""

    digest: str
    """Of the settings: noted on what was uploaded."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the note, in one read."""
        try:
            found = await kube_client(ctx).get_many(_MAPS, metadata_only=True)
        except ApiUnavailable:
            return Check(False, reason="the API does not answer")
        noted = [(one["metadata"].get("annotations") or {}).get(DIGEST) for one in found]
        if noted == [self.digest] * len(_MAPS):
            return Check(True)
        return Check(False, reason="they are not there, or of other settings")

    async def run(self, ctx: StepContext) -> None:
        """Has kubeadm upload them, then notes what they are of."""
        command = shell("kubeadm", "init", "phase", "upload-config", "all", "--config", CONFIG)
        await ctx.host.command.run(command, long=True, within=120)
        client, note = kube_client(ctx, patience=30.0), {"metadata": {"annotations": {DIGEST: self.digest}}}
        await asyncio.gather(*(client.patch(ref, note) for ref in _MAPS))

    def reads(self) -> Resources:
        """Both objects."""
        return resources("api:kubeadm-settings")

    def writes(self) -> Resources:
        """Both objects."""
        return resources("api:kubeadm-settings")

    def describe(self) -> str:
        """The state."""
        return "kubeadm's settings in the cluster"
