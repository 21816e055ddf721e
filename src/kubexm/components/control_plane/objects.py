"""The objects a new cluster has from its first minute, by the names kubeadm gives them. Pure.

Tools and people look for these names, so that a cluster made without kubeadm has them too.
"""

from __future__ import annotations

from typing import Any, Final

from kubexm.components.documents import yaml_text

__all__ = ["BOOTSTRAPPERS", "admin_binding", "cluster_info", "joining_objects"]

BOOTSTRAPPERS: Final = "system:bootstrappers:kubeadm:default-node-token"
"""The group that tokens for joining put a node into."""
_ADMINS: Final = "kubeadm:cluster-admins"
_RBAC: Final = "rbac.authorization.k8s.io"


def admin_binding() -> dict[str, Any]:
    """Lets the group of admin.conf do everything. Only super-admin.conf can make it."""
    return _cluster_binding(_ADMINS, "cluster-admin", _group(_ADMINS))


def joining_objects() -> tuple[dict[str, Any], ...]:
    """What lets a node with a token ask for its client certificate, get it, and renew it later."""
    get_nodes = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kubeadm:get-nodes"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    }
    return (
        get_nodes,
        _cluster_binding("kubeadm:get-nodes", "kubeadm:get-nodes", _group(BOOTSTRAPPERS)),
        _cluster_binding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", _group(BOOTSTRAPPERS)),
        _cluster_binding(
            "kubeadm:node-autoapprove-bootstrap",
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            _group(BOOTSTRAPPERS),
        ),
        _cluster_binding(
            "kubeadm:node-autoapprove-certificate-rotation",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            _group("system:nodes"),
        ),
    )


def cluster_info(server: str, ca: str) -> tuple[dict[str, Any], ...]:
    """Where the API is and how to know it, for whoever holds a token; `ca` is the CA's certificate in base64."""
    name, namespace = "cluster-info", "kube-public"
    kubeconfig: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": {"certificate-authority-data": ca, "server": server}}],
        "contexts": None,
        "current-context": "",
        "preferences": {},
        "users": None,
    }
    role = "kubeadm:bootstrap-signer-clusterinfo"
    where = {"name": role, "namespace": namespace}
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": {"kubeconfig": yaml_text(kubeconfig)},
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": where,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": where,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": role},
            "subjects": [_user("system:anonymous")],
        },
    )


def _cluster_binding(name: str, role: str, *subjects: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": list(subjects),
    }


def _group(name: str) -> dict[str, str]:
    return {"apiGroup": _RBAC, "kind": "Group", "name": name}


def _user(name: str) -> dict[str, str]:
    return {"apiGroup": _RBAC, "kind": "User", "name": name}
