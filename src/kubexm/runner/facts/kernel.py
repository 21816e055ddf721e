"""Which kernel abilities matter to kubexm and how a host shows that it has them. Must not know who needs them."""

from __future__ import annotations

import re

from kubexm.runner.facts.model import Kernel
from kubexm.runner.facts.sections import Sections

__all__ = [
    "CAPABILITIES",
    "MODULES",
    "OPTIONS",
    "PROBES",
    "capabilities",
    "module_pattern",
    "option_pattern",
    "parse_kernel",
]

OPTIONS = {
    "OVERLAY_FS": "overlay",
    "BRIDGE_NETFILTER": "br_netfilter",
    "NF_CONNTRACK": "nf_conntrack",
    "NF_TABLES": "nf_tables",
    "IP_NF_IPTABLES": "ip_tables",
    "IP6_NF_IPTABLES": "ip6_tables",
    "IP_SET": "ip_set",
    "IP_VS": "ip_vs",
    "IP_VS_RR": "ip_vs_rr",
    "IP_VS_WRR": "ip_vs_wrr",
    "IP_VS_SH": "ip_vs_sh",
    "VXLAN": "vxlan",
    "WIREGUARD": "wireguard",
    "DUMMY": "dummy",
    "NET_IPIP": "ipip",
    "NF_NAT": "nf_nat",
    "BRIDGE": "bridge",
    "VETH": "veth",
    "TUN": "tun",
    "NFS_FS": "nfs",
}
"""Kernel options and the module each is, where it is one."""

MODULES = (*sorted(set(OPTIONS.values())), "iptable_nat", "iptable_filter", "nft_[a-z0-9_]+", "xt_[a-z0-9_]+", "cifs")

PROBES = {
    "br_netfilter": "/proc/sys/net/bridge/bridge-nf-call-iptables",
    "nf_conntrack": "/proc/sys/net/netfilter/nf_conntrack_max",
    "ip_vs": "/proc/net/ip_vs",
    "ip_tables": "/proc/net/ip_tables_names",
    "ip6_tables": "/proc/net/ip6_tables_names",
    "tun": "/dev/net/tun",
}
"""Paths that are there only where a module's work is."""

CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
"""By their number in the kernel."""

_MODULE = re.compile("^(?:" + "|".join(MODULES) + ")$")


def module_pattern() -> str:
    """A pattern of grep -E for the files of the modules that matter; `-` and `_` are the same in their names."""
    return "/(" + "|".join(name.replace("_", "[_-]") if "[" not in name else name for name in MODULES) + r")\.ko"


def option_pattern() -> str:
    """A pattern of grep -E for the kernel options that matter."""
    return "^CONFIG_(" + "|".join(OPTIONS) + ")="


def parse_kernel(found: Sections) -> Kernel:
    """The kernel, what is loaded, what is built in and what could be loaded."""
    loaded = {line.split()[0] for line in found.file("/proc/modules").split("\n") if line.strip()}
    builtin = {_name(line) for line in found.lines("modules.builtin")}
    builtin |= {path.rsplit("/", 1)[-1] for path in found.text("sys-module").split() if not path.endswith("*")}
    for line in found.lines("kernel-config"):
        option, _, value = line.removeprefix("CONFIG_").partition("=")
        if value.strip() == "y" and option in OPTIONS:
            builtin.add(OPTIONS[option])
    builtin |= {module for module, path in PROBES.items() if path in found.lines("probes")}
    builtin |= {words[-1] for line in found.file("/proc/filesystems").split("\n") if (words := line.split())}
    loadable = {_name(line) for line in found.lines("modules.dep")}
    limit = found.file("/proc/sys/net/netfilter/nf_conntrack_max")
    return Kernel(
        release=found.file("/proc/sys/kernel/osrelease"),
        version=found.file("/proc/sys/kernel/version"),
        loaded=tuple(sorted(loaded)),
        builtin=tuple(sorted(name for name in builtin - loaded if _MODULE.match(name))),
        loadable=tuple(sorted(name for name in loadable if _MODULE.match(name))),
        conntrack_max=int(limit) if limit.isdigit() else None,
        conntrack_writable="conntrack-writable" in found.lines("flags"),
        ip_forward=found.file("/proc/sys/net/ipv4/ip_forward") == "1",
    )


def capabilities(found: Sections) -> tuple[str, ...]:
    """What root may do here: our own effective set, as far as services can have it too."""
    own = _mask(found.file("/proc/self/status"), "CapEff")
    services = _mask(found.file("/proc/1/status"), "CapBnd")
    mask = (own or 0) & (services if services is not None else ~0)
    return tuple(f"CAP_{name}" for bit, name in enumerate(CAPABILITIES) if mask >> bit & 1)


def _mask(status: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return int(found[1], 16) if found else None


def _name(path: str) -> str:
    return path.strip().rsplit("/", 1)[-1].split(".ko")[0].replace("-", "_")
