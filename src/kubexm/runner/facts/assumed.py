"""What a host is taken to be while nobody can look: a typical, freshly installed Debian 12 server."""

from __future__ import annotations

from functools import lru_cache

from kubexm.runner.facts.kernel import CAPABILITIES
from kubexm.runner.facts.model import (
    Clock,
    Cpu,
    Disk,
    Facts,
    Filesystem,
    Interface,
    Kernel,
    Memory,
    Network,
    Os,
    Route,
    Security,
    Systemd,
)

__all__ = ["assumed_facts"]

_GIB = 1024**3
_COMMANDS = (
    "apt-get", "dpkg", "flock", "groupadd", "gzip", "ip", "ip6tables", "iptables", "journalctl", "modprobe", "mount",
    "nft", "setsid", "sha256sum", "ss", "sudo", "swapoff", "sysctl", "systemctl", "tar", "timedatectl", "timeout",
    "umount", "useradd", "xz",
)  # fmt: skip
_MODULES = (
    "br_netfilter", "bridge", "dummy", "ip6_tables", "ip_set", "ip_tables", "ip_vs", "ip_vs_rr", "ip_vs_sh",
    "ip_vs_wrr", "ipip", "iptable_filter", "iptable_nat", "nf_conntrack", "nf_nat", "nf_tables", "nfs", "overlay",
    "tun", "veth", "vxlan", "wireguard",
)  # fmt: skip


@lru_cache(maxsize=16)
def assumed_facts(arch: str = "amd64", *, hostname: str = "", address: str = "") -> Facts:
    """Debian 12 on this architecture: 4 CPUs, 8 GiB, systemd, cgroup v2, apt, no swap, nothing installed yet."""
    interface = Interface(
        name="eth0", mtu=1500, up=True, physical=True, addresses=(f"{address}/24",) if address else ()
    )
    route = Route(interface="eth0", source=address)
    return Facts(
        os=Os(id="debian", version="12", name="Debian GNU/Linux 12 (bookworm)", family="debian", codename="bookworm"),
        arch=arch,
        kernel=Kernel(release="6.1.0", loadable=_MODULES, conntrack_writable=True),
        cpu=Cpu(count=4),
        memory=Memory(total=8 * _GIB, available=7 * _GIB),
        hostname=hostname,
        filesystems=(Filesystem(mount="/", device="/dev/sda1", type="ext4", size=100 * _GIB, free=90 * _GIB),),
        disks=(Disk(name="sda", size=100 * _GIB, rotational=False),),
        network=Network(
            interfaces=(interface,),
            route4=route if "." in address else None,
            route6=route if ":" in address else None,
        ),
        cgroup=2,
        cgroup_controllers=("cpu", "cpuset", "hugetlb", "io", "memory", "pids"),
        init="systemd",
        systemd=Systemd(running=True, version=252),
        package_manager="apt",
        commands=_COMMANDS,
        security=Security(apparmor=True, capabilities=tuple(f"CAP_{name}" for name in CAPABILITIES)),
        clock=Clock(timezone="UTC", service="systemd-timesyncd", synchronized=True),
        is_assumed=True,
    )
