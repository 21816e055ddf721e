"""The fact script's output as facts. Must not talk to a host; whatever a host leaves out becomes a plain default."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

from kubexm.runner.facts.kernel import capabilities, parse_kernel
from kubexm.runner.facts.model import (
    Clock,
    ClusterMarker,
    Cpu,
    Disk,
    Facts,
    Filesystem,
    Intent,
    LeaseLine,
    Memory,
    Os,
    Presence,
    Security,
    SwapDevice,
    Systemd,
    Unit,
)
from kubexm.runner.facts.network import parse_network, parse_ports
from kubexm.runner.facts.programs import parse_programs
from kubexm.runner.facts.sections import Sections, key_values

__all__ = ["normal_arch", "parse_facts", "parse_intent", "parse_lease", "parse_marker", "parse_swaps", "parse_units"]

_ARCHES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv7l": "arm", "armv8l": "arm"}
_FAMILIES = {
    "debian": "debian", "ubuntu": "debian",
    "rhel": "rhel", "fedora": "rhel", "centos": "rhel", "rocky": "rhel", "almalinux": "rhel", "ol": "rhel",
    "amzn": "rhel", "openeuler": "rhel", "anolis": "rhel", "kylin": "rhel",
    "suse": "suse", "sles": "suse", "opensuse": "suse", "opensuse-leap": "suse", "opensuse-tumbleweed": "suse",
    "arch": "arch", "alpine": "alpine",
}  # fmt: skip
_PACKAGE_MANAGERS = (("apt-get", "apt"), ("dnf", "dnf"), ("yum", "yum"), ("zypper", "zypper"))
_TIME_SERVICES = {
    "chrony.service": "chrony",
    "chronyd.service": "chrony",
    "systemd-timesyncd.service": "systemd-timesyncd",
    "ntpsec.service": "ntpsec",
    "ntpd.service": "ntp",
    "ntp.service": "ntp",
    "openntpd.service": "openntpd",
}
_PSEUDO = {"devtmpfs", "tmpfs", "ramfs", "squashfs", "efivarfs", "nsfs", "devfs", "iso9660", "none", "erofs"}
_POD_MOUNTS = re.compile(r"^/(run|var/run|var/lib/kubelet/pods|var/lib/containers/storage|var/lib/docker/overlay2)/")


def parse_facts(output: str, marker: str, *, sent: float = 0.0, received: float = 0.0) -> Facts:
    """The facts in this output; `sent` and `received` are our own clock around the command."""
    found = Sections.parse(output, marker)
    commands = tuple(sorted({line.rsplit("/", 1)[-1] for line in found.lines("commands")}))
    units = parse_units(found.texts.get("units", ""))
    user = found.texts.get("user", "").split("\n")
    return Facts(
        os=_os(found),
        arch=normal_arch(found.text("machine")),
        kernel=parse_kernel(found),
        cpu=_cpu(found),
        memory=_memory(found),
        hostname=found.file("/proc/sys/kernel/hostname"),
        machine_id=found.file("/etc/machine-id", "/var/lib/dbus/machine-id"),
        product_uuid=found.file("/sys/class/dmi/id/product_uuid").lower(),
        platform=_platform(found),
        boot_id=found.file("/proc/sys/kernel/random/boot_id"),
        uptime=_number(found.file("/proc/uptime").split(" ")[0]),
        filesystems=_filesystems(found),
        disks=_disks(found),
        swap=parse_swaps(found.file("/proc/swaps")),
        network=parse_network(found),
        cgroup=2 if "cgroup2" in found.lines("flags") else 1,
        cgroup_controllers=_controllers(found),
        init=found.file("/proc/1/comm"),
        systemd=_systemd(found),
        package_manager=next((name for program, name in _PACKAGE_MANAGERS if program in commands), ""),
        firewall=_firewall(found, units),
        commands=commands,
        security=_security(found),
        clock=_clock(found, units, sent, received),
        ports=parse_ports(found),
        units=units,
        presence=Presence(
            sockets=tuple(found.lines("sockets")),
            paths=tuple(found.lines("leftovers")),
            stamps=tuple(found.lines("stamps")),
        ),
        programs=parse_programs(found),
        reboot_required="reboot-required" in found.lines("flags"),
        uid=int(user[0]) if user[0].isdigit() else 0,
        sudo_user=user[1] if len(user) > 1 else "",
        marker=parse_marker(found.text("marker")),
        lease=_lease(found),
        intent=parse_intent(found.text("intent")),
    )


def normal_arch(machine: str) -> str:
    """The name Kubernetes uses for a machine type."""
    return _ARCHES.get(machine, machine)


def parse_marker(text: str) -> ClusterMarker | None:
    """The cluster marker, or None if there is none; an unreadable one is somebody's, with the uid `unreadable`."""
    if not text.strip():
        return None
    try:
        data = json.loads(text)
        return ClusterMarker(
            uid=str(data["uid"]),
            name=str(data["name"]),
            ca_fingerprint=str(data.get("caFingerprint", "")),
            roles=tuple(str(role) for role in data.get("roles", ())),
            details={str(k): str(v) for k, v in data.get("details", {}).items()},
            layout=int(data.get("layout", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ClusterMarker(uid="unreadable", name="unreadable")


def parse_intent(text: str) -> Intent | None:
    """The intent record, or None if there is none. One that cannot be read is an operation nobody knows, and open."""
    if not text.strip():
        return None
    try:
        data = json.loads(text)
        return Intent(
            operation=str(data["operation"]),
            start=str(data["from"]),
            goal=str(data["to"]),
            direction=str(data["direction"]),
            hold=bool(data["hold"]),
            generation=int(data["generation"]),
            run=str(data["run"]),
            token=int(data["token"]),
            open=bool(data["open"]),
            layout=int(data["layout"]),
        )
    except (ValueError, KeyError, TypeError):
        return Intent(operation="")


def _lease(found: Sections) -> LeaseLine | None:
    """The lease the host keeps, or on one that keeps none the newest token that it has seen."""
    for path, text in found.files.items():
        if path.endswith("/lease") and (lease := parse_lease(text)):
            return lease
    seen = [int(token) for token in found.lines("fences") if token.isdigit()]
    return LeaseLine(token=max(seen)) if seen else None


def parse_lease(text: str) -> LeaseLine | None:
    """The lease line, or None if there is none."""
    words = text.split()
    if not words or not words[0].isdigit():
        return None
    owner, run, expiry = [*words[1:4], "", "", ""][:3]
    return LeaseLine(
        token=int(words[0]),
        owner="" if owner == "-" else unquote(owner),
        run="" if run == "-" else unquote(run),
        expiry=_number(expiry),
    )


def parse_units(text: str) -> tuple[Unit, ...]:
    """From blocks of `systemctl show`; units that are not there are left out."""
    units = []
    for block in text.split("\n\n"):
        values = key_values(block)
        if values.get("LoadState") in ("loaded", "masked", "error", "bad-setting"):
            units.append(
                Unit(
                    name=values.get("Id", ""),
                    active=values.get("ActiveState", ""),
                    enabled="masked" if values["LoadState"] == "masked" else values.get("UnitFileState", ""),
                    path=values.get("FragmentPath", ""),
                )
            )
    return tuple(sorted(set(units), key=lambda unit: unit.name))


def _os(found: Sections) -> Os:
    values = key_values(found.file("/etc/os-release", "/usr/lib/os-release"))
    name = values.get("ID", "linux").lower()
    likes = [name, *values.get("ID_LIKE", "").lower().split()]
    return Os(
        id=name,
        version=values.get("VERSION_ID", ""),
        name=values.get("PRETTY_NAME") or values.get("NAME") or name,
        family=next((_FAMILIES[like] for like in likes if like in _FAMILIES), "unknown"),
        codename=values.get("VERSION_CODENAME", ""),
    )


def _cpu(found: Sections) -> Cpu:
    lines = found.lines("cpu")
    count = int(lines[0]) if lines and lines[0].isdigit() else _range_size(found.file("/sys/devices/system/cpu/online"))
    described = key_values("\n".join(reversed(lines)), ":")  # reversed: the first processor's line wins
    model = next((described[key] for key in ("model name", "Model", "Hardware", "cpu model") if described.get(key)), "")
    return Cpu(count=max(count, 1), model=" ".join(model.split()))


def _range_size(text: str) -> int:
    parts = [part.split("-") for part in text.split(",") if part]
    return sum(int(part[-1]) - int(part[0]) + 1 for part in parts if all(p.isdigit() for p in part))


def _memory(found: Sections) -> Memory:
    values = key_values(found.file("/proc/meminfo"), ":")

    def size(key: str) -> int:
        word = values.get(key, "").split(" ")[0]
        return int(word) * 1024 if word.isdigit() else 0

    return Memory(total=size("MemTotal"), available=size("MemAvailable") or size("MemFree"))


def _platform(found: Sections) -> str:
    container = found.file("/run/systemd/container")
    vendor, product = found.file("/sys/class/dmi/id/sys_vendor"), found.file("/sys/class/dmi/id/product_name")
    return container or " ".join(word for word in (vendor, product) if word)


def _filesystems(found: Sections) -> tuple[Filesystem, ...]:
    known: dict[str, Filesystem] = {}
    for line in found.lines("df")[1:]:
        words = line.split(None, 6)
        if len(words) < 7 or not words[2].isdigit():
            continue
        device, kind, size, _, free, _, mount = words
        if mount != "/" and (kind in _PSEUDO or _POD_MOUNTS.match(mount)):
            continue
        known[mount] = Filesystem(
            mount=mount,
            device=device,
            type=kind,
            size=int(size) * 1024,
            free=int(free) * 1024 if free.isdigit() else 0,
        )
    return tuple(known[mount] for mount in sorted(known))


def _disks(found: Sections) -> tuple[Disk, ...]:
    disks = []
    for line in found.lines("disks"):
        words = line.split(None, 3)
        if len(words) >= 3 and words[1].isdigit() and words[1] != "0":
            rotational = {"0": False, "1": True}.get(words[2])
            model = words[3].strip() if len(words) > 3 else ""
            disks.append(Disk(name=words[0], size=int(words[1]) * 512, rotational=rotational, model=model))
    return tuple(disks)


def parse_swaps(text: str) -> tuple[SwapDevice, ...]:
    """From /proc/swaps."""
    areas = []
    for line in text.split("\n")[1:]:
        words = line.split()
        if len(words) >= 4 and words[2].isdigit() and words[3].isdigit():
            path = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), words[0])
            areas.append(SwapDevice(path=path, kind=words[1], size=int(words[2]) * 1024, used=int(words[3]) * 1024))
    return tuple(areas)


def _controllers(found: Sections) -> tuple[str, ...]:
    if "cgroup2" in found.lines("flags"):
        return tuple(sorted(found.file("/sys/fs/cgroup/cgroup.controllers").split()))
    rows = [line.split() for line in found.file("/proc/cgroups").split("\n") if not line.startswith("#")]
    return tuple(sorted(row[0] for row in rows if len(row) == 4 and row[3] == "1"))


def _systemd(found: Sections) -> Systemd:
    version = re.search(r"systemd (\d+)", found.text("systemd"))
    return Systemd(running="systemd" in found.lines("flags"), version=int(version[1]) if version else 0)


def _firewall(found: Sections, units: tuple[Unit, ...]) -> str:
    active = {unit.name.removesuffix(".service") for unit in units if unit.active == "active"}
    if "firewalld" in active:
        return "firewalld"
    if found.has_program("ufw") and key_values(found.file("/etc/ufw/ufw.conf")).get("ENABLED", "").lower() == "yes":
        return "ufw"
    return next((name for name in ("nftables", "iptables") if name in active), "")


def _security(found: Sections) -> Security:
    enforce = found.file("/sys/fs/selinux/enforce")
    return Security(
        selinux={"1": "enforcing", "0": "permissive"}.get(enforce, "disabled"),
        selinux_configured=key_values(found.file("/etc/selinux/config")).get("SELINUX", ""),
        apparmor=found.file("/sys/module/apparmor/parameters/enabled") == "Y",
        capabilities=capabilities(found),
    )


def _clock(found: Sections, units: tuple[Unit, ...], sent: float, received: float) -> Clock:
    begin, end = _number(found.text("clock.begin")), _number(found.text("clock.end"))
    end = end or begin
    # As NTP does it: what the host spent between its two readings counts for nothing.
    offset = ((begin - sent) + (end - received)) / 2 if begin and sent else 0.0
    error = max(((received - sent) - (end - begin)) / 2, 0.0) if begin and sent else 0.0
    active = {unit.name for unit in units if unit.active == "active"}
    service = next((name for unit, name in _TIME_SERVICES.items() if unit in active), "")
    return Clock(
        time=begin,
        offset=round(offset, 6),
        error=round(error, 6),
        timezone=_timezone(found),
        service=service,
        synchronized=_synchronized(found, service),
    )


def _timezone(found: Sections) -> str:
    link = found.text("timezone")
    return link.split("zoneinfo/", 1)[1] if "zoneinfo/" in link else found.file("/etc/timezone") or "UTC"


def _synchronized(found: Sections, service: str) -> bool | None:
    if "timesyncd-synchronized" in found.lines("flags") and service in ("", "systemd-timesyncd"):
        return True
    answer = found.text("timesync")
    if answer.count(",") >= 12:  # chronyc -c tracking: the last field is the leap status
        return answer.rsplit(",", 1)[1].strip() != "Not synchronised"
    if answer.startswith("NTPSynchronized="):
        return answer == "NTPSynchronized=yes"
    return False if service in ("systemd-timesyncd", "chrony") else None


def _number(text: str) -> float:
    # busybox prints the %N of a date as it is
    found = re.match(r"^\s*(\d+(?:\.\d+)?)", text)
    return float(found[1]) if found else 0.0
