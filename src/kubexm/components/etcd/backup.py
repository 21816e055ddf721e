"""Snapshots of etcd by a timer on each of its hosts: texts of script and units. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from kubexm.apis.v1alpha1.etcd import Etcd
from kubexm.components.etcd.layout import ETCDCTL, ETCDUTL, USER
from kubexm.components.etcd.schedule import on_calendar
from kubexm.components.etcd.unit import hardening
from kubexm.components.pki.files import ETCD_PKI
from kubexm.components.topology import LOCALHOST, server_url
from kubexm.connector.base import shell

__all__ = ["SCRIPT", "SERVICE_FILE", "TIMER", "TIMER_FILE", "script", "service", "timer"]

SCRIPT: Final = PurePosixPath("/usr/local/lib/kubexm/etcd-backup")
SERVICE_FILE: Final = PurePosixPath("/etc/systemd/system/etcd-backup.service")
TIMER: Final = "etcd-backup.timer"
TIMER_FILE: Final = PurePosixPath("/etc/systemd/system/etcd-backup.timer")
_HEADER: Final = "# Written by kubexm; changes by hand are undone.\n"


def script(etcd: Etcd) -> str:
    """Takes a snapshot, proves that it is whole, and keeps the newest few."""
    access = shell(
        ETCDCTL,
        f"--endpoints={server_url(LOCALHOST, etcd.client_port)}",
        f"--cacert={ETCD_PKI}/ca.crt",
        f"--cert={ETCD_PKI}/healthcheck-client.crt",
        f"--key={ETCD_PKI}/healthcheck-client.key",
        "--command-timeout=30m",
    )
    # A snapshot appears under its name only when it is whole. Names sort by time, and hold nothing odd.
    return f"""#!/bin/sh
{_HEADER}set -eu
umask 077
cd -- {shell(etcd.backup.directory)}
name=etcd-$(date -u +%Y%m%dT%H%M%SZ).db
rm -f -- .etcd-*.part
{access} snapshot save ".$name.part"
{shell(ETCDUTL)} snapshot status ".$name.part"
mv -- ".$name.part" "$name"
ls | grep -E '^etcd-[0-9]{{8}}T[0-9]{{6}}Z\\.db$' | sort -r | tail -n +{etcd.backup.keep + 1} | while read -r old; do
  rm -f -- "$old"
done
"""


def service(etcd: Etcd) -> str:
    """The unit the timer starts; `systemctl start etcd-backup` takes a snapshot at any time."""
    return f"""{_HEADER}[Unit]
Description=snapshot of etcd
After=etcd.service

[Service]
Type=oneshot
User={USER}
Group={USER}
ExecStart={SCRIPT}
Nice=10
IOSchedulingClass=idle
{hardening([etcd.backup.directory])}"""


def timer(etcd: Etcd) -> str:
    """When. A time that was missed, since the host was off, is made up for."""
    times = "\n".join(f"OnCalendar={event}" for event in on_calendar(etcd.backup.schedule))
    return f"""{_HEADER}[Unit]
Description=snapshots of etcd

[Timer]
{times}
Persistent=yes

[Install]
WantedBy=timers.target
"""
