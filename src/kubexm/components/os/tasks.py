"""The tasks of preparing hosts: what of it each host needs, by the file and the host's facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeVar

from kubexm.components import topology
from kubexm.components.assets import place_packages
from kubexm.components.hooks import add_hooks
from kubexm.components.milestones import HOST_READY
from kubexm.components.os import places, wanted
from kubexm.components.os.kernel import KernelTuned
from kubexm.components.os.steps import (
    BaselineKept,
    FirewallOpen,
    HostNamed,
    HostPrepared,
    SelinuxPermissive,
    Share,
    TimezoneSet,
)
from kubexm.components.removal import network_cleared
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment
from kubexm.runtime import TaskContext
from kubexm.step import (
    FilePresent,
    HostsEntries,
    ModulesLoaded,
    PackagesInstalled,
    ServiceStopped,
    Step,
    SwapOff,
    TimeKept,
)
from kubexm.task import FragmentBuilder, NodeHandle, Task

__all__ = ["PrepareHosts", "StartFromHosts"]

V = TypeVar("V")
_LIMITS: Final = PurePosixPath("/etc/security/limits.d/90-kubexm.conf")
_TIME_SERVICES: Final = ("chrony", "chronyd", "systemd-timesyncd", "ntp", "ntpd", "ntpsec", "openntpd")
_OUTER_CLOCK: Final = ("systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "oci", "wsl")
"""Containers have the clock of the machine around them, and no say in it."""


class StartFromHosts(Task):
    """Before anything else: keeps how each host was, then runs the user's commands."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node that keeps, and one for each command, in the order of the file."""
        g = FragmentBuilder("groundwork.host")
        found = {
            host.name: (
                places.directories(ctx.cluster, host),
                places.parameters(ctx.cluster, host),
                places.mount_points(host),
            )
            for host in ctx.hosts()
        }
        shares = tuple(
            Share(hosts=hosts, directories=directories, parameters=parameters, mount_points=points)
            for hosts, (directories, parameters, points) in _grouped(found)
        )
        kept = g.add("baseline", BaselineKept(shares=shares, network=network_cleared(ctx)), on=ctx.hosts())
        add_hooks(g, ctx, ctx.cluster.spec.system.pre_install, place="preInstall", after_same_host=[kept])
        return g.build()


class PrepareHosts(Task):
    """Packages, kernel, names, time, limits, firewall, SELinux: each host by itself."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Side by side, but for what one needs of another on the same host."""
        g = _PerHost(ctx)
        packages = self._packages(g, ctx)
        self._kernel(g, ctx, packages)
        self._names(g, ctx)
        self._time(g, ctx, packages)
        self._protection(g, ctx, packages)
        g.add("limits", FilePresent(path=_LIMITS, content=wanted.LIMITS), on=ctx.hosts())
        return g.done()

    def _packages(self, g: _PerHost, ctx: TaskContext) -> list[NodeHandle]:
        """What roles need comes from the bundle where the host lacks it; the user's from the host's repositories."""
        extra = ctx.cluster.spec.system.packages
        plain = [name for name in extra if "=" not in name]
        pinned = [name for name in extra if "=" in name]
        hosts = ctx.hosts() if plain else topology.nodes(ctx)
        nodes = [g.packages(hosts, plain)]
        if pinned:
            step = PackagesInstalled(packages=tuple(pinned))
            nodes.append(g.add("packages-pinned", step, on=ctx.hosts(), after=nodes))
        return nodes

    def _kernel(self, g: _PerHost, ctx: TaskContext, packages: Sequence[NodeHandle]) -> None:
        """Modules first, since parameters come with them; hosts that are no nodes get what the user wants only."""
        modules = {host.name: wanted.modules(ctx.cluster, host) for host in ctx.hosts()}
        loaded = [
            g.add(name, ModulesLoaded(modules=names), on=_of(ctx, hosts), after=packages)
            for name, hosts, names in _named("modules", modules)
        ]
        values = {host.name: tuple(wanted.kernel_parameters(ctx.cluster, host).items()) for host in ctx.hosts()}
        for name, hosts, items in _named("sysctl", values):
            step = KernelTuned(values=dict(items), least=wanted.LEAST)
            g.add(name, step, on=_of(ctx, hosts), after=loaded)
        # What the user wanted once may be there still.
        bare = [host for host in ctx.hosts() if not values[host.name]]
        if bare:
            g.add("sysctl-none", KernelTuned(values={}), on=bare)
        bears_swap = ctx.cluster.spec.kubernetes.kubelet.config.get("failSwapOn") is False
        if ctx.cluster.spec.system.disable_swap and not bears_swap:
            g.add("swap", SwapOff(), on=ctx.hosts())

    def _names(self, g: _PerHost, ctx: TaskContext) -> None:
        """Its own name, and everybody's in /etc/hosts."""
        if ctx.cluster.spec.system.set_hostname:
            g.add("hostname", HostNamed(), on=ctx.hosts())
        if ctx.cluster.spec.system.manage_hosts_file:
            g.add("hosts-file", HostsEntries(entries=tuple(wanted.hosts_entries(ctx).items())), on=ctx.hosts())

    def _time(self, g: _PerHost, ctx: TaskContext, packages: Sequence[NodeHandle]) -> None:
        """The zone, and a service that asks the user's servers; chrony is installed where there is no service."""
        system = ctx.cluster.spec.system
        if system.timezone:
            g.add("timezone", TimezoneSet(zone=system.timezone), on=ctx.hosts(), after=packages)
        if system.ntp_servers:
            own = [host for host in ctx.hosts() if ctx.facts(host).platform not in _OUTER_CLOCK]
            lacking = [host for host in own if not self._has_time_service(ctx, host)]
            brought = list(packages)
            if lacking:
                chrony = PackagesInstalled(packages=("chrony",))
                brought.append(g.add("time-package", chrony, on=lacking, after=packages))
            g.add("time", TimeKept(servers=tuple(system.ntp_servers)), on=own, after=brought)

    def _has_time_service(self, ctx: TaskContext, host: Host) -> bool:
        facts = ctx.facts(host)
        return bool(facts.clock.service) or any(facts.unit(unit) is not None for unit in _TIME_SERVICES)

    def _protection(self, g: _PerHost, ctx: TaskContext, packages: Sequence[NodeHandle]) -> None:
        """Firewall and SELinux, as the file says."""
        system = ctx.cluster.spec.system
        if system.firewall == "open":
            networks = wanted.hosts_networks(ctx)
            found = {host.name: wanted.openings(ctx.cluster, host, networks) for host in ctx.hosts()}
            g.add("firewall", FirewallOpen(shares=tuple(_grouped(found))), on=ctx.hosts(), after=packages)
        elif system.firewall == "disable":
            active = {host.name: ctx.facts(host).firewall for host in ctx.hosts()}
            for _, hosts, unit in _named("firewall", active):
                g.add(f"firewall-{unit}", ServiceStopped(unit=unit), on=_of(ctx, hosts))
        enforced = [host for host in ctx.hosts() if ctx.facts(host).security.selinux != "disabled"]
        if system.selinux == "permissive" and enforced:
            g.add("selinux", SelinuxPermissive(), on=enforced)


