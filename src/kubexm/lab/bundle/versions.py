"""Which versions a lab bundle is built from. Each was found to verify; a few of what the catalog names do not.

Facts only. What belongs to a Kubernetes minor and does not differ from the catalog is not repeated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubexm.assets.catalog import release
from kubexm.assets.names import check_kubernetes_version, kubernetes_minor, version_key
from kubexm.errors import AssetError, UsageError
from kubexm.lab.kubernetes import Choice, choose

__all__ = [
    "DEBIAN",
    "DEBIAN_PACKAGES",
    "KNOWN_GOOD",
    "MINORS",
    "PARTS",
    "SHARED",
    "chosen",
    "default_kubernetes",
    "kubernetes_versions",
]

KNOWN_GOOD: Mapping[str, str] = {
    "1.33": "v1.33.13",
    "1.34": "v1.34.4",
    "1.35": "v1.35.8",
    "1.36": "v1.36.4",
    "1.37": "v1.37.1",
}
"""Patches of which every module verifies; of others, some modules may be missing."""

PARTS: Mapping[str, str] = {
    "cluster": "everything a cluster needs; always built",
    "helm": "the helm client",
    "registry": "the distribution registry, as a file and as an image",
}
"""What a bundle can be asked to hold."""

SHARED: Mapping[str, str] = {
    "containerd": "v2.1.9",
    "runc": "v1.3.6",
    "cni-plugins": "v1.7.1",
    "crictl": "v1.30.0",
    "flannel": "v0.26.7",
    "flannel-cni-plugin": "v0.9.1",
    "haproxy": "2.6.12",
    "local-path-provisioner": "v0.0.30",
    "busybox": "1.35.0",
    "helm": "v3.19.5",
    "registry": "v3.1.1",
}
"""The same for every Kubernetes version, so that a second one costs little."""

MINORS: Mapping[str, Mapping[str, str]] = {
    "1.32": {"etcd": "v3.5.21", "etcd-image": "3.5.21-0", "coredns": "v1.11.3"},
    "1.33": {"etcd": "v3.5.21", "etcd-image": "3.5.21-0", "coredns": "v1.12.0"},
    "1.34": {"etcd": "v3.6.5", "etcd-image": "3.6.5-0", "coredns": "v1.12.1"},
    "1.35": {"etcd": "v3.6.6", "etcd-image": "3.6.6-0", "coredns": "v1.13.1"},
    "1.36": {"etcd": "v3.6.8", "etcd-image": "3.6.8-0", "coredns": "v1.14.2"},
    "1.37": {"etcd": "v3.7.0", "etcd-image": "3.7.0-0", "coredns": "v1.14.6"},
}
"""What a minor must have of its own: what kubeadm of that minor deploys, or the nearest version that verifies."""

DEBIAN = "bookworm"
DEBIAN_PACKAGES = ("iptables", "conntrack", "ipset", "iproute2", "kmod", "nftables", "haproxy", "busybox-static")
"""Where files of images come from, apart from Go modules."""


def chosen(kubernetes: str) -> dict[str, str]:
    """The version of every component for this Kubernetes version, the catalog's with the lab's own put over it."""
    versions = release(kubernetes, "amd64").versions
    return {**versions, **SHARED, **MINORS[kubernetes_minor(kubernetes)]}


def kubernetes_versions(given: Iterable[str]) -> tuple[str, ...]:
    """Versions as the user wrote them, in full and in order, newest first; UsageError if one cannot be built."""
    found = set()
    for text in given:
        version = text if text.startswith("v") else f"v{text}"
        try:
            minor = kubernetes_minor(check_kubernetes_version(version))
        except AssetError as error:
            known = KNOWN_GOOD.get(text.removeprefix("v"))
            hint = f"Write it in full; {known} is known to build." if known else error.hint
            raise UsageError(f"{text!r} is not a Kubernetes version", hint=hint) from None
        if minor not in MINORS:
            raise UsageError(
                f"a lab bundle cannot be built for Kubernetes {minor}", hint=f"It can for {', '.join(MINORS)}."
            )
        found.add(version)
    usual = {default_kubernetes(cgroup_v1=False).version}
    return tuple(sorted(found or usual, key=version_key, reverse=True))


def default_kubernetes(*, cgroup_v1: bool) -> Choice:
    """The version a bundle is built for if none is named: of those known to build, what a lab here would run."""
    return choose(KNOWN_GOOD.values(), cgroup_v1=cgroup_v1)
