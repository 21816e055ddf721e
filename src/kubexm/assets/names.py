"""The words assets are described with (roles, versions, distributions) and what makes one well formed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from kubexm.assets.layout import ARCHES
from kubexm.errors import AssetError

__all__ = [
    "ROLES",
    "check_kubernetes_version",
    "check_roles",
    "check_target",
    "check_text",
    "kubernetes_minor",
    "sorted_roles",
    "version_key",
]

ROLES = ("etcd", "controlPlane", "worker", "loadbalancer", "registry")
"""The role groups of cluster.yaml, in the order they are shown."""

_VERSION = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.]+)?")
_TARGET = re.compile(rf"[a-z][a-z0-9.]*(-[a-z0-9.]+)*-({'|'.join(ARCHES)})")


def check_kubernetes_version(value: str) -> str:
    """The value itself if it is a full version such as v1.34.4."""
    if not _VERSION.fullmatch(value):
        raise AssetError(f"{value!r} is not a Kubernetes version", hint="Write it in full, such as v1.34.4.")
    return value


def kubernetes_minor(version: str) -> str:
    """The minor a version belongs to: v1.34.4 is of 1.34."""
    major, minor, _ = check_kubernetes_version(version).removeprefix("v").split(".", 2)
    return f"{major}.{minor}"


def version_key(version: str) -> tuple[int, int, int, bool, str]:
    """What Kubernetes versions are sorted by: a pre-release comes before its release."""
    match = _VERSION.fullmatch(check_kubernetes_version(version))
    assert match is not None
    major, minor, patch, pre = match.groups()
    return int(major), int(minor), int(patch), pre is None, pre or ""


def check_roles(roles: Iterable[str]) -> tuple[str, ...]:
    """The roles themselves if there is at least one and all are known."""
    given = tuple(roles)
    if not given:
        raise AssetError("something no role needs does not belong in a bundle", hint=f"Roles are {', '.join(ROLES)}.")
    for role in given:
        if role not in ROLES:
            near = difflib.get_close_matches(role, ROLES, n=1)
            raise AssetError(
                f"{role!r} is not a role",
                hint=f"Did you mean {near[0]!r}?" if near else f"Roles are {', '.join(ROLES)}.",
            )
    return given


def sorted_roles(roles: Iterable[str]) -> tuple[str, ...]:
    """Each role once, in the order of ROLES."""
    return tuple(sorted(set(check_roles(roles)), key=ROLES.index))


def check_target(value: str) -> str:
    """The value itself if it is DISTRO-ARCH, such as debian-12-amd64."""
    if not _TARGET.fullmatch(value):
        raise AssetError(
            f"{value!r} does not name a distribution and an architecture",
            hint="Write ID and VERSION_ID of /etc/os-release and the architecture, such as debian-12-amd64.",
        )
    return value


def check_text(value: str, field: str) -> str:
    """The value itself if it is one non-empty line of printable text."""
    if not value or value != value.strip() or not value.isprintable():
        raise AssetError(f"{field} must be one line of text, not {value!r}")
    return value