class _PerHost:
    """Nodes that wait for each other on the same host only, and one at the end that waits for all of them."""

    def __init__(self, ctx: TaskContext) -> None:
        self._ctx = ctx
        self._builder = FragmentBuilder("os.host")
        self._hosts: dict[NodeHandle, set[str]] = {}

    def add(self, name: str, step: Step, *, on: Iterable[Host], after: Sequence[NodeHandle] = ()) -> NodeHandle:
        hosts = tuple(on)
        return self._added(self._builder.add(name, step, on=hosts, after_same_host=self._shared(hosts, after)), hosts)

    def packages(self, hosts: Sequence[Host], extra: Sequence[str]) -> NodeHandle:
        return self._added(place_packages(self._builder, self._ctx, on=hosts, extra=extra), hosts)

    def done(self) -> ExecutionFragment:
        everybody = self._ctx.hosts()
        upstream = self._shared(everybody, tuple(self._hosts))
        self._builder.add("ready", HostPrepared(), on=everybody, after_same_host=upstream, provides=HOST_READY)
        return self._builder.build()

    def _added(self, handle: NodeHandle, hosts: Iterable[Host]) -> NodeHandle:
        self._hosts[handle] = {host.name for host in hosts}
        return handle

    def _shared(self, hosts: Iterable[Host], handles: Sequence[NodeHandle]) -> list[NodeHandle]:
        names = {host.name for host in hosts}
        return [handle for handle in handles if not names.isdisjoint(self._hosts[handle])]


def _grouped(values: Mapping[str, V]) -> list[tuple[tuple[str, ...], V]]:
    """The hosts of each distinct value, in order of first mention."""
    groups: dict[V, list[str]] = {}
    for host, value in values.items():
        groups.setdefault(value, []).append(host)
    return [(tuple(hosts), value) for value, hosts in groups.items()]


def _named(name: str, values: Mapping[str, V]) -> list[tuple[str, tuple[str, ...], V]]:
    """The same, without hosts that have nothing, each group with the name of its node."""
    groups = [(hosts, value) for hosts, value in _grouped(values) if value]
    return [(name if not index else f"{name}-{index + 1}", *group) for index, group in enumerate(groups)]


def _of(ctx: TaskContext, names: Iterable[str]) -> list[Host]:
    wanted_names = set(names)
    return [host for host in ctx.hosts() if host.name in wanted_names]
