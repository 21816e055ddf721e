"""The tasks of preflight: which check is made of which host. A check's name is what `spec.preflight.skip` takes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from kubexm import releases
from kubexm.components import needs, required
from kubexm.components.preflight.access import HostReached, PathsWritable, RootAllowed, ToolsPresent
from kubexm.components.preflight.capacity import CpuEnough, DiskEnough, MemoryEnough
from kubexm.components.preflight.check import shared
from kubexm.components.preflight.identity import (
    ClocksAgree,
    HostnameUnique,
    MachineIdUnique,
    MacUnique,
    ProductUuidUnique,
)
from kubexm.components.preflight.network import AddressesOwn, NamesResolve, NetworksApart, PortsFree
from kubexm.components.preflight.reach import Peer, PeersReachable, Target
from kubexm.components.preflight.settings import (
    FirewallKnown,
    ForwardingAllowed,
    SelinuxKnown,
    SwapBearable,
    TimeServiceRuns,
)
from kubexm.components.preflight.system import (
    ArchMatches,
    CgroupUsable,
    InitIsSystemd,
    KernelSupported,
    ModulesAvailable,
    OsSupported,
)
from kubexm.components.preflight.traces import NoForeignRuntime, NoLeftovers, NoOtherCluster
from kubexm.components.preflight.versions import versions_kept
from kubexm.components.runtimes import RUNTIMES
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment
from kubexm.runtime import TaskContext
from kubexm.step import ModulesLoaded, Step, SwapOff, SysctlSet, TimeKept
from kubexm.task import FragmentBuilder, Task

__all__ = [
    "Capacity",
    "CheckTask",
    "Connection",
    "Contents",
    "Identity",
    "NetworkAround",
    "OperatingSystem",
    "Settings",
]

_USUAL_DATA = ("/var/lib/etcd", "/var/lib/kubelet", *(runtime.usual_data for runtime in RUNTIMES))


class CheckTask(Task):
    """A task whose nodes are checks, side by side: none waits for another, and no host for another."""

    name: str

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """The checks of every host, by name."""
        raise NotImplementedError

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node for each check."""
        builder = FragmentBuilder(f"preflight.{self.name}")
        for name, step in self.checks(ctx).items():
            builder.add(name, step, on=ctx.hosts())
        return builder.build()


class Connection(CheckTask):
    """What kubexm itself needs on a host."""

    name = "access"

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """Getting in, being root, tools, places to write to."""
        return {
            "connection": HostReached(),
            "root": RootAllowed(),
            "tools": ToolsPresent(),
            "writable": PathsWritable(),
        }


class OperatingSystem(CheckTask):
    """What the operating system must be."""

    name = "system"

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """Distribution, kernel, architecture, init, control groups, modules."""
        kubernetes = ctx.cluster.spec.kubernetes
        accepts_v1 = kubernetes.kubelet.config.get("failCgroupV1") is False
        return {
            "os": OsSupported(),
            "kernel": KernelSupported(proxy_mode=kubernetes.kube_proxy.mode),
            "arch": ArchMatches(expected=shared({host.name: (host.arch,) for host in ctx.hosts() if host.arch})),
            "init": InitIsSystemd(),
            "cgroup": CgroupUsable(
                kubernetes=kubernetes.version.minor_text.removeprefix("v"),
                needs_v2=releases.kubernetes(str(kubernetes.version)).refuses_cgroup_v1 and not accepts_v1,
                refused_from=_first_without_cgroup_v1(),
            ),
            "modules": ModulesAvailable(
                wanted=shared({host.name: required.modules(ctx.cluster, host) for host in ctx.hosts()})
            ),
        }


def _first_without_cgroup_v1() -> str:
    return next(minor for minor in releases.minors() if releases.kubernetes(f"{minor}.0").refuses_cgroup_v1)


class Capacity(CheckTask):
    """What a host must have."""

    name = "capacity"

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """Processors, memory, disk."""
        preflight = ctx.cluster.spec.preflight
        paths = {host.name: needs.data_paths(ctx.cluster, host) for host in ctx.hosts()}
        return {
            "cpu": CpuEnough(least=preflight.min_cpu),
            "memory": MemoryEnough(least=preflight.min_memory),
            "disk": DiskEnough(least=preflight.min_disk, paths=shared(paths)),
        }


