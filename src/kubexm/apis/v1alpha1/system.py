"""What the operating system of a host is brought to before anything is installed. Must not know Kubernetes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from kubexm.apis.v1alpha1.base import EMPTY, Model, invalid, live, schema, section, shown
from kubexm.apis.v1alpha1.networks import is_domain, parse_ip
from kubexm.apis.v1alpha1.scalars import Duration, Flag
from kubexm.apis.v1alpha1.texts import Text

__all__ = ["Hook", "System"]


_SYSCTL_KEY: Final = r"[a-z0-9_]+([./][A-Za-z0-9_*-]+)+"


def _on(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _sysctl(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise invalid(f"expected a mapping of sysctl keys, found {shown(value)}", "write it like `{vm.swappiness: 0}`")
    settings: dict[str, str] = {}
    for key, content in value.items():
        if re.fullmatch(_SYSCTL_KEY, key) is None:
            raise invalid(f"{shown(key)} is not a sysctl key", "write it like `vm.max_map_count`")
        if isinstance(content, bool) or not isinstance(content, int | str) or "\n" in str(content):
            raise invalid(f"the sysctl `{key}` must be a number or one line of text, found {shown(content)}")
        settings[key] = str(content)
    return settings


def _server(value: str) -> str:
    if parse_ip(value) is None and not is_domain(value):
        raise invalid(f"{shown(value)} is not the address of a time server", "an IP address or a DNS name")
    return value


def _timezone(value: str) -> str:
    if value and re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", value) is None:
        raise invalid(f"{shown(value)} is not a time zone", "write it like `UTC` or `Europe/Berlin`")
    return value


def _package(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9+._:~=-]*", value) is None:
        raise invalid(f"{shown(value)} is not the name of a package")
    return value


def _module(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]+", value) is None:
        raise invalid(f"{shown(value)} is not the name of a kernel module")
    return value


Sysctl = Annotated[
    dict[str, str],
    BeforeValidator(_sysctl),
    schema(
        "mapping",
        "object",
        propertyNames={"pattern": f"^{_SYSCTL_KEY}$"},
        additionalProperties={"type": ["string", "integer"]},
    ),
]
Targets = Annotated[
    tuple[Text, ...],
    BeforeValidator(_on),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}}]}
    ),
]


class Hook(Model):
    """A command of yours, run at a fixed place of the installation."""

    name: Annotated[Text, live("What it does, in a few words; shown in plans and results.")]
    run: Annotated[Text, live("Shell script, run as root by /bin/sh. Make it safe to run again.")]
    on: Annotated[
        Targets, live("What it runs on: hosts, ranges, groups (with `group:` in front or without), or `all`.")
    ] = ("all",)
    timeout: Annotated[Duration, live("How long it may take before it is ended.")] = timedelta(minutes=5)
    ignore_errors: Annotated[Flag, live("Report a failure and go on.")] = False


class System(Model):
    """What the operating system of each host is brought to."""

    ntp_servers: Annotated[
        tuple[Annotated[str, AfterValidator(_server)], ...],
        live("Time servers. Empty: the time service of the hosts is left as it is."),
    ] = ()
    timezone: Annotated[
        Annotated[str, AfterValidator(_timezone)], live("Time zone, such as `UTC`. Empty: left as it is.")
    ] = ""
    packages: Annotated[
        tuple[Annotated[str, AfterValidator(_package)], ...],
        live("Packages to install besides those Kubernetes needs."),
    ] = ()
    sysctl: Annotated[
        Sysctl,
        live("Kernel settings besides those Kubernetes needs; yours win. One taken out goes back to what it was."),
    ] = EMPTY
    modules: Annotated[
        tuple[Annotated[str, AfterValidator(_module)], ...],
        live("Kernel modules to load besides those Kubernetes needs."),
    ] = ()
    set_hostname: Annotated[Flag, live("Give each host the name it has in this file.")] = True
    manage_hosts_file: Annotated[Flag, live("Keep the names of all hosts and the endpoint in /etc/hosts.")] = True
    disable_swap: Annotated[Flag, live("Switch swap off, also after a reboot.")] = True
    firewall: Annotated[
        Literal["open", "disable", "keep"],
        live("`open`: open the ports the cluster uses. `disable`: stop the host's firewall. `keep`: leave it alone."),
    ] = "open"
    selinux: Annotated[
        Literal["keep", "permissive"],
        live("`keep`: leave SELinux as it is. `permissive`: report only, do not enforce."),
    ] = "keep"
    pre_install: Annotated[tuple[Hook, ...], section("Commands run before anything is installed.")] = ()
    post_install: Annotated[tuple[Hook, ...], section("Commands run once the cluster is up.")] = ()
