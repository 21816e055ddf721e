"""etcd: where it runs, its tuning and its backups. Must not know how members join or leave."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator

from kubexm.apis.v1alpha1.arguments import Args
from kubexm.apis.v1alpha1.base import EMPTY, Model, fixed, invalid, live, schema, section, shown, upgrade
from kubexm.apis.v1alpha1.scalars import Duration, Memory, Port, Size
from kubexm.apis.v1alpha1.texts import DataDir, FilePathOrEmpty, Schedule, Url
from kubexm.apis.v1alpha1.versions import Version

__all__ = ["Etcd", "EtcdBackup", "EtcdTuning", "ExternalEtcd"]


_RECIPIENT = "^age1[02-9ac-hj-np-z]{58}$"


def _https(value: str) -> str:
    if not value.startswith("https://"):
        raise invalid(f"{shown(value)} is not an https URL", "write it like `https://10.0.0.5:2379`")
    return value


Endpoint = Annotated[Url, AfterValidator(_https), schema("URL", pattern=r"^https://[^\s/@]+(/\S*)?$")]


def _recipient(value: str) -> str:
    if re.fullmatch(_RECIPIENT, value) is None:
        raise invalid(
            f"{shown(value)} is not a public key", "`kubexm backup keygen FILE` makes a key pair and prints it"
        )
    return value


Recipient = Annotated[str, AfterValidator(_recipient), schema("age public key", pattern=_RECIPIENT)]


class EtcdTuning(Model):
    """Settings for slow disks, long distances and big clusters."""

    heartbeat_interval: Annotated[
        Duration, live("How often the leader reports; about the round trip between members.")
    ] = timedelta(milliseconds=250)
    election_timeout: Annotated[
        Duration, live("Silence after which a new leader is elected; at least five heartbeats, at most 50s.")
    ] = timedelta(milliseconds=2500)
    snapshot_count: Annotated[
        Size, live("Changes after which a snapshot is written; etcd 3.7 and newer decide themselves.")
    ] = 10_000
    quota_backend: Annotated[Memory, live("Largest size of the database; past it etcd refuses writes.")] = 8 * 2**30
    auto_compaction_retention: Annotated[Duration, live("History that is kept.")] = timedelta(hours=8)


class EtcdBackup(Model):
    """Snapshots of etcd on its hosts."""

    directory: Annotated[DataDir, live("Directory on the etcd hosts.")] = "/var/backups/etcd"
    schedule: Annotated[
        Schedule,
        live(
            "When, as five cron fields: minute, hour, day of month, month, weekday. Empty: only when you ask for one, "
            "by `systemctl start etcd-backup` on a member."
        ),
    ] = ""
    keep: Annotated[Size, live("How many snapshots are kept.")] = 7
    recipients: Annotated[
        tuple[Recipient, ...],
        live("Public keys (`age1…`) that `kubexm backup now` seals CAs, keys and cluster.yaml for; with any `type`."),
    ] = ()


class ExternalEtcd(Model):
    """An etcd that kubexm did not install. Its files are on this machine and are copied to the control planes."""

    endpoints: Annotated[tuple[Endpoint, ...], live("Client URLs, such as `https://10.0.0.5:2379`.")] = ()
    ca_file: Annotated[FilePathOrEmpty, live("Certificate of the CA that signed its certificates.")] = ""
    cert_file: Annotated[FilePathOrEmpty, live("Client certificate for the API servers.")] = ""
    key_file: Annotated[FilePathOrEmpty, live("Key of the client certificate.")] = ""


class Etcd(Model):
    """etcd, which holds everything the cluster knows."""

    type: Annotated[
        Literal["kubexm", "kubeadm", "external"],
        fixed(
            "`kubexm`: under systemd on the hosts of roleGroups.etcd. `kubeadm`: in static pods on the control planes; "
            "needs `kubernetes.type: kubeadm`. `external`: an etcd of yours, described under external."
        ),
    ] = "kubexm"
    version: Annotated[
        Version | None, upgrade("Version of etcd. Unset: the one that goes with the version of Kubernetes.")
    ] = None
    data_dir: Annotated[DataDir, fixed("Where its data is kept.")] = "/var/lib/etcd"
    client_port: Annotated[Port, fixed("Port for clients.")] = 2379
    peer_port: Annotated[Port, fixed("Port for the other members.")] = 2380
    metrics_port: Annotated[Port, live("Port for metrics and health, on 127.0.0.1 only.")] = 2381
    tuning: Annotated[EtcdTuning, section("Timing and size.")] = EtcdTuning()
    backup: Annotated[
        EtcdBackup, section("Snapshots of etcd on its hosts, only with `type: kubexm`; recipients of backup sets.")
    ] = EtcdBackup()
    extra_args: Annotated[Args, live("Arguments by name, without dashes.")] = EMPTY
    external: Annotated[ExternalEtcd, section("An etcd of yours; only with `type: external`.")] = ExternalEtcd()
