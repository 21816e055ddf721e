"""Checks of the operating system: distribution, kernel, init, control groups, modules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components.preflight.check import Finding, HostCheck, Share, few, share_of
from kubexm.runner import Facts
from kubexm.runner.facts.kernel import MODULES
from kubexm.runtime import StepContext

__all__ = ["ArchMatches", "CgroupUsable", "InitIsSystemd", "KernelSupported", "ModulesAvailable", "OsSupported"]

_TESTED_OS = {"debian": ("11", "12", "13")}
"""What kubexm itself is tested on: `make test-cluster-full` makes clusters on each. docs/systems.md says the same."""
_OLDEST_OS = {
    "debian": (11,), "ubuntu": (20, 4), "rhel": (8,), "centos": (8,), "rocky": (8,), "almalinux": (8,), "ol": (8,),
    "fedora": (38,), "amzn": (2023,), "openeuler": (22, 3), "anolis": (8,), "sles": (15,), "opensuse-leap": (15,),
}  # fmt: skip
_OLDEST_KERNEL = (4, 18)
_NFTABLES_KERNEL = (5, 13)
_LOOKED_FOR = re.compile("|".join(MODULES))
"""Modules that facts look for; of others they know only whether they are loaded."""
_LEAVE_OUT = "if you know better, leave the check out with spec.preflight.skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class OsSupported(HostCheck):
    """The distribution is tested, or is expected to work; what is known not to work is refused."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Nothing for a tested one, a warning for one that is expected to work, an error for one that is too old."""
        os = ctx.facts.os
        if os.version.partition(".")[0] in _TESTED_OS.get(os.id, ()):
            return
        oldest = _OLDEST_OS.get(os.id)
        tested = "; ".join(f"{name.title()} {', '.join(versions)}" for name, versions in _TESTED_OS.items())
        if oldest is None:
            packages = "" if ctx.facts.package_manager else ", and has no package manager kubexm knows"
            needs = "; conntrack, iptables, socat and ipset must be installed already" if packages else ""
            yield Finding(
                f"{os.name} is not a distribution kubexm knows{packages}; it was not tested there",
                f"tested: {tested}; expected to work: {few(_OLDEST_OS, most=20)}{needs}",
                warning=True,
            )
        elif os.version and _numbers(os.version) < oldest:
            needed = ".".join(f"{number:02d}" if index else str(number) for index, number in enumerate(oldest))
            yield Finding(f"{os.name} is refused: it is too old", f"upgrade to {os.id} {needed} or newer; {_LEAVE_OUT}")
        else:
            yield Finding(
                f"{os.name} is expected to work, but kubexm was not tested on it",
                f"try it on a spare host first; tested: {tested}",
                warning=True,
            )

    def describe(self) -> str:
        """The state."""
        return "operating system supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSupported(HostCheck):
    """The kernel is new enough for Kubernetes and for how kube-proxy is to work."""

    proxy_mode: str

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares versions."""
        release = ctx.facts.kernel.release
        version = _numbers(release)
        if version < _OLDEST_KERNEL:
            yield Finding(f"kernel {release} is too old", "Kubernetes needs 4.19 or newer (4.18 of RHEL 8 is fine)")
        elif self.proxy_mode == "nftables" and version < _NFTABLES_KERNEL:
            yield Finding(
                f"kernel {release} is too old for kube-proxy with nftables",
                "5.13 or newer is needed: upgrade it, or set kubernetes.kubeProxy.mode to iptables",
            )
        if ctx.facts.reboot_required:
            yield Finding("a reboot is pending", "better reboot now than under a running cluster", warning=True)

    def describe(self) -> str:
        """The state."""
        return "kernel supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchMatches(HostCheck):
    """The processor is of a kind Kubernetes is built for, and of the one the file says."""

    expected: tuple[Share, ...] = ()
    """What cluster.yaml says, for hosts where it does."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares."""
        arch = ctx.facts.arch
        if arch not in ("amd64", "arm64"):
            yield Finding(f"its processor is {arch}", "kubexm installs on amd64 and arm64")
            return
        wanted = share_of(self.expected, ctx.host.name)
        if wanted and wanted[0] != arch:
            yield Finding(
                f"its processor is {arch}, and the file says {wanted[0]}",
                f"set `arch: {arch}` for {ctx.host.name} in the file, or leave it out",
            )

    def describe(self) -> str:
        """The state."""
        return "architecture as in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitIsSystemd(HostCheck):
    """systemd is the host's init."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks at process 1 and whether systemd runs the host."""
        if not ctx.facts.systemd.running:
            yield Finding(
                f"its init is {ctx.facts.init or 'unknown'}, not systemd",
                "kubexm runs services under systemd: use a distribution that boots with it",
            )

    def describe(self) -> str:
        """The state."""
        return "init is systemd"


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupUsable(HostCheck):
    """Control groups are of a version the kubelet accepts, with the controllers it needs."""

    kubernetes: str
    needs_v2: bool
    """The kubelet of this version refuses v1, and its configuration does not say otherwise."""
    refused_from: str
    """The first minor whose kubelet does."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks at the version and the controllers."""
        facts = ctx.facts
        to_v2 = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel command line"
        if facts.cgroup == 1 and self.needs_v2:
            yield Finding(
                f"the kubelet of Kubernetes {self.kubernetes} refuses cgroup v1",
                f"{to_v2}, or set `failCgroupV1: false` under kubernetes.kubelet.config",
            )
        elif facts.cgroup == 1:
            yield Finding(
                f"it uses cgroup v1, which Kubernetes {self.refused_from} and later refuse by default",
                f"{to_v2} before you upgrade",
                warning=True,
            )
        missing = [name for name in ("cpu", "cpuset", "memory") if name not in facts.cgroup_controllers]
        if missing:
            yield Finding(
                f"the cgroup controllers {few(missing)} are off",
                "switch them on with `cgroup_enable=` on the kernel command line, and reboot",
            )
        if "pids" not in facts.cgroup_controllers:
            yield Finding("the cgroup controller pids is off", "pods cannot be kept from forking", warning=True)

    def describe(self) -> str:
        """The state."""
        return "control groups usable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulesAvailable(HostCheck):
    """The kernel has what this host needs: loaded, built in, or to be loaded."""

    wanted: tuple[Share, ...]

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares with what the kernel has."""
        facts = ctx.facts
        missing = [name for name in share_of(self.wanted, ctx.host.name) if not _has_any(facts, name)]
        if not missing:
            return
        names = few(name.replace("|", " or ") for name in missing)
        extra = {
            "debian": "linux-modules-extra-$(uname -r) (Ubuntu) or Debian's standard kernel",
            "rhel": "kernel-modules-extra",
            "suse": "kernel-default",
        }.get(facts.os.family, "the distribution's full kernel")
        other = "or set kubernetes.kubeProxy.mode to nftables or iptables; " if "ip_vs" in missing else ""
        remedy = f"install {extra}; {other}after a kernel update without a reboot, reboot; {_LEAVE_OUT}"
        yield Finding(f"kernel {facts.kernel.release} has no {names}", remedy)

    def describe(self) -> str:
        """The state."""
        return "kernel modules available"


def _has_any(facts: Facts, names: str) -> bool:
    """True if one of them is there or to be had, or if facts say nothing of them: loading it will tell."""
    kernel = facts.kernel
    return any(
        kernel.has(name) or name in kernel.loadable or not _LOOKED_FOR.fullmatch(name) for name in names.split("|")
    )


def _numbers(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
