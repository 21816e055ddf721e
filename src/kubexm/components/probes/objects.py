"""What a measurement brings into the cluster, all of it labelled with the measurement's id. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

__all__ = [
    "ACCOUNT",
    "COUNTER",
    "LABEL",
    "SERVICE_PORT",
    "api_objects",
    "namespace_of",
    "pod_objects",
    "start_spec",
]

LABEL: Final = "kubexm.io/probe"
"""On everything of a measurement; its value is the id."""
ACCOUNT: Final = "probe"
COUNTER: Final = "probe"
"""The ConfigMap that is read again and again."""
SERVICE_PORT: Final = 80
_HTTP_PORT: Final = 8080
_REPLICAS: Final = 3
_NOBODY: Final = 65534
_RBAC: Final = "rbac.authorization.k8s.io"
_CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_POD_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": _NOBODY,
    "runAsGroup": _NOBODY,
    "seccompProfile": {"type": "RuntimeDefault"},
    # Files of the host have labels no container may read, where SELinux is enforced.
    "seLinuxOptions": {"type": "spc_t"},
}


def namespace_of(mark: str) -> str:
    """The namespace of a measurement; cluster roles are called the same."""
    return f"kubexm-probe-{mark}"


def api_objects(mark: str) -> list[dict[str, Any]]:
    """A namespace, an account that may write there and read nodes, and an object to read."""
    name = namespace_of(mark)
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": name}
    writing = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
    }
    starting = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "delete"]}
    reading = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    return [
        _object("v1", "Namespace", mark, name, labels={"pod-security.kubernetes.io/enforce": "privileged"}),
        _object("v1", "ServiceAccount", mark, ACCOUNT, name, automountServiceAccountToken=False),
        _object("v1", "ConfigMap", mark, COUNTER, name, data={"measurement": mark}),
        _object(f"{_RBAC}/v1", "Role", mark, ACCOUNT, name, rules=[writing, starting]),
        _object(
            f"{_RBAC}/v1",
            "RoleBinding",
            mark,
            ACCOUNT,
            name,
            roleRef={"apiGroup": _RBAC, "kind": "Role", "name": ACCOUNT},
            subjects=[subject],
        ),
        _object(f"{_RBAC}/v1", "ClusterRole", mark, name, rules=[reading]),
        _object(
            f"{_RBAC}/v1",
            "ClusterRoleBinding",
            mark,
            name,
            roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            subjects=[subject],
        ),
    ]


def pod_objects(
    mark: str, *, image: str, program: str, directory: str, taints: Sequence[str], anywhere: bool
) -> list[dict[str, Any]]:
    """A pod on every node, and a service with three replicas, a budget and a preStop hook.

    `program` and `directory` are paths on the nodes. `anywhere`: replicas may run on control planes.
    """
    namespace = namespace_of(mark)
    mount = {"name": "program", "mountPath": "/kubexm-probe", "readOnly": True}
    volume = {"name": "program", "hostPath": {"path": program, "type": "File"}}
    agent = {
        "name": "agent",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/kubexm-probe", "agent", "/probe"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": [mount, {"name": "probe", "mountPath": "/probe"}],
    }
    agents = {
        "tolerations": [{"operator": "Exists"}],
        "containers": [agent],
        "volumes": [volume, {"name": "probe", "hostPath": {"path": directory, "type": "Directory"}}],
    }
    replica = {
        "name": "replica",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/kubexm-probe", "serve"],
        "ports": [{"containerPort": _HTTP_PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": _HTTP_PORT}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"exec": {"command": ["/kubexm-probe", "sleep", "5"]}}},
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": [mount],
    }
    keys = [taint.partition("=")[0].partition(":")[0] for taint in taints]
    keys += ["node-role.kubernetes.io/control-plane"] if anywhere else []
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "replica"}},
    }
    replicas = {
        "terminationGracePeriodSeconds": 20,
        "tolerations": [{"key": key, "operator": "Exists"} for key in dict.fromkeys(keys)],
        "topologySpreadConstraints": [spread],
        "containers": [replica],
        "volumes": [volume],
    }
    return [
        _object("apps/v1", "DaemonSet", mark, "agent", namespace, spec=_workload("agent", agents)),
        _object(
            "apps/v1",
            "Deployment",
            mark,
            "replica",
            namespace,
            spec={"replicas": _REPLICAS, **_workload("replica", replicas)},
        ),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            mark,
            "replica",
            namespace,
            spec={"minAvailable": _REPLICAS - 1, "selector": {"matchLabels": {"app": "replica"}}},
        ),
        _object(
            "v1",
            "Service",
            mark,
            "replica",
            namespace,
            spec={
                "selector": {"app": "replica"},
                "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": _HTTP_PORT}],
            },
        ),
    ]


def start_spec(image: str, taints: Sequence[str], *, anywhere: bool) -> dict[str, Any]:
    """The spec of a pod that is only started, to see how long that takes."""
    keys = [taint.partition("=")[0].partition(":")[0] for taint in taints]
    keys += ["node-role.kubernetes.io/control-plane"] if anywhere else []
    container = {
        "name": "pause",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["pause"],
        "securityContext": _CONTAINER_SECURITY,
    }
    return {
        **_pod_defaults(),
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        "tolerations": [{"key": key, "operator": "Exists"} for key in dict.fromkeys(keys)],
        "containers": [container],
    }


def _workload(app: str, pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": app}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {**_pod_defaults(), **pod}},
    }


def _pod_defaults() -> dict[str, Any]:
    return {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": _POD_SECURITY,
    }


def _object(
    version: str,
    kind: str,
    mark: str,
    name: str,
    namespace: str = "",
    *,
    labels: dict[str, str] | None = None,
    **rest: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {LABEL: mark, **(labels or {})}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
