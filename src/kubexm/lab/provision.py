"""Giving a host its disk and identity, and waiting until it is up. Knows one host at a time, and no lab."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from kubexm.errors import LabError
from kubexm.lab.access import Access
from kubexm.lab.commands import run
from kubexm.lab.guest import host_files, write_files
from kubexm.lab.hosts import LabHost, answers_ssh
from kubexm.lab.state import write_atomically

__all__ = ["await_ready", "check_reach", "conntrack_is_fixed", "keep_cut", "password_hash", "prepare"]

_BOOT = 180.0  # seconds; a host takes about one, twenty at once on two cores about twenty
_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack_max"


def prepare(host: LabHost, *, size: int, layers: tuple[Path, ...], access: Access, password: str) -> None:
    """Make the host's disk over the image's `layers`, and give it its identity."""
    host.machine.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    host.disk.make(size)
    host.disk.mount(layers)
    files = host_files(
        name=host.name,
        machine_id=host.machine_id,
        address=host.network.address(host.number),
        gateway=host.network.gateway,
        nameserver=host.network.machine_address,
        authorized_key=access.public_key(),
        host_key=access.host_key(host.name),
        root_login=host.flavour.root_login,
    )
    write_files(host.disk.root, files)
    _set_password(host.disk.root / "etc" / "shadow", "ops", password)
    host.disk.settle(layers)


def password_hash(tree: Path, password: str) -> str:
    """The password as it stands in a shadow file, made with the image's own tools."""
    return run("chroot", tree, "openssl", "passwd", "-6", "-stdin", stdin=password + "\n").strip()


def await_ready(host: LabHost, access: Access, *, within: float = _BOOT) -> str:
    """Wait until the host has booted and lets us in; returns what its systemd says of itself."""
    deadline = time.monotonic() + within
    while not answers_ssh(host.address):
        if not host.machine.is_on:
            raise LabError(
                f"{host.name} went off while booting: {host.machine.last_words()}",
                hint=f"All of its console is in {host.machine.console}.",
            )
        if time.monotonic() > deadline:
            raise LabError(
                f"{host.name} did not come up within {within:.0f} s: {host.machine.last_words()}",
                hint=f"All of its console is in {host.machine.console}.",
            )
        time.sleep(0.05)
    command = access.ssh_command(host.login, host.address, ("systemctl", "is-system-running", "--wait"))
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=max(10.0, deadline - time.monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(
            f"{host.name} did not finish booting within {within:.0f} s.",
            hint=f"Ask it: `kubexm lab ssh {host.name} systemctl list-jobs`.",
        ) from error
    if not (state := done.stdout.strip()):
        raise LabError(f"{host.name} does not let us in as {host.login}: {done.stderr.strip()}")
    return state


def keep_cut(host: LabHost, *, within: float = 20.0) -> None:
    """Pull the cable of a host that was cut before it was powered on, as soon as it has one."""
    deadline = time.monotonic() + within
    while not host.network.is_connected(host.name) and host.machine.is_on and time.monotonic() < deadline:
        time.sleep(0.01)
    host.network.connect(host.name, up=False)


def check_reach(host: LabHost, other: LabHost) -> None:
    """Say so if this machine's firewall keeps two hosts apart."""
    leader = host.machine.leader()
    ping = ["nsenter", f"--target={leader}", "--all", "ping", "-c", "1", "-W", "5", str(other.address)]
    if leader is None or subprocess.run(ping, capture_output=True, check=False).returncode == 0:
        return
    rule = f"FORWARD -i {host.network.bridge} -o {host.network.bridge} -j ACCEPT"
    raise LabError(
        f"The hosts are up but cannot reach each other: {host.name} gets no answer from {other.name}.",
        hint=f"This machine's firewall filters what crosses a bridge. Run `iptables -I {rule}`.",
    )


def conntrack_is_fixed(host: LabHost) -> bool:
    """Whether the size of the connection table cannot be written in the host's network, as on most containers."""
    leader = host.machine.leader()
    if leader is None:
        raise LabError(f"{host.name} is not on.")
    # Writing the value back that is there changes nothing.
    script = 'value=$(cat "$1") && echo "$value" >"$1"'
    enter = ["nsenter", f"--target={leader}", "--net", "sh", "-c", script, "sh", _CONNTRACK]
    return subprocess.run(enter, capture_output=True, check=False).returncode != 0


def _set_password(shadow: Path, user: str, hashed: str) -> None:
    lines = shadow.read_text(encoding="utf-8").splitlines(keepends=True)
    changed = []
    for line in lines:
        fields = line.split(":")
        if fields[0] == user:
            fields[1] = hashed
        changed.append(":".join(fields))
    owner = shadow.stat()
    write_atomically(shadow, "".join(changed), mode=owner.st_mode & 0o777)
    os.chown(shadow, owner.st_uid, owner.st_gid)
