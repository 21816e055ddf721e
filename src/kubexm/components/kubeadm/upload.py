"""kubeadm's settings in the cluster, where kubeadm itself and people look for them. Not needed by kubexm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.api import Kubectl
from kubexm.components.kubeadm.layout import CONFIG, DIGEST
from kubexm.connector.base import shell
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["SettingsUploaded"]

_MAPS: Final = ("configmap/kubeadm-config", "configmap/kubelet-config")
_SYSTEM: Final = ("-n", "kube-system")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsUploaded(Step):
    """kubeadm-config and kubelet-config in kube-system are those of these settings."""

    digest: str
    """Of the settings: noted on what was uploaded."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the note, in one read."""
        path = DIGEST.replace(".", "\\.")
        form = '-o=jsonpath={range .items[*]}{.metadata.annotations.%s}{"\\n"}{end}' % path  # noqa: UP031
        result = await Kubectl(ctx.host).read("get", *_MAPS, *_SYSTEM, "--ignore-not-found", form)
        if result.ok and result.text.split() == [self.digest] * len(_MAPS):
            return Check(True)
        return Check(False, reason="they are not there, or of other settings")

    async def run(self, ctx: StepContext) -> None:
        """Has kubeadm upload them, then notes what they are of."""
        command = shell("kubeadm", "init", "phase", "upload-config", "all", "--config", CONFIG)
        await ctx.host.command.run(command, long=True, within=120)
        note = ("annotate", *_MAPS, *_SYSTEM, "--overwrite", f"{DIGEST}={self.digest}")
        await Kubectl(ctx.host).change(*note, patience=30.0, display="note what was uploaded")

    def reads(self) -> Resources:
        """Both objects."""
        return resources("api:kubeadm-settings")

    def writes(self) -> Resources:
        """Both objects."""
        return resources("api:kubeadm-settings")

    def describe(self) -> str:
        """The state."""
        return "kubeadm's settings in the cluster"
