"""What kubexm knows about a host, as values. Must not know how it was found out.

Everything is frozen, hashable and made of plain JSON types: facts are saved with plans, compared and printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from kubexm.runner.facts.serial import decode, encode

__all__ = [
    "LAYOUT",
    "Clock",
    "ClusterMarker",
    "Cpu",
    "Disk",
    "Facts",
    "Filesystem",
    "Intent",
    "Interface",
    "Kernel",
    "LeaseLine",
    "Memory",
    "Network",
    "Os",
    "Port",
    "Presence",
    "Route",
    "Security",
    "SwapDevice",
    "Systemd",
    "Unit",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Os:
    """The operating system; `family` is debian, rhel, suse, arch, alpine or unknown."""

    id: str
    version: str
    name: str
    family: str
    codename: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """Processors this host may use."""

    count: int
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Main memory, in bytes."""

    total: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapDevice:
    """One active swap area, in bytes."""

    path: str
    kind: str
    size: int
    used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem:
    """One mounted local file system, in bytes."""

    mount: str
    device: str
    type: str
    size: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One block device, in bytes; `rotational` as the kernel says, None if it does not."""

    name: str
    size: int
    rotational: bool | None = None
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One network interface; addresses carry their prefix length."""

    name: str
    mac: str = ""
    mtu: int = 0
    up: bool = False
    physical: bool = False
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A default route and the address the host uses on it."""

    interface: str
    gateway: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Interfaces, default routes and resolvers."""

    interfaces: tuple[Interface, ...] = ()
    route4: Route | None = None
    route6: Route | None = None
    nameservers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address of the host that others could use, without prefix lengths."""
        found = (a.split("/")[0] for i in self.interfaces if i.name != "lo" for a in i.addresses)
        return tuple(a for a in found if not a.startswith(("127.", "fe80:", "169.254.")) and a != "::1")

    def interface_of(self, address: str) -> Interface | None:
        """The interface that has this address."""
        return next((i for i in self.interfaces if any(a.split("/")[0] == address for a in i.addresses)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The kernel and what it can do; module names with underscores."""

    release: str
    version: str = ""
    loaded: tuple[str, ...] = ()
    builtin: tuple[str, ...] = ()
    loadable: tuple[str, ...] = ()
    """Of the modules kubexm cares about, those that could be loaded."""
    conntrack_max: int | None = None
    conntrack_writable: bool = False
    ip_forward: bool = False

    def has(self, module: str) -> bool:
        """True if what the module gives is there now, loaded or built in."""
        name = module.replace("-", "_")
        return name in self.loaded or name in self.builtin


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Mandatory access control and what root may do here."""

    selinux: str = "disabled"
    """enforcing, permissive or disabled, now."""
    selinux_configured: str = ""
    """The same, at the next boot."""
    apparmor: bool = False
    capabilities: tuple[str, ...] = ()
    """Effective for us and for services, such as CAP_SYS_RESOURCE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The host's clock against ours, in seconds: it is `offset` ahead, give or take `error`."""

    time: float = 0.0
    offset: float = 0.0
    error: float = 0.0
    timezone: str = ""
    service: str = ""
    """The active time service (chrony, systemd-timesyncd, ntp, …), or nothing."""
    synchronized: bool | None = None
    """None: the host cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A listening port and who listens, where the host can tell."""

    protocol: str
    address: str
    port: int
    process: str = ""
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A systemd unit that is there."""

    name: str
    active: str
    enabled: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Systemd:
    """The host's systemd: whether it is the init, and its version (0: none)."""

    running: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Container runtimes and Kubernetes already there: sockets, units, paths that are not empty."""

    sockets: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()
    """Units that kubexm itself started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of a cluster in one version."""

    name: str
    """kubelet, kube-apiserver, etcd, containerd, runc, …"""
    version: str
    """Such as v1.34.4; empty where the host cannot tell."""
    source: str = ""
    """How it is known: process, container, manifest, link; empty: the program was asked."""
    path: str = ""
    """Its file, or its image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Versions of the cluster's programs on the host."""

    running: tuple[Program, ...] = ()
    """What runs now."""
    active: tuple[Program, ...] = ()
    """What would be started next: links of staged programs, images in manifests of static pods."""
    previous: tuple[str, ...] = ()
    """`NAME VERSION` that was active before."""
    staged: tuple[str, ...] = ()
    """`NAME VERSION` of everything that is staged."""

    def version(self, name: str) -> str:
        """The version of a program that runs; the oldest, if several do; empty if none does or it cannot be told."""
        found = [one.version for one in self.running if one.name == name and one.version]
        return min(found, key=_numbers, default="")

    def active_version(self, name: str) -> str:
        """The version that would be started next; empty if that is not known."""
        return next((one.version for one in self.active if one.name == name), "")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split("-")[0].split(".") if part.isdigit())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMarker:
    """Which cluster the host belongs to, as kubexm wrote it there."""

    uid: str
    name: str
    ca_fingerprint: str = ""
    roles: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict, hash=False)
    layout: int = 0
    """The layout of kubexm's records on the host; 0 for those from before there was a number."""


