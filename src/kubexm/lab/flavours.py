"""The kinds of host a lab can have. Must not know how an image is built or a host is started.

A flavour is what it changes in the image of a host's system: a script that is run in it, and files.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from kubexm.errors import UsageError

__all__ = ["DEFAULT", "FLAVOURS", "Flavour", "GuestFile", "flavour"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFile:
    """A file inside a host."""

    content: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """What makes one kind of host differ from a plain one."""

    name: str
    summary: str
    script: str = ""
    files: Mapping[str, GuestFile] = field(default_factory=dict)
    root_login: bool = True
    has_python: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether a host of this flavour is its system's image as it is."""
        return not self.script and not self.files

    @property
    def login(self) -> str:
        """The user to connect as."""
        return "root" if self.root_login else "ops"


# What nothing needs any more goes too, or a host "without conntrack" would still have its library to link against.
_PURGE = """\
installed() {{
    dpkg-query --show --showformat '${{db:Status-Abbrev}} ${{Package}}\\n' | sed -n 's/^ii *//p' | grep -E "$1"
}}
apt-mark auto $(installed '^lib') >/dev/null
apt-get purge --yes --autoremove {packages}
"""

_AIRGAPPED = ("conntrack", "ebtables", "ethtool", "ipset", "iptables", "socat", "zstd")

_SWAPS = """\
Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority
/swapfile                               file\t\t1048572\t\t0\t\t-2
"""

# Real swap would be the whole machine's, so a host shows swap it does not have. Switching it off must then show, too.
_SWAPOFF = """\
#!/bin/sh
# Stands in for swapoff: this host's swap exists only as a line in its own /proc/swaps.
case "${1:-}" in
    -a | --all | /swapfile)
        # Written in place: the file is mounted over /proc/swaps, and a new file would not be.
        header=$(head -n 1 /proc/swaps)
        echo "$header" >/proc/swaps
        ;;
    *) exec /usr/sbin/swapoff.real "$@" ;;
esac
"""

_PORT_IN_USE = """\
[Unit]
Description=Something else that listens on the API server's port

[Service]
ExecStart=/usr/bin/socat TCP-LISTEN:6443,fork,reuseaddr SYSTEM:true
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""

_DEFECTS = """\
mv /usr/sbin/swapoff /usr/sbin/swapoff.real
echo '/swapfile none swap sw 0 0' >>/etc/fstab
ln -s ../occupied-port.service /etc/systemd/system/multi-user.target.wants/
"""

_FLAVOURS = (
    Flavour(name="plain", summary="everything a Kubernetes node asks for"),
    Flavour(
        name="nopython",
        summary="no Python at all",
        script=_PURGE.format(packages="$(installed python)"),
        has_python=False,
    ),
    Flavour(
        name="airgapped",
        summary=f"no {', '.join(_AIRGAPPED)}",
        script=_PURGE.format(packages=" ".join(_AIRGAPPED)),
    ),
    Flavour(
        name="sudo-password",
        summary="root cannot log in; ops can, and its sudo asks for a password",
        files={"/etc/ssh/sshd_config.d/10-no-root.conf": GuestFile(content="PermitRootLogin no\n")},
        root_login=False,
    ),
    Flavour(
        name="defects",
        summary="swap is on and port 6443 is taken",
        script=_DEFECTS,
        files={
            "/etc/kubexm-lab/swaps": GuestFile(content=_SWAPS),
            "/etc/systemd/system/occupied-port.service": GuestFile(content=_PORT_IN_USE),
            "/usr/sbin/swapoff": GuestFile(content=_SWAPOFF, mode=0o755),
        },
    ),
)

FLAVOURS: Mapping[str, Flavour] = {flavour.name: flavour for flavour in _FLAVOURS}
DEFAULT = "plain"


def flavour(name: str) -> Flavour:
    """The flavour of that name."""
    try:
        return FLAVOURS[name]
    except KeyError:
        near = difflib.get_close_matches(name, FLAVOURS, n=1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"There is no host flavour {name!r}.", hint=f"{meant}The flavours are {', '.join(FLAVOURS)}."
        ) from None
