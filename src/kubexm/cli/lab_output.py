"""How `kubexm lab` shows labs: tables for people, JSON for programs. Must not change anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kubexm.lab import DEFAULT, FLAVOURS, BootedHost, HostStatus, Lab

__all__ = ["booted_table", "flavours_json", "flavours_table", "lab_json", "show", "status_table"]

_STYLES = {"running": "green", "booting": "yellow", "degraded": "yellow", "cut": "red", "off": "red"}


def show(table: Table) -> None:
    """Print a table; where the output is no terminal it is as wide as it needs to be."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table)


def booted_table(lab: Lab, booted: Sequence[BootedHost]) -> Table:
    """The hosts of a lab that has just come up."""
    table = _table("Host", "Address", "Roles", "System", "Flavour", "User", "State", "Booted in")
    for host, boot in zip(lab.hosts, booted, strict=True):
        table.add_row(
            host.name,
            str(host.address),
            ", ".join(host.roles),
            host.system.name,
            host.flavour.name,
            host.login,
            _state(boot.state),
            f"{boot.seconds:.1f} s" if boot.seconds else "was up",
        )
    return table


def status_table(labs: Sequence[Lab]) -> Table:
    """The hosts of several labs as they are now."""
    table = _table("Lab", "Host", "Address", "Roles", "System", "Flavour", "User", "State", "Memory", "Disk")
    for lab in labs:
        for host in lab.status():
            table.add_row(
                lab.name,
                host.name,
                host.address,
                ", ".join(host.roles),
                host.system,
                host.flavour,
                host.user,
                _state(host.state),
                "" if host.memory is None else f"{host.memory / 2**20:.0f} MiB",
                _disk(host),
            )
        table.add_section()
    return table


def lab_json(labs: Sequence[Lab]) -> str:
    """Labs and their hosts for programs; sizes are bytes."""
    return json.dumps([_lab(lab) for lab in labs], indent=2)


def flavours_table() -> Table:
    """The kinds of host there are."""
    table = _table("Flavour", "What it is")
    for flavour in FLAVOURS.values():
        table.add_row(flavour.name, flavour.summary + (" (the default)" if flavour.name == DEFAULT else ""))
    return table


def flavours_json() -> str:
    """The kinds of host there are, for programs."""
    kinds = [{"name": each.name, "summary": each.summary, "user": each.login} for each in FLAVOURS.values()]
    return json.dumps(kinds, indent=2)


def _lab(lab: Lab) -> dict[str, object]:
    record = lab.record
    return {
        "name": lab.name,
        "subnet": str(record.subnet),
        "bridge": lab.network.bridge,
        "clusterFile": record.cluster_file,
        "privateKey": str(lab.access.private_key),
        "knownHosts": str(lab.access.known_hosts),
        "sudoPasswordFile": str(lab.access.sudo_password_file),
        "hosts": [_host(host) for host in lab.status()],
    }


def _host(host: HostStatus) -> dict[str, object]:
    fields = asdict(host)
    used, total = fields.pop("disk") or (None, None)
    return {
        **{key: value for key, value in fields.items() if key != "disk_full"},
        "diskUsed": used,
        "diskTotal": total,
        "diskFull": host.disk_full,
    }


def _disk(host: HostStatus) -> Text | str:
    if host.disk is None:
        return ""
    used, total = host.disk
    text = f"{used / 2**30:.1f} of {total / 2**30:.0f} GiB"
    return Text(f"full: {text}", style="red") if host.disk_full else text


def _state(state: str) -> Text:
    return Text(state, style=_STYLES.get(state, ""))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
