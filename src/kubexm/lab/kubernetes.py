"""Which Kubernetes version a lab runs if none is named: the default of every cluster, or what this machine can run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm import releases
from kubexm.errors import LabError
from kubexm.lab.cgroups import hierarchies

__all__ = ["Choice", "choose", "uses_cgroup_v1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A version, and why it is not the default; empty if it is."""

    version: str
    reason: str = ""


def choose(available: Iterable[str] = (), *, cgroup_v1: bool) -> Choice:
    """The version for a lab out of those that are available; with none named, out of all the catalog knows."""
    usual = releases.default_kubernetes()
    named = sorted(available, key=releases.parse_version)
    known = named or [str(releases.kubernetes_data(minor)["newest"]) for minor in releases.minors()]
    runs = [version for version in known if not (cgroup_v1 and releases.kubernetes(version).refuses_cgroup_v1)]
    if usual in runs:
        return Choice(version=usual)
    wanted = _minor(usual)
    before = [version for version in runs or known if _minor(version) <= wanted] or runs or known
    version = before[-1]
    if len(runs) < len(known) and runs:
        first = next(each for each in releases.minors() if releases.kubernetes(f"v{each}.0").refuses_cgroup_v1)
        reason = f"this machine uses cgroup v1, which Kubernetes {first} and later refuse by default"
    else:
        reason = f"the default, {usual}, is not available"
    return Choice(version=version, reason=reason)


def uses_cgroup_v1() -> bool:
    """Whether hosts on this machine would have cgroup v1."""
    try:
        return any(tree.version == 1 for tree in hierarchies())
    except (LabError, OSError):  # no lab can run here, but bundles for others can be built
        return False


def _minor(version: str) -> tuple[int, int]:
    major, minor, _ = releases.parse_version(version)
    return major, minor
