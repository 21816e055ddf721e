"""The systemd unit of a member, and what an empty member is told of its cluster. Pure: text only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from kubexm.components.etcd.layout import BOOTSTRAP, ETCD, USER
from kubexm.components.units import unit_word

__all__ = ["founding", "hardening", "joining", "sealed", "sealed_for", "service"]

_HEADER = "# Written by kubexm; changes by hand are undone.\n"
_SEAL = "# The member belongs to the cluster"

_GUARD = (
    'for f in "$1"/member/wal/*.wal; do if [ -e "$f" ]; then exit 0; fi; done; '
    'if [ -n "$ETCD_INITIAL_CLUSTER" ]; then exit 0; fi; '
    'echo "fatal: $1 holds no data, and this member is not expected to be new: it must join again"; exit 1'
)
"""etcd would begin to fill the directory before it found that out itself."""


def service(arguments: Mapping[str, Sequence[str]], *, cluster: str, data_dir: str) -> str:
    """The unit of a member.

    Not of Type=notify: etcd reports itself ready when it has a quorum, and whoever starts the first member of several
    would wait for the others to be started. Health is proven through its API instead.

    When the host shuts down, etcd stops after pods: an API server whose etcd is gone cannot finish its requests.
    """
    words = [f"--{name}={value}" for name, values in arguments.items() for value in values]
    command = " \\\n    ".join([str(ETCD), *map(unit_word, words)])
    return f"""{_HEADER}[Unit]
Description=etcd of the Kubernetes cluster {cluster}
Wants=network-online.target
After=network-online.target time-sync.target
Before=kubelet.service kubepods.slice
StartLimitIntervalSec=0

[Service]
Type=exec
User={USER}
Group={USER}
EnvironmentFile=-{BOOTSTRAP}
ExecStartPre=/bin/sh -c {unit_word(_GUARD)} etcd {unit_word(data_dir)}
ExecStart={command}
Restart=always
RestartSec=2s
TimeoutStopSec=30s
LimitNOFILE=65536
IOSchedulingClass=best-effort
IOSchedulingPriority=0
OOMScoreAdjust=-999
{hardening([data_dir])}
[Install]
WantedBy=multi-user.target
"""


def hardening(writable: Iterable[str]) -> str:
    """Lines that keep a service to these directories, the network and nothing else."""
    paths = [PurePosixPath(path) for path in writable]
    # These hide whole trees: where the data is inside one of them, it must not be hidden.
    home = not any(path.is_relative_to(top) for path in paths for top in ("/home", "/root", "/run/user"))
    temporary = not any(path.is_relative_to(top) for path in paths for top in ("/tmp", "/var/tmp"))  # noqa: S108
    lines = [
        "UMask=0077",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        *(f"ReadWritePaths={_quoted(path)}" for path in paths),
        *(["ProtectHome=yes"] if home else []),
        *(["PrivateTmp=yes"] if temporary else []),
        "PrivateDevices=yes",
        "ProtectControlGroups=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "ProtectHostname=yes",
        "LockPersonality=yes",
        "MemoryDenyWriteExecute=yes",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
        "RestrictNamespaces=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "SystemCallArchitectures=native",
        "SystemCallFilter=@system-service",
    ]
    return "\n".join(lines) + "\n"


def founding(peers: Iterable[tuple[str, str]], *, token: str) -> str:
    """What a member is told that is to form a cluster with these, by name and peer URL."""
    return f"{_bootstrap(peers, 'new')}ETCD_INITIAL_CLUSTER_TOKEN={token}\n"


def joining(peers: Iterable[tuple[str, str]]) -> str:
    """What a member is told that is to join these, by name and peer URL."""
    return _bootstrap(peers, "existing")


def sealed(cluster: int) -> str:
    """What a member is told once it is one: if it loses its data one day, it must not form another cluster."""
    return f"{_HEADER}{_SEAL} {cluster:016x}\nETCD_INITIAL_CLUSTER_STATE=existing\n"


def sealed_for(told: str) -> int | None:
    """The cluster a member belongs to by what it was told, if it is one."""
    found = re.search(rf"^{_SEAL} ([0-9a-f]{{16}})$", told, re.MULTILINE)
    return int(found[1], 16) if found else None


def _bootstrap(peers: Iterable[tuple[str, str]], state: str) -> str:
    members = ",".join(f"{name}={url}" for name, url in peers)
    return f"{_HEADER}ETCD_INITIAL_CLUSTER={members}\nETCD_INITIAL_CLUSTER_STATE={state}\n"


def _quoted(path: PurePosixPath) -> str:
    """A path in a list of systemd's, where `$` means nothing."""
    return unit_word(str(path)).replace("$$", "$")
