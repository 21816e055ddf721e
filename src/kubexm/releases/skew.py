"""Which versions may run side by side in one cluster. Pure: versions in, findings out.

The rules are those of the Kubernetes version skew policy: API servers may be one minor apart; nothing else may be newer
than the oldest of them; kubelets and kube-proxies may be three minors behind the newest, controllers one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.releases.files import parse_version

__all__ = ["CONTROLLERS", "NODE_PROGRAMS", "Skew", "cluster_skew", "etcd_step", "kubernetes_step", "may_run_with"]

CONTROLLERS = ("kube-controller-manager", "kube-scheduler")
NODE_PROGRAMS = ("kubelet", "kube-proxy")

_BEHIND = {"kube-apiserver": 1, **dict.fromkeys(CONTROLLERS, 1), **dict.fromkeys(NODE_PROGRAMS, 3)}
"""How many minors a program may be behind the API servers it talks to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """A program that may not run with the API servers of its cluster."""

    host: str
    program: str
    version: str
    reason: str


def may_run_with(program: str, version: str, api_servers: Iterable[str]) -> str:
    """Why the program may not talk to API servers of these versions; empty if it may."""
    servers = sorted(map(parse_version, api_servers))
    if not servers or program not in _BEHIND:
        return ""
    found, oldest, newest = parse_version(version), servers[0], servers[-1]
    if program == "kube-apiserver":
        if found[0] != oldest[0] or abs(found[1] - oldest[1]) > 1 or abs(found[1] - newest[1]) > 1:
            return f"API servers may be one minor apart, and {_text(oldest)} runs too"
        return ""
    if found[:2] > oldest[:2]:
        return f"it is newer than an API server ({_text(oldest)})"
    if newest[0] != found[0] or newest[1] - found[1] > _BEHIND[program]:
        return f"it is more than {_minors(_BEHIND[program])} behind an API server ({_text(newest)})"
    return ""


def cluster_skew(running: Iterable[tuple[str, str, str]]) -> tuple[Skew, ...]:
    """What is wrong with these (host, program, version) in one cluster; versions that are not known are left out."""
    known = [item for item in running if item[2]]
    servers = [version for _, program, version in known if program == "kube-apiserver"]
    return tuple(
        Skew(host=host, program=program, version=version, reason=reason)
        for host, program, version in known
        if (reason := may_run_with(program, version, servers))
    )


def kubernetes_step(old: str, new: str) -> str:
    """Why a control plane may not go from one version to the other in one step; empty if it may."""
    before, after = parse_version(old), parse_version(new)
    if after < before:
        return f"{_text(after)} is older than {_text(before)}, and Kubernetes cannot be downgraded"
    if after[0] != before[0] or after[1] - before[1] > 1:
        return f"control planes go one minor at a time, and {_text(after)} is more than one after {_text(before)}"
    return ""


def etcd_step(old: str, new: str, upgrade_from: str) -> str:
    """Why members may not go from one version to the other in one step; empty if they may.

    `upgrade_from` is the oldest patch of the previous minor that the new one accepts, from its capabilities.
    """
    before, after = parse_version(old), parse_version(new)
    if before[:2] == after[:2]:
        return f"{_text(after)} is older than {_text(before)}" if after < before else ""
    if after < before:
        return f"{_text(after)} is older than {_text(before)}"
    if after[0] != before[0] or after[1] - before[1] != 1:
        return f"etcd goes one minor at a time, and {_text(after)} is more than one after {_text(before)}"
    if not upgrade_from or before < parse_version(upgrade_from):
        return f"members must run {upgrade_from or 'a later patch'} or later before {_text(after)}"
    return ""


def _text(version: tuple[int, int, int]) -> str:
    return "v" + ".".join(map(str, version))


def _minors(count: int) -> str:
    return "one minor" if count == 1 else f"{count} minors"
