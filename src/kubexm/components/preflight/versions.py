"""The check that nothing which runs is in another version than the file asks for: `create` never changes versions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components.preflight.check import Finding, HostCheck, Share, share_of, shared
from kubexm.connector import Host
from kubexm.runtime import StepContext, TaskContext

__all__ = ["VersionsKept", "versions_kept"]

_CONTAINERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd")
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsKept(HostCheck):
    """What runs on the host is in the version the file asks for, or does not run yet."""

    wanted: tuple[Share, ...]
    """`NAME VERSION` of each program."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares with what processes and containers are; what cannot tell its version is left alone."""
        running = [one for one in ctx.facts.programs.running if one.source in ("process", "container") and one.version]
        for text in share_of(self.wanted, ctx.host.name):
            name, _, version = text.partition(" ")
            others = sorted({one.version for one in running if one.name == name and one.version != version})
            if others:
                yield Finding(
                    f"it runs {name} {' and '.join(others)}, and the file asks for {version}",
                    f"`create` does not change the version of what runs: ask for {others[0]} in the file",
                )

    def describe(self) -> str:
        """The state."""
        return "running programs in the versions of the file"


def versions_kept(ctx: TaskContext) -> VersionsKept:
    """The check for all hosts of the cluster."""
    return VersionsKept(wanted=shared({host.name: _wanted(ctx, host) for host in ctx.hosts()}))


def _wanted(ctx: TaskContext, host: Host) -> tuple[str, ...]:
    arch = ctx.facts(host).arch
    found = {name: _plain(version) for name, version in ctx.assets.programs(arch)}
    for image in ctx.assets.images(host.roles, arch):
        if image.name in _CONTAINERS:
            found[image.name] = _plain(image.reference.partition("@")[0].rpartition(":")[2])
    return tuple(f"{name} {version}" for name, version in sorted(found.items()) if version)


def _plain(version: str) -> str:
    """Without what an image's tag has beyond the version."""
    match = _VERSION.match(version)
    return f"v{match[1]}" if match else ""