@dataclass(frozen=True, slots=True)
class Settings(CheckTask):
    """Settings that `create` mends, and `--fix` too: with it, steps that mend stand in place of checks."""

    fix: bool = False
    name = "settings"

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """Swap, forwarding, firewall, SELinux, time service."""
        system = ctx.cluster.spec.system
        bears_swap = ctx.cluster.spec.kubernetes.kubelet.config.get("failSwapOn") is False
        return {
            "swap": SwapBearable(create_mends=system.disable_swap, kubelet_bears=bears_swap),
            "forwarding": ForwardingAllowed(),
            "firewall": FirewallKnown(policy=system.firewall),
            "selinux": SelinuxKnown(policy=system.selinux),
            "time-service": TimeServiceRuns(create_mends=bool(system.ntp_servers)),
        }

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """The checks, or with `fix` what mends them where it is safe."""
        checks = self.checks(ctx)
        builder = FragmentBuilder(f"preflight.{self.name}")
        if not self.fix:
            for name, step in checks.items():
                builder.add(name, step, on=ctx.hosts())
            return builder.build()
        bears_swap = ctx.cluster.spec.kubernetes.kubelet.config.get("failSwapOn") is False
        builder.add("swap", checks["swap"] if bears_swap else SwapOff(), on=ctx.hosts())
        nodes = [host for host in ctx.hosts() if needs.is_node(host)]
        loaded = builder.add("modules-loaded", ModulesLoaded(modules=self._modules(ctx, nodes)), on=nodes)
        builder.add("forwarding", SysctlSet(values=needs.sysctl(ctx.cluster)), on=nodes, after_same_host=[loaded])
        builder.add("firewall", checks["firewall"], on=ctx.hosts())
        builder.add("selinux", checks["selinux"], on=ctx.hosts())
        timed = [host for host in ctx.hosts() if self._time_can_be_mended(ctx, host)]
        builder.add("time-service", checks["time-service"], on=[host for host in ctx.hosts() if host not in timed])
        builder.add("time-kept", TimeKept(servers=tuple(ctx.cluster.spec.system.ntp_servers)), on=timed)
        return builder.build()

    def _modules(self, ctx: TaskContext, nodes: list[Host]) -> tuple[str, ...]:
        """What all nodes need, by one name each: where either of two will do, nothing has to be loaded."""
        wanted = (name for host in nodes for name in required.modules(ctx.cluster, host))
        return tuple(dict.fromkeys(name for name in wanted if "|" not in name))

    def _time_can_be_mended(self, ctx: TaskContext, host: Host) -> bool:
        """True where a time service is installed that is not running."""
        facts = ctx.facts(host)
        units = ("chrony", "chronyd", "systemd-timesyncd", "ntp", "ntpd", "ntpsec", "openntpd")
        return not facts.clock.service and any(facts.unit(unit) is not None for unit in units)


class Identity(CheckTask):
    """What must differ between hosts, and what must agree."""

    name = "identity"

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """Names, ids, MAC addresses, clocks."""
        hosts = tuple(host.name for host in ctx.hosts())
        return {
            "hostname": HostnameUnique(hosts=hosts, create_mends=ctx.cluster.spec.system.set_hostname),
            "machine-id": MachineIdUnique(hosts=hosts),
            "product-uuid": ProductUuidUnique(hosts=hosts),
            "mac": MacUnique(hosts=hosts),
            "clock": ClocksAgree(hosts=hosts, most=ctx.cluster.spec.preflight.max_clock_skew.total_seconds()),
        }


class NetworkAround(CheckTask):
    """What the network must be like."""

    name = "network"

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """Addresses, networks, names, ports, the way to other hosts."""
        spec = ctx.cluster.spec
        names = () if spec.system.manage_hosts_file else tuple(host.name for host in ctx.hosts())
        networks = [("network.podCIDR", str(network)) for network in spec.network.pod_cidr]
        networks += [("network.serviceCIDR", str(network)) for network in spec.network.service_cidr]
        ports = spec.kubernetes.service_node_ports
        return {
            "addresses": AddressesOwn(
                addresses=shared({host.name: host.internal_addresses for host in ctx.hosts()}),
                hosts=tuple(host.name for host in ctx.hosts()),
            ),
            "cidr": NetworksApart(networks=tuple(networks)),
            "dns": NamesResolve(own_upstream=bool(spec.dns.coredns.upstream), names=names),
            "ports": PortsFree(
                uses=shared({host.name: required.ports(ctx.cluster, host) for host in ctx.hosts()}),
                cluster=ctx.cluster.name,
                node_ports=(ports.first, ports.last),
            ),
            "reachability": PeersReachable(
                peers=tuple(self._peer(ctx, host) for host in ctx.hosts()),
                api_port=spec.control_plane_endpoint.port,
                etcd_client_port=spec.etcd.client_port,
                etcd_peer_port=spec.etcd.peer_port,
                kubelet_port=needs.kubelet_port(ctx.cluster),
                outside=self._outside(ctx),
            ),
        }

    def _peer(self, ctx: TaskContext, host: Host) -> Peer:
        return Peer(
            name=host.name,
            address=host.internal_address,
            control_plane="controlPlane" in host.roles,
            etcd=needs.is_etcd(ctx.cluster, host),
            node=needs.is_node(host),
        )

    def _outside(self, ctx: TaskContext) -> tuple[Target, ...]:
        spec = ctx.cluster.spec
        found = []
        if spec.etcd.type == "external":
            for url in map(urlsplit, spec.etcd.external.endpoints):
                host = url.hostname or ""
                found.append(Target(name=host, address=host, port=url.port or 443, what="etcd", must_listen=True))
        endpoint = spec.control_plane_endpoint
        if endpoint.load_balancer == "external" and endpoint.address:
            found.append(
                Target(name="the load balancer", address=endpoint.address, port=endpoint.port, what="kube-apiserver")
            )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Contents(CheckTask):
    """What must not be on a host already."""

    uid: str = ""
    keep_versions: bool = False
    """What runs must be in the version of the file: the run that follows changes none."""
    name = "contents"

    def checks(self, ctx: TaskContext) -> dict[str, Step]:
        """Another cluster, leftovers, another runtime."""
        keepers = [host.name for host in ctx.hosts() if {"etcd", "controlPlane"} & host.roles]
        paths = {host.name: needs.data_paths(ctx.cluster, host) for host in ctx.hosts()}
        unusual = {
            name: tuple(path for path in found if path not in _USUAL_DATA and path != "/var/lib")
            for name, found in paths.items()
        }
        return {
            "membership": NoOtherCluster(cluster=ctx.cluster.name, uid=self.uid, keepers=tuple(keepers)),
            "leftovers": NoLeftovers(directories=shared(unusual)),
            "runtime": NoForeignRuntime(),
            **({"versions": versions_kept(ctx)} if self.keep_versions else {}),
        }
