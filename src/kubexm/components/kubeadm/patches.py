"""Patches of kubeadm's static pods, as files it reads: ours and the user's. Pure.

For each pod the same files are always there, empty or not, so that nothing is left behind when a patch leaves the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane import api_server, stop_timeout
from kubexm.components.host_files import HostFile
from kubexm.components.kubeadm.config import repeated_arguments
from kubexm.components.kubeadm.layout import (
    API_SERVER,
    CONTROLLER_MANAGER,
    DIGEST,
    ETCD,
    PATCHES,
    PLACEHOLDER,
    SCHEDULER,
)
from kubexm.runtime import TaskContext

__all__ = ["components", "patch_files"]

_GUARD: Final = "etcd-member"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def components(cluster: Cluster) -> tuple[str, ...]:
    """The static pods of a control plane."""
    stacked = (ETCD,) if cluster.spec.etcd.type == "kubeadm" else ()
    return (*stacked, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)


def patch_files(ctx: TaskContext) -> tuple[HostFile, ...]:
    """All patches: arguments kubeadm cannot be told, the user's, and ours last."""
    kubernetes, repeated = ctx.cluster.spec.kubernetes, repeated_arguments(ctx)
    users: Mapping[str, Mapping[str, Any]] = {
        API_SERVER: kubernetes.api_server.patch,
        CONTROLLER_MANAGER: kubernetes.controller_manager.patch,
        SCHEDULER: kubernetes.scheduler.patch,
    }
    return tuple(
        HostFile(path=PATCHES / f"{component}{name}.json", content=_text(content), mode=0o600)
        for component in components(ctx.cluster)
        for name, content in (
            ("0+json", _words(repeated.get(component, ()))),
            ("1+strategic", dict(users.get(component, {}))),
            ("2+strategic", _ours(ctx.cluster, component)),
        )
    )


def _ours(cluster: Cluster, component: str) -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": {"labels": {DIGEST: PLACEHOLDER}}}
    if component == API_SERVER:
        found["spec"] = _api_server(cluster)
    if component == ETCD:
        # A member that lost its data must not begin anew: the kubelet does not start it without this directory, which
        # kubexm makes for an empty member once the others know of it.
        guard = {"path": f"{cluster.spec.etcd.data_dir}/member", "type": "Directory"}
        found["spec"] = {
            "containers": [
                {"name": component, "volumeMounts": [{"name": _GUARD, "mountPath": "/member", "readOnly": True}]}
            ],
            "volumes": [{"name": _GUARD, "hostPath": guard}],
        }
    return found


def _api_server(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "terminationGracePeriodSeconds" not in (cluster.spec.kubernetes.api_server.patch.get("spec") or {}):
        found["terminationGracePeriodSeconds"] = stop_timeout(cluster)
    if _refuses_strangers(cluster):
        # The kubelet, which probes, is a stranger to the API server: it can only see whether somebody listens.
        listens = {"httpGet": None, "tcpSocket": {"port": cluster.spec.control_plane_endpoint.port}}
        found["containers"] = [{"name": API_SERVER, **dict.fromkeys(_PROBES, listens)}]
    return found


def _refuses_strangers(cluster: Cluster) -> bool:
    """True if callers with no identity are refused everything, health included."""
    return api_server(cluster).whole().get("anonymous-auth", ("true",))[-1] == "false"


def _words(words: Sequence[str]) -> list[dict[str, str]]:
    return [{"op": "add", "path": "/spec/containers/0/command/-", "value": word} for word in words]


def _text(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