LAYOUT = 1
"""The layout of records on hosts and of applied.json that this version writes. A newer one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An operation, as its keepers record it: what cannot be read from the state of the hosts."""

    operation: str
    start: str = ""
    """What it begins from, a version for example."""
    goal: str = ""
    """What it leads to."""
    direction: str = "forward"
    """`forward`, or `back` if it is being undone."""
    hold: bool = False
    """True if it waits between two phases, each a run of its own: success of a run does not end it."""
    generation: int = 0
    run: str = ""
    token: int = 0
    """The fencing token of the run that wrote it: of several records the one with the highest counts."""
    open: bool = True
    """False once the operation has ended."""
    layout: int = LAYOUT

    @property
    def unreadable(self) -> bool:
        """True if there is a record that cannot be read."""
        return not self.operation

    @property
    def described(self) -> str:
        """For people."""
        way = f" ({self.start or '?'} → {self.goal or '?'})" if self.start or self.goal else ""
        return f"the operation {self.operation}{way}" + (", being undone," if self.direction == "back" else "")

    def to_json(self) -> dict[str, object]:
        """As it is recorded."""
        names = ("operation", "direction", "hold", "generation", "run", "token", "open", "layout")
        return {"from": self.start, "to": self.goal, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLine:
    """The lease as it was on the host: `owner` is empty when nobody holds it."""

    token: int
    owner: str = ""
    run: str = ""
    expiry: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything known about one host."""

    os: Os
    arch: str
    """amd64, arm64, or what the machine calls itself."""
    kernel: Kernel
    cpu: Cpu
    memory: Memory
    hostname: str
    machine_id: str = ""
    product_uuid: str = ""
    platform: str = ""
    """The container or virtualisation the host runs in, as far as it says."""
    boot_id: str = ""
    uptime: float = 0.0
    filesystems: tuple[Filesystem, ...] = ()
    disks: tuple[Disk, ...] = ()
    swap: tuple[SwapDevice, ...] = ()
    network: Network = field(default_factory=Network)
    cgroup: int = 2
    cgroup_controllers: tuple[str, ...] = ()
    init: str = "systemd"
    systemd: Systemd = field(default_factory=Systemd)
    package_manager: str = ""
    """apt, dnf, yum, zypper, or nothing."""
    firewall: str = ""
    """The active firewall service: firewalld, ufw, nftables, iptables, or nothing."""
    commands: tuple[str, ...] = ()
    """Of the programs kubexm cares about, those that are there."""
    security: Security = field(default_factory=Security)
    clock: Clock = field(default_factory=Clock)
    ports: tuple[Port, ...] = ()
    units: tuple[Unit, ...] = ()
    presence: Presence = field(default_factory=Presence)
    programs: Programs = field(default_factory=Programs)
    reboot_required: bool = False
    uid: int = 0
    sudo_user: str = ""
    """The login user, where commands run through sudo."""
    marker: ClusterMarker | None = None
    lease: LeaseLine | None = None
    intent: Intent | None = None
    is_assumed: bool = False
    """True: nobody looked; this is what a typical host is assumed to be."""

    @classmethod
    def assumed(cls, arch: str = "amd64", *, hostname: str = "", address: str = "") -> Facts:
        """What planning takes a host to be while it cannot be reached: a typical Debian 12 server."""
        from kubexm.runner.facts.assumed import assumed_facts

        return assumed_facts(arch, hostname=hostname, address=address)

    def has_command(self, name: str) -> bool:
        """True if the program was found."""
        return name in self.commands

    def unit(self, name: str) -> Unit | None:
        """The unit of this name (`.service` may be left out), if it is there."""
        full = name if "." in name else f"{name}.service"
        return next((unit for unit in self.units if unit.name == full), None)

    def filesystem_of(self, path: str | PurePosixPath) -> Filesystem | None:
        """The file system a path is on, or would be on."""
        pure = PurePosixPath(path)
        fitting = [f for f in self.filesystems if pure.is_relative_to(f.mount)]
        return max(fitting, key=lambda f: len(PurePosixPath(f.mount).parts), default=None)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        encoded = encode(self)
        assert isinstance(encoded, dict)
        return encoded

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Facts:
        """From what `to_dict` gave; anything else is refused."""
        return decode(cls, data)
