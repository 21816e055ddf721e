"""What a new control plane says of itself, so that it can be found."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from kubexm.components.api.manifests import apply_manifests, check_manifests, undo_manifests
from kubexm.components.control_plane import cluster_info
from kubexm.components.documents import yaml_stream
from kubexm.redact import SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["ClusterInfoPublished"]

_CA: Final = SecretRef("pki.ca.crt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfoPublished(Step):
    """Where the API is, and its CA, can be read from kube-public by whoever holds a token."""

    server: str
    name: str = "cluster-info"

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares what is there with the CA at hand."""
        if not ctx.has_secret(_CA):
            return Check(False, reason="the cluster's CA is not made yet")
        return await check_manifests(ctx, self.name, self._manifests(ctx), "kube-public")

    async def run(self, ctx: StepContext) -> None:
        """Applies it."""
        await apply_manifests(
            ctx, self.name, self._manifests(ctx), namespace="kube-public", group="component", patience=120.0
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await undo_manifests(ctx, self.name, namespace="kube-public", group="component", patience=60.0)

    def reads(self) -> Resources:
        """The objects, and the CA."""
        return resources(f"api:{self.name}", f"secret:{_CA.name}")

    def writes(self) -> Resources:
        """The objects."""
        return resources(f"api:{self.name}")

    def describe(self) -> str:
        """The address."""
        return f"cluster-info names {self.server}"

    def _manifests(self, ctx: StepContext) -> str:
        ca = base64.b64encode(ctx.secret(_CA).reveal().encode()).decode()
        return yaml_stream(cluster_info(self.server, ca))
