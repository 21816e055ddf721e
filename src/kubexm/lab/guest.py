"""What is inside a lab host: the files that make a container behave as a machine. Must not know where its disk is."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from kubexm.lab.flavours import GuestFile

__all__ = ["IMAGE_FILES", "OPS_UID", "PACKAGES", "PREPARE", "host_files", "write_files"]

PACKAGES = (
    "ca-certificates",
    "conntrack",
    "curl",
    "dbus",
    "ebtables",
    "ethtool",
    "ipset",
    "iproute2",
    "iptables",
    "iputils-ping",
    "kmod",
    "netbase",
    "openssh-server",
    "openssl",
    "procps",
    "python3-minimal",
    "socat",
    "sudo",
    "systemd",
    "systemd-sysv",
    "zstd",
)

OPS_UID = 1000

_SETUP_UNIT = """\
[Unit]
Description=Make this container behave as a machine of its own
DefaultDependencies=no
After=systemd-remount-fs.service
Before=sysinit.target basic.target systemd-sysctl.service network-pre.target
Wants=network-pre.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/kubexm-lab/setup

[Install]
WantedBy=sysinit.target
"""

_SETUP = """\
#!/bin/sh
# Makes this container behave as a machine of its own, as far as Kubernetes can tell.
set -eu

# Container runtimes and the kubelet make control groups.
if [ "$(stat --file-system --format=%T /sys/fs/cgroup)" = cgroup2fs ]; then
    mount -o remount,bind,rw /sys/fs/cgroup
else
    for hierarchy in /sys/fs/cgroup/*; do
        if [ ! -L "$hierarchy" ] && mountpoint --quiet "$hierarchy"; then
            mount -o remount,bind,rw "$hierarchy"
        fi
    done
fi

# Pods' volumes are mounted from outside their mount namespace.
mount --make-rshared /

# The kubelet watches the kernel's log for processes killed for want of memory, and exits if there is none.
ln -sf /dev/null /dev/kmsg

# Settings that are the whole machine's: this host gets copies, which it may change as it likes. A few of them can only
# be written, so a copy that is not complete is as it should be.
private=/run/kubexm-lab/proc-sys
mkdir -p "$private/kernel/keys"
for tree in vm fs; do
    cp -r --no-preserve=all "/proc/sys/$tree" "$private/" 2>/dev/null || :
    mount --bind "$private/$tree" "/proc/sys/$tree"
done
for file in panic panic_on_oops pid_max keys/root_maxkeys keys/root_maxbytes; do
    cp --no-preserve=all "/proc/sys/kernel/$file" "$private/kernel/$file"
    mount --bind "$private/kernel/$file" "/proc/sys/kernel/$file"
done
cp /etc/kubexm-lab/swaps /run/kubexm-lab/swaps
mount --bind /run/kubexm-lab/swaps /proc/swaps

# The gateway's address is nobody's. Without a default route a process in the host's own network could not reach a
# service's address, and with one to somewhere the lab would have a way out.
. /etc/kubexm-lab/network
ip link set host0 up
ip address replace "$ADDRESS" dev host0
ip route replace default via "$GATEWAY" dev host0
"""

NO_SWAP = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

IMAGE_FILES: Mapping[str, GuestFile] = {
    # The machine's swap is not the host's, and a kubelet refuses to run with any.
    "/etc/kubexm-lab/swaps": GuestFile(content=NO_SWAP),
    "/etc/systemd/system/kubexm-lab-setup.service": GuestFile(content=_SETUP_UNIT),
    "/usr/local/lib/kubexm-lab/setup": GuestFile(content=_SETUP, mode=0o755),
}

# Timers that reach for the network or wake the machine up, a console nobody sits at and windows into the machine's own
# kernel are switched off. What must be each host's own (its keys, its machine id) is removed.
PREPARE = f"""\
systemctl enable kubexm-lab-setup.service ssh.service
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \\
    e2scrub_reap.service console-getty.service getty.target sys-kernel-debug.mount sys-kernel-tracing.mount
useradd --uid {OPS_UID} --create-home --shell /bin/bash --groups sudo ops
rm -f /etc/ssh/ssh_host_*
: >/etc/machine-id
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/*.log /var/lib/dbus/machine-id
"""


def host_files(
    *,
    name: str,
    machine_id: str,
    address: IPv4Interface,
    gateway: IPv4Address,
    nameserver: IPv4Address,
    authorized_key: str,
    host_key: tuple[str, str],
    root_login: bool,
) -> dict[str, GuestFile]:
    """The files that make a host this one and no other."""
    private, public = host_key
    files = {
        "/etc/hostname": GuestFile(content=f"{name}\n"),
        "/etc/hosts": GuestFile(content=f"127.0.0.1 localhost\n::1 localhost ip6-localhost\n{address.ip} {name}\n"),
        # One line that nobody answers: with none CoreDNS exits, and the machine's own resolver is out of reach.
        "/etc/resolv.conf": GuestFile(content=f"nameserver {nameserver}\n"),
        "/etc/machine-id": GuestFile(content=f"{machine_id}\n", mode=0o444),
        "/etc/kubexm-lab/network": GuestFile(
            content=f"ADDRESS={shlex.quote(str(address))}\nGATEWAY={shlex.quote(str(gateway))}\n"
        ),
        "/etc/ssh/ssh_host_ed25519_key": GuestFile(content=private, mode=0o600),
        "/etc/ssh/ssh_host_ed25519_key.pub": GuestFile(content=public),
        "/home/ops/.ssh/authorized_keys": GuestFile(content=authorized_key, mode=0o600),
    }
    if root_login:
        files["/root/.ssh/authorized_keys"] = GuestFile(content=authorized_key, mode=0o600)
    return files


def write_files(root: Path, files: Mapping[str, GuestFile]) -> None:
    """Put the files into the tree at `root`; what lies in ops's home belongs to ops."""
    for path, file in files.items():
        target = root / path.lstrip("/")
        owner = OPS_UID if path.startswith("/home/ops/") else 0
        for folder in reversed(target.parents):
            if not folder.exists():
                folder.mkdir(mode=0o700 if folder.name == ".ssh" else 0o755)
                os.chown(folder, owner, owner)
        target.unlink(missing_ok=True)  # never write through a link that points out of the tree
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, file.mode)
        with os.fdopen(fd, "w", encoding="utf-8") as opened:
            opened.write(file.content)
            os.fchmod(fd, file.mode)
            os.fchown(fd, owner, owner)
