"""What etcd is told on its command line, decided from cluster.yaml and the version. Pure.

All of it stands on the command line rather than in a file or in the environment: there alone etcd refuses what it does
not know, so that a slip in `extraArgs` is seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from kubexm.apis.v1alpha1.etcd import Etcd, EtcdTuning
from kubexm.components.pki.files import ETCD_PKI
from kubexm.components.topology import LOCALHOST, server_url
from kubexm.errors import PlanError

__all__ = ["arguments", "client_url", "parse_version", "peer_url"]

_FILES: Final = {
    "cert-file": f"{ETCD_PKI}/server.crt",
    "key-file": f"{ETCD_PKI}/server.key",
    "trusted-ca-file": f"{ETCD_PKI}/ca.crt",
    "client-cert-auth": "true",
    "peer-cert-file": f"{ETCD_PKI}/peer.crt",
    "peer-key-file": f"{ETCD_PKI}/peer.key",
    "peer-trusted-ca-file": f"{ETCD_PKI}/ca.crt",
    "peer-client-cert-auth": "true",
}
_OURS: Final = {
    "name": "the host's name is the member's",
    "data-dir": "set spec.etcd.dataDir",
    "wal-dir": "the log is kept below spec.etcd.dataDir; mount a fast disk there",
    "listen-client-urls": "set spec.etcd.clientPort, and internalAddress of the host",
    "advertise-client-urls": "set spec.etcd.clientPort, and internalAddress of the host",
    "listen-peer-urls": "set spec.etcd.peerPort, and internalAddress of the host",
    "listen-metrics-urls": "set spec.etcd.metricsPort",
    "config-file": "write the arguments themselves",
    "force-new-cluster": "restore a snapshot instead",
    **dict.fromkeys(_FILES, "the files are made and placed by kubexm"),
}
_GATES: Final = ("CompactHashCheck", "InitialCorruptCheck", "StopGRPCServiceOnDefrag")
_PROGRESS: Final = "5s"
"""API servers serve consistent lists from their cache only if etcd tells them this often how far it is."""


def arguments(etcd: Etcd, *, version: str, name: str, address: str) -> dict[str, tuple[str, ...]]:
    """Every argument of one member by name, without dashes; the user's win over ours, which must not be all."""
    _refuse_ours(etcd.extra_args)
    tuning = etcd.tuning
    client, peer = client_url(etcd, address), peer_url(etcd, address)
    ours = {
        "name": name,
        "data-dir": etcd.data_dir,
        "listen-client-urls": f"{client},{server_url(LOCALHOST, etcd.client_port)}",
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "listen-metrics-urls": f"http://{LOCALHOST}:{etcd.metrics_port}",
        **_FILES,
        "tls-min-version": "TLS1.2",
        "heartbeat-interval": _milliseconds(tuning.heartbeat_interval),
        "election-timeout": _milliseconds(tuning.election_timeout),
        "quota-backend-bytes": str(tuning.quota_backend),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": _duration(tuning.auto_compaction_retention),
        "strict-reconfig-check": "true",
        "logger": "zap",
        **_by_version(parse_version(version), tuning, etcd.extra_args),
    }
    merged = {"feature-gates"} & ours.keys()
    theirs = {key: values for key, values in etcd.extra_args.items() if key not in merged}
    return {**{key: (value,) for key, value in ours.items()}, **theirs}


def client_url(etcd: Etcd, address: str) -> str:
    """Where clients reach the member at this address."""
    return server_url(address, etcd.client_port)


def peer_url(etcd: Etcd, address: str) -> str:
    """Where other members reach the member at this address."""
    return server_url(address, etcd.peer_port)


def parse_version(text: str) -> tuple[int, int, int]:
    """Major, minor and patch of `v3.6.5`."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise PlanError(f"{text!r} is not a version of etcd", hint="spec.etcd.version reads like v3.6.5")
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


def _by_version(
    version: tuple[int, int, int], tuning: EtcdTuning, extra: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """Checks for corrupt data, and failing over to another member while one defragments: named anew in 3.6."""
    if version >= (3, 6, 0):
        # Of 3.7 on, how often snapshots are written is etcd's own business.
        count = {} if version >= (3, 7, 0) else {"snapshot-count": str(tuning.snapshot_count)}
        gates = dict.fromkeys(_GATES, "true")
        for value in extra.get("feature-gates", ()):
            gates |= dict(part.partition("=")[::2] for part in value.split(",") if part)
        return {
            "feature-gates": ",".join(f"{gate}={on}" for gate, on in sorted(gates.items())),
            "watch-progress-notify-interval": _PROGRESS,
            **count,
        }
    found = {
        "experimental-compact-hash-check-enabled": "true",
        "experimental-initial-corrupt-check": "true",
        "experimental-watch-progress-notify-interval": _PROGRESS,
        "snapshot-count": str(tuning.snapshot_count),
    }
    return found | ({"experimental-stop-grpc-service-on-defrag": "true"} if version >= (3, 5, 14) else {})


def _refuse_ours(extra: Mapping[str, tuple[str, ...]]) -> None:
    for name in extra:
        hint = _OURS.get(name)
        if hint is None and name.startswith(("initial-", "discovery", "auto-tls", "peer-auto-tls")):
            hint = "how members find each other and trust each other is kubexm's to say"
        if hint is not None:
            raise PlanError(f"spec.etcd.extraArgs: `{name}` cannot be set there", hint=hint)


def _milliseconds(value: timedelta) -> str:
    return str(round(value / timedelta(milliseconds=1)))


def _duration(value: timedelta) -> str:
    """As Go reads it, in the largest unit that fits; 0 switches it off."""
    seconds = round(value.total_seconds())
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s" if seconds else "0"
