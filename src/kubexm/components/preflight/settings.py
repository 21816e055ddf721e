"""Checks of settings that `create` mends itself where the file lets it, and that matter where it does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components.preflight.check import Finding, HostCheck, few, size
from kubexm.runtime import StepContext

__all__ = ["FirewallKnown", "ForwardingAllowed", "SelinuxKnown", "SwapBearable", "TimeServiceRuns"]

_OWN_CLOCK = ("systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "oci", "wsl")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapBearable(HostCheck):
    """Swap is off, or will be switched off, or the kubelet was told to bear it."""

    create_mends: bool
    """The file lets kubexm switch it off."""
    kubelet_bears: bool
    """The kubelet's config has `failSwapOn: false`."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks at the areas in use."""
        areas = ctx.facts.swap
        if not areas or self.kubelet_bears:
            return
        on = f"swap is on: {few(area.path for area in areas)} ({size(sum(area.size for area in areas))})"
        if self.create_mends:
            yield Finding(on, "create switches it off; `kubexm preflight --fix` does so now", warning=True)
        else:
            yield Finding(
                on,
                "`kubexm preflight --fix` switches it off; or set system.disableSwap to true, "
                "or `failSwapOn: false` under kubernetes.kubelet.config",
            )

    def describe(self) -> str:
        """The state."""
        return "swap off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingAllowed(HostCheck):
    """The kernel forwards packets, or `create` will make it do so."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Nothing stands in the way as long as root may set kernel parameters: create does."""
        if not ctx.facts.kernel.ip_forward and "CAP_NET_ADMIN" not in ctx.facts.security.capabilities:
            yield Finding(
                "packets are not forwarded, and root may not change that here",
                "set net.ipv4.ip_forward to 1 on the machine around this container",
            )

    def describe(self) -> str:
        """The state."""
        return "forwarding allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirewallKnown(HostCheck):
    """A firewall that is on will be seen to by kubexm, or the user knows of it."""

    policy: str
    """What the file says: open, disable or keep."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks for one that is on and is to be left alone."""
        if ctx.facts.firewall and self.policy == "keep":
            yield Finding(
                f"{ctx.facts.firewall} is on, and the file says to leave it alone",
                "open the ports of the cluster there yourself (docs/preflight.md lists them), "
                "or set system.firewall to open",
                warning=True,
            )

    def describe(self) -> str:
        """The state."""
        return "firewall known"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelinuxKnown(HostCheck):
    """SELinux does not enforce, or will be told not to, or the user knows of it."""

    policy: str
    """What the file says: keep or permissive."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks for enforcement that is to be left as it is."""
        if ctx.facts.security.selinux == "enforcing" and self.policy == "keep":
            yield Finding(
                "SELinux enforces, and the file says to leave it so",
                "install container-selinux and set enable_selinux for containerd, or set system.selinux to permissive",
                warning=True,
            )

    def describe(self) -> str:
        """The state."""
        return "SELinux known"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeServiceRuns(HostCheck):
    """A time service keeps the host's clock, or `create` will set one up."""

    create_mends: bool
    """The file names time servers, so create sees to it."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks for a service that runs and has synchronised; a container has the clock of the machine around it."""
        clock, platform = ctx.facts.clock, ctx.facts.platform
        if self.create_mends or platform in _OWN_CLOCK:
            return
        if not clock.service and not clock.synchronized:
            yield Finding(
                "no time service runs",
                "`kubexm preflight --fix` starts one that is installed; else install chrony, or set system.ntpServers",
                warning=True,
            )
        elif clock.synchronized is False:
            yield Finding(
                f"{clock.service} has not synchronised the clock",
                "see that its servers can be reached (`chronyc sources` or `timedatectl timesync-status`)",
                warning=True,
            )

    def describe(self) -> str:
        """The state."""
        return "time service runs"
