"""What kubeadm is told: its configuration and the patches of its static pods, from cluster.yaml. Pure.

What kubexm wants of the control plane is decided in `control_plane`, for both modes; here it gets the form that the
kubeadm of each version reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any, Final

from kubexm import releases
from kubexm.components.assets import image
from kubexm.components.control_plane import (
    SETTINGS,
    Arguments,
    api_server,
    controller_manager,
    scheduler,
    settings_files,
)
from kubexm.components.documents import yaml_stream
from kubexm.components.etcd.arguments import arguments as etcd_arguments
from kubexm.components.kubeadm.layout import API_SERVER, CONTROLLER_MANAGER, PATCHES, SCHEDULER
from kubexm.components.runtimes import runtime_of
from kubexm.components.topology import endpoint, etcd_urls, internal_address, server_url
from kubexm.connector import Host
from kubexm.runtime import TaskContext

__all__ = ["cluster_configuration", "configuration", "etcd_extra_args", "repeated_arguments"]

_PKI: Final = "/etc/kubernetes/pki"
_DEFAULT_PORTS: Final = (2379, 2380)
_URLS: Final = ("listen-client-urls", "advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls")
_KUBEADM_SETS: Final = frozenset(
    {
        "name",
        "data-dir",
        "cert-file",
        "key-file",
        "trusted-ca-file",
        "client-cert-auth",
        "peer-cert-file",
        "peer-key-file",
        "peer-trusted-ca-file",
        "peer-client-cert-auth",
    }
)


def configuration(ctx: TaskContext, host: Host) -> str:
    """The whole configuration of one control plane, as `kubeadm --config` reads it."""
    return yaml_stream([_init(ctx, host), cluster_configuration(ctx, host)])


def cluster_configuration(ctx: TaskContext, host: Host) -> dict[str, Any]:
    """What all control planes have in common, and the address a stacked etcd of this host is reached at."""
    spec, newer = ctx.cluster.spec, _is_v1beta4(ctx)
    found: dict[str, Any] = {
        "apiVersion": _api_version(ctx),
        "kind": "ClusterConfiguration",
        "clusterName": ctx.cluster.cluster_name,
        "kubernetesVersion": str(spec.kubernetes.version),
        "controlPlaneEndpoint": server_url(endpoint(ctx.cluster), spec.control_plane_endpoint.port).removeprefix(
            "https://"
        ),
        "certificatesDir": _PKI,
        "imageRepository": image(ctx, API_SERVER).rpartition("/")[0],
        "networking": {
            "dnsDomain": spec.kubernetes.dns_domain,
            "podSubnet": ",".join(map(str, spec.network.pod_cidr)),
            "serviceSubnet": ",".join(map(str, spec.network.service_cidr)),
        },
        "etcd": _etcd(ctx, host),
        "apiServer": {
            "extraArgs": _extra_args(api_server(ctx.cluster).beyond_kubeadm(), newer=newer),
            "extraVolumes": _api_server_volumes(ctx),
        },
        "controllerManager": {
            "extraArgs": _extra_args(controller_manager(ctx.cluster).beyond_kubeadm(), newer=newer),
        },
        "scheduler": {
            "extraArgs": _extra_args(scheduler(ctx.cluster).beyond_kubeadm(), newer=newer),
            "extraVolumes": _volumes({file.path for file in settings_files(ctx.cluster) if file.program != API_SERVER}),
        },
    }
    if newer:
        found["encryptionAlgorithm"] = "ECDSA-P256"
        found["certificateValidityPeriod"] = _duration(spec.certs.duration)
        found["caCertificateValidityPeriod"] = _duration(spec.certs.ca_duration)
        found["dns"] = {"disabled": True}
        found["proxy"] = {"disabled": True}
    else:
        found["featureGates"] = {"PublicKeysECDSA": True}
    return found


def repeated_arguments(ctx: TaskContext) -> dict[str, list[str]]:
    """Arguments that the kubeadm of 1.30 cannot be told, having one value for each name: by program, as words."""
    if _is_v1beta4(ctx):
        return {}
    programs: dict[str, Arguments] = {
        API_SERVER: api_server(ctx.cluster),
        CONTROLLER_MANAGER: controller_manager(ctx.cluster),
        SCHEDULER: scheduler(ctx.cluster),
    }
    found = {
        program: [f"--{name}={value}" for name, values in arguments.beyond_kubeadm().items() for value in values[1:]]
        for program, arguments in programs.items()
    }
    return {program: words for program, words in found.items() if words}


def etcd_extra_args(ctx: TaskContext, host: Host) -> dict[str, tuple[str, ...]]:
    """What a stacked etcd is told beyond what kubeadm tells it."""
    etcd, address = ctx.cluster.spec.etcd, internal_address(ctx, host)
    tag = image(ctx, "etcd").rpartition(":")[2]
    found = etcd_arguments(etcd, version=tag.partition("-")[0], name=host.name, address=address)
    left_out = set(_KUBEADM_SETS)
    if (etcd.client_port, etcd.peer_port) == _DEFAULT_PORTS:
        left_out.update(_URLS)
    return {name: values for name, values in sorted(found.items()) if name not in left_out}


def _init(ctx: TaskContext, host: Host) -> dict[str, Any]:
    return {
        "apiVersion": _api_version(ctx),
        "kind": "InitConfiguration",
        "localAPIEndpoint": {
            "advertiseAddress": internal_address(ctx, host),
            "bindPort": ctx.cluster.spec.control_plane_endpoint.port,
        },
        "nodeRegistration": {
            "name": host.name,
            "criSocket": runtime_of(ctx.cluster).endpoint,
            "imagePullPolicy": "IfNotPresent",
            "taints": [],
        },
        "patches": {"directory": str(PATCHES)},
    }


def _etcd(ctx: TaskContext, host: Host) -> dict[str, Any]:
    etcd = ctx.cluster.spec.etcd
    if etcd.type != "kubeadm":
        return {
            "external": {
                "endpoints": list(etcd_urls(ctx)),
                "caFile": f"{_PKI}/etcd/ca.crt",
                "certFile": f"{_PKI}/apiserver-etcd-client.crt",
                "keyFile": f"{_PKI}/apiserver-etcd-client.key",
            }
        }
    repository, _, name = image(ctx, "etcd").rpartition("/")
    return {
        "local": {
            "dataDir": etcd.data_dir,
            "imageRepository": repository,
            "imageTag": name.partition(":")[2],
            "extraArgs": _extra_args(etcd_extra_args(ctx, host), newer=_is_v1beta4(ctx)),
        }
    }


def _api_server_volumes(ctx: TaskContext) -> list[dict[str, Any]]:
    # As a directory: a file that is replaced in a directory is seen inside, one that is mounted by itself is not.
    found: list[dict[str, Any]] = [_volume("kubexm-config", SETTINGS, "Directory")]
    audit = ctx.cluster.spec.kubernetes.audit
    if audit.enabled and audit.log_path != "-":
        directory = str(PurePosixPath(audit.log_path).parent)
        found.append({"name": "audit-log", "hostPath": directory, "mountPath": directory, "pathType": "Directory"})
    return found


def _volumes(paths: set[PurePosixPath]) -> list[dict[str, Any]]:
    """One mount for each file: it sees no other program's, and is started anew when one of them changes."""
    return [_volume(f"kubexm-{path.stem}", path, "File") for path in sorted(paths)]


def _volume(name: str, path: PurePosixPath, kind: str) -> dict[str, Any]:
    return {"name": name, "hostPath": str(path), "mountPath": str(path), "readOnly": True, "pathType": kind}


def _extra_args(arguments: Mapping[str, tuple[str, ...]], *, newer: bool) -> Any:
    if newer:
        return [{"name": name, "value": value} for name, values in arguments.items() for value in values]
    return {name: values[0] for name, values in arguments.items()}


def _is_v1beta4(ctx: TaskContext) -> bool:
    return _api(ctx) != "v1beta3"


def _api_version(ctx: TaskContext) -> str:
    return f"kubeadm.k8s.io/{_api(ctx)}"


def _api(ctx: TaskContext) -> str:
    return releases.kubernetes(str(ctx.cluster.spec.kubernetes.version)).kubeadm_api


def _duration(value: timedelta) -> str:
    return f"{int(value.total_seconds())}s"
