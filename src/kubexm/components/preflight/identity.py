"""Checks of what must differ between hosts, and of what must agree: names, ids, addresses, clocks.

Each host is compared with all others, by facts that are there already; what all hosts need is worked out once.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kubexm.cache import Key, Scope
from kubexm.components.preflight.check import Finding, HostCheck, few
from kubexm.runner import Facts
from kubexm.runtime import StepContext

__all__ = ["ClocksAgree", "HostnameUnique", "MacUnique", "MachineIdUnique", "ProductUuidUnique"]

T = TypeVar("T")
_OWNERS: Key[Mapping[str, list[str]]] = Key("preflight.owners", scope=Scope.STEP)
_CLOCKS: Key[tuple[float, tuple[str, float, float], tuple[str, float, float]]] = Key(
    "preflight.clocks", scope=Scope.STEP
)
_CONTAINERS = ("systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "oci", "wsl")
_PLACEHOLDERS = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
                 "03000200-0400-0500-0006-000700080009")  # fmt: skip


def worked_out(ctx: StepContext, key: Key[T], work: Callable[[], T]) -> T:
    """What `work` gives, done once for all hosts of a node."""
    if (key, "") not in ctx.cache:
        ctx.cache.set(key, work())
    return ctx.cache.get(key)


def known(ctx: StepContext, hosts: tuple[str, ...]) -> Iterable[tuple[str, Facts]]:
    """The hosts that told their facts."""
    for name in hosts:
        facts = ctx.facts_of(name)
        if not facts.is_assumed:
            yield name, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unique(HostCheck):
    """Something of a host that no other host has."""

    hosts: tuple[str, ...]
    """All hosts of the cluster."""

    def _values(self, facts: Facts) -> tuple[str, ...]:
        raise NotImplementedError

    def _finding(self, value: str, others: list[str]) -> Finding:
        raise NotImplementedError

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks for other hosts with the same value."""
        owners = worked_out(ctx, _OWNERS, lambda: self._owners(ctx))
        for value in self._values(ctx.facts):
            others = [name for name in owners.get(value, ()) if name != ctx.host.name]
            if others:
                yield self._finding(value, others)

    def _owners(self, ctx: StepContext) -> Mapping[str, list[str]]:
        owners: dict[str, list[str]] = {}
        for name, facts in known(ctx, self.hosts):
            for value in self._values(facts):
                owners.setdefault(value, []).append(name)
        return owners


@dataclass(frozen=True, slots=True, kw_only=True)
class HostnameUnique(_Unique):
    """No other host of the cluster has this hostname."""

    create_mends: bool
    """The file lets kubexm give each host its name."""

    def _values(self, facts: Facts) -> tuple[str, ...]:
        return (facts.hostname.lower(),) if facts.hostname else ()

    def _finding(self, value: str, others: list[str]) -> Finding:
        if self.create_mends:
            return Finding(
                f"its hostname {value} is also that of {few(others)}",
                "create gives each host the name it has in the file",
                warning=True,
            )
        return Finding(
            f"its hostname {value} is also that of {few(others)}",
            "give each host a name of its own (`hostnamectl set-hostname NAME`), or set system.setHostname to true",
        )

    def describe(self) -> str:
        """The state."""
        return "hostname unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineIdUnique(_Unique):
    """No other host of the cluster has this machine-id."""

    def _values(self, facts: Facts) -> tuple[str, ...]:
        return (facts.machine_id,) if facts.machine_id else ()

    def _finding(self, value: str, others: list[str]) -> Finding:
        return Finding(
            f"its machine-id {value} is also that of {few(others)}",
            "cloned machines, or one machine named twice? For clones: `rm -f /etc/machine-id /var/lib/dbus/machine-id; "
            "systemd-machine-id-setup` and reboot",
        )

    def describe(self) -> str:
        """The state."""
        return "machine-id unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductUuidUnique(_Unique):
    """No other host of the cluster has this product_uuid."""

    def _values(self, facts: Facts) -> tuple[str, ...]:
        # A container shows the one of the machine around it, and some boards ship with a placeholder.
        skip = facts.platform in _CONTAINERS or facts.product_uuid in _PLACEHOLDERS
        return (facts.product_uuid,) if facts.product_uuid and not skip else ()

    def _finding(self, value: str, others: list[str]) -> Finding:
        return Finding(
            f"its product_uuid {value} is also that of {few(others)}",
            "cloned VMs keep it: let the hypervisor make a new one",
            warning=True,
        )

    def describe(self) -> str:
        """The state."""
        return "product_uuid unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class MacUnique(_Unique):
    """No other host of the cluster has one of this host's MAC addresses."""

    def _values(self, facts: Facts) -> tuple[str, ...]:
        network = facts.network
        carriers = {route.interface for route in (network.route4, network.route6) if route is not None}
        found = [
            interface.mac.lower()
            for interface in network.interfaces
            if interface.mac.strip("0:") and (interface.physical or interface.name in carriers)
        ]
        return tuple(dict.fromkeys(found))

    def _finding(self, value: str, others: list[str]) -> Finding:
        return Finding(
            f"its MAC address {value} is also that of {few(others)}",
            "cloned VMs keep it: let the hypervisor make a new one for each",
        )

    def describe(self) -> str:
        """The state."""
        return "MAC addresses unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClocksAgree(HostCheck):
    """The clocks of all hosts are at most this many seconds apart."""

    hosts: tuple[str, ...]
    most: float

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares this host's clock with the one furthest from it, as far as the measurement can tell."""
        if ctx.facts.is_assumed:
            return
        middle, slowest, fastest = worked_out(ctx, _CLOCKS, lambda: self._range(ctx))
        own, error = ctx.facts.clock.offset, ctx.facts.clock.error
        name, furthest, their_error = max((slowest, fastest), key=lambda row: abs(row[1] - own))
        gap = abs(furthest - own)
        # Of two hosts that are too far apart at least one is this far from the middle: that one is to be told.
        if gap - error - their_error > self.most and abs(own - middle) * 2 >= self.most:
            yield Finding(
                f"its clock is {gap:.1f} s {'behind' if own < furthest else 'ahead of'} that of {name}",
                f"at most {self.most:g} s are allowed: set up time synchronisation (system.ntpServers), "
                "or raise spec.preflight.maxClockSkew",
            )
        elif abs(own) - error > max(self.most, 60.0):
            yield Finding(
                f"its clock is {abs(own):.0f} s {'ahead of' if own > 0 else 'behind'} this machine's",
                "certificates are dated by this machine: set its clock, or those of the hosts",
                warning=True,
            )

    def _range(self, ctx: StepContext) -> tuple[float, tuple[str, float, float], tuple[str, float, float]]:
        """The middle of all clocks, and the two at the ends: name, offset, error."""
        rows = [(name, facts.clock.offset, facts.clock.error) for name, facts in known(ctx, self.hosts)]
        by_offset = sorted(rows, key=lambda row: row[1])
        return statistics.median(offset for _, offset, _ in rows), by_offset[0], by_offset[-1]

    def describe(self) -> str:
        """The state."""
        return f"clocks within {self.most:g} s"
