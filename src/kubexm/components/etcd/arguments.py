"""What etcd is told on its command line, decided from cluster.yaml and the version. Pure.

All of it stands on the command line rather than in a file or in the environment: there alone etcd refuses what it does
not know, so that a slip in `extraArgs` is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from kubexm import releases
from kubexm.apis.v1alpha1.etcd import Etcd, EtcdTuning
from kubexm.components.pki.files import ETCD_PKI
from kubexm.components.topology import LOCALHOST, server_url
from kubexm.errors import PlanError

__all__ = ["arguments", "client_url", "peer_url"]

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
_CIPHERS: Final = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
"""Of TLS 1.2: those of 1.3 cannot be chosen, and beside 1.3 alone etcd takes no list at all."""
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
        **({} if etcd.extra_args.get("tls-min-version") == ("TLS1.3",) else {"cipher-suites": ",".join(_CIPHERS)}),
        "heartbeat-interval": _milliseconds(tuning.heartbeat_interval),
        "election-timeout": _milliseconds(tuning.election_timeout),
        "quota-backend-bytes": str(tuning.quota_backend),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": _duration(tuning.auto_compaction_retention),
        "strict-reconfig-check": "true",
        "logger": "zap",
        **_by_version(releases.etcd(version), tuning, etcd.extra_args),
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


def _by_version(
    able: releases.EtcdCapabilities, tuning: EtcdTuning, extra: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """Checks for corrupt data, and failing over to another member while one defragments, as this version spells it."""
    found: dict[str, str] = {}
    if able.feature_gates:
        gates = dict.fromkeys(able.feature_gates, "true")
        for value in extra.get("feature-gates", ()):
            gates |= dict(part.partition("=")[::2] for part in value.split(",") if part)
        found["feature-gates"] = ",".join(f"{gate}={on}" for gate, on in sorted(gates.items()))
    return {
        **found,
        **dict(able.arguments),
        able.progress_argument: _PROGRESS,
        "snapshot-count": str(tuning.snapshot_count),
        **dict(able.patch_arguments),
    }


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
