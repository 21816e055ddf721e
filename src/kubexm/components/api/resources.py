"""Kinds and where the API has them. What every cluster has is known; anything else is asked for by whoever needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubexm.components.api.documents import Ref

__all__ = ["Kind", "Resource", "discovered", "known_resource"]


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A kind of objects, as manifests write it."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, ref: Ref) -> Kind:
        """Of an object."""
        return cls(ref.group, ref.version, ref.kind)

    @property
    def root(self) -> str:
        """Where the API has everything of its group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def api_version(self) -> str:
        """As manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class Resource:
    """The resource of a kind."""

    kind: Kind
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Of one object, or of all of them (in a namespace)."""
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        parts = [f"{self.kind.root}{inside}/{self.plural}", *filter(None, (name, subresource))]
        return "/".join(parts)


_KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    "": (
        "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod ResourceQuota Secret Service ServiceAccount",
        "Namespace Node PersistentVolume",
    ),
    "apps": ("ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet", ""),
    "batch": ("CronJob Job", ""),
    "autoscaling": ("HorizontalPodAutoscaler", ""),
    "coordination.k8s.io": ("Lease", ""),
    "discovery.k8s.io": ("EndpointSlice", ""),
    "networking.k8s.io": ("Ingress NetworkPolicy", "IngressClass"),
    "policy": ("PodDisruptionBudget", ""),
    "rbac.authorization.k8s.io": ("Role RoleBinding", "ClusterRole ClusterRoleBinding"),
    "storage.k8s.io": ("CSIStorageCapacity", "CSIDriver CSINode StorageClass VolumeAttachment"),
    "scheduling.k8s.io": ("", "PriorityClass"),
    "node.k8s.io": ("", "RuntimeClass"),
    "certificates.k8s.io": ("", "CertificateSigningRequest"),
    "apiextensions.k8s.io": ("", "CustomResourceDefinition"),
    "apiregistration.k8s.io": ("", "APIService"),
    "admissionregistration.k8s.io": (
        "",
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
    ),
    "flowcontrol.apiserver.k8s.io": ("", "FlowSchema PriorityLevelConfiguration"),
}
"""By group: the kinds that are in namespaces, and those of the cluster."""


def known_resource(kind: Kind) -> Resource | None:
    """Of a kind that every cluster has; None for any other."""
    inside, whole = _KNOWN.get(kind.group, ("", ""))
    if kind.kind in inside.split():
        return Resource(kind, _plural(kind.kind), namespaced=True)
    return Resource(kind, _plural(kind.kind), namespaced=False) if kind.kind in whole.split() else None


def discovered(kind: Kind, document: Mapping[str, Any]) -> Resource | None:
    """Of a kind, from the APIResourceList of its group and version; None if it is not in there."""
    for item in document.get("resources") or ():
        if item.get("kind") == kind.kind and "/" not in item.get("name", "/"):
            return Resource(kind, item["name"], bool(item.get("namespaced")))
    return None


def _plural(kind: str) -> str:
    """As the API names the resources of the kinds above."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith(("s", "x")):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
