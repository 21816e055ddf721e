"""The files that arguments of the control plane name: audit, admission, authentication, scheduling. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from kubexm import releases
from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane.layout import (
    ADMISSION,
    AUDIT_POLICY,
    AUTHENTICATION,
    CA_ROOT,
    CONTROLLER_MANAGER_CONF,
    ENCRYPTION,
    PKI,
    SCHEDULER_CONF,
    SCHEDULER_SETTINGS,
)
from kubexm.components.documents import merged, yaml_text
from kubexm.redact import SecretRef

__all__ = ["SettingsFile", "limits_anonymous", "read_at_start", "settings_files"]

_HEALTH: Final = ("/livez", "/readyz", "/healthz")
_ALSO_HEALTH: Final = "/version"
_CONTROL_PLANE: Final = ("system:apiserver", "system:kube-controller-manager", "system:kube-scheduler")
_READ_AT_START: Final = {
    "kube-apiserver": (PKI / "sa.key", PKI / "sa.pub", PKI / "etcd/ca.crt"),
    "kube-controller-manager": (CONTROLLER_MANAGER_CONF, CA_ROOT, PKI / "sa.key"),
    "kube-scheduler": (SCHEDULER_CONF,),
}
_INTO_PODS_AND_NODES: Final = (
    "nodes/proxy",
    "pods/attach",
    "pods/ephemeralcontainers",
    "pods/exec",
    "pods/log",
    "pods/portforward",
    "pods/proxy",
    "services/proxy",
)
"""Many of these are reads to the API server, and show or do anything all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A file of the control plane, and the program that reads it."""

    name: str
    """A word for ids of nodes."""
    path: PurePosixPath
    content: str | SecretRef
    program: str
    mode: int = 0o644
    """Only what is secret is hidden: a plan shows what an edit changes in the others."""
    reloaded: bool = False
    """The program reads it again by itself, so that a change restarts nothing."""


def settings_files(cluster: Cluster) -> tuple[SettingsFile, ...]:
    """Every file the arguments of this cluster's control plane name, apart from certificates and kubeconfigs."""
    found = [
        SettingsFile(
            name="encryption",
            path=ENCRYPTION,
            content=SecretRef("encryption-config"),
            program="kube-apiserver",
            mode=0o600,
            reloaded=True,
        ),
        SettingsFile(
            name="admission", path=ADMISSION, content=yaml_text(_admission(cluster)), program="kube-apiserver"
        ),
        SettingsFile(
            name="scheduler", path=SCHEDULER_SETTINGS, content=yaml_text(_scheduler(cluster)), program="kube-scheduler"
        ),
    ]
    if cluster.spec.kubernetes.audit.enabled:
        policy = yaml_text(_audit_policy(cluster.spec.kubernetes.audit.policy))
        found.append(SettingsFile(name="audit", path=AUDIT_POLICY, content=policy, program="kube-apiserver"))
    if limits_anonymous(cluster):
        text = yaml_text(_authentication(cluster))
        found.append(SettingsFile(name="authentication", path=AUTHENTICATION, content=text, program="kube-apiserver"))
    return tuple(sorted(found, key=lambda file: file.name))


def read_at_start(cluster: Cluster, program: str) -> tuple[PurePosixPath, ...]:
    """The files that a program reads when it starts and never again: a change of one of them restarts it.

    Certificates that programs serve with, present as clients or accept are read again by themselves.
    """
    own = (file.path for file in settings_files(cluster) if file.program == program and not file.reloaded)
    return (*own, *_READ_AT_START[program])


def limits_anonymous(cluster: Cluster) -> bool:
    """True if callers with no identity are let through to health paths only.

    Kubernetes can do so from 1.32 on, and not beside arguments that configure the same: `oidc-…`, `anonymous-auth`.
    """
    kubernetes = cluster.spec.kubernetes
    taken = any(name == "anonymous-auth" or name.startswith("oidc-") for name in kubernetes.api_server.extra_args)
    able = releases.kubernetes(str(kubernetes.version)).anonymous_paths and not taken
    return able and kubernetes.api_server.anonymous_access == "health"


def _authentication(cluster: Cluster) -> dict[str, Any]:
    version = releases.kubernetes(str(cluster.spec.kubernetes.version)).authentication_api
    return {
        "apiVersion": f"apiserver.config.k8s.io/{version}",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": path} for path in _HEALTH]},
    }


def _admission(cluster: Cluster) -> dict[str, Any]:
    wanted = cluster.spec.kubernetes.pod_security
    levels = {"enforce": wanted.enforce, "audit": wanted.audit, "warn": wanted.warn}
    defaults = {
        key: text for mode, level in levels.items() for key, text in ((mode, level), (f"{mode}-version", "latest"))
    }
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [
            {
                "name": "PodSecurity",
                "configuration": {
                    "apiVersion": "pod-security.admission.config.k8s.io/v1",
                    "kind": "PodSecurityConfiguration",
                    "defaults": defaults,
                    "exemptions": {
                        "usernames": [],
                        "runtimeClasses": [],
                        "namespaces": list(wanted.exempt_namespaces),
                    },
                },
            }
        ],
    }


def _audit_policy(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The user's policy, or: metadata of every write and of reads that show secrets or reach into pods and nodes.

    No bodies, and nothing of what the cluster itself does all the time. The first rule that matches decides.
    """
    head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    if wanted:
        return merged(head, wanted)
    leases = {"group": "coordination.k8s.io", "resources": ["leases"]}
    rules: list[dict[str, Any]] = [
        {
            "level": "None",
            "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", _ALSO_HEALTH, "/metrics", "/openapi*"],
        },
        {"level": "None", "resources": [{"group": "", "resources": ["events"]}, {"group": "events.k8s.io"}]},
        {"level": "None", "users": list(_CONTROL_PLANE), "resources": [leases]},
        {"level": "None", "users": list(_CONTROL_PLANE), "verbs": ["get", "list", "watch"]},
        {
            "level": "None",
            "userGroups": ["system:nodes"],
            "resources": [leases, {"group": "", "resources": ["nodes/status", "pods/status"]}],
        },
        # What pods mount, and what controllers keep in their caches.
        {"level": "None", "userGroups": ["system:nodes"], "verbs": ["list", "watch"]},
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"], "verbs": ["watch"]},
        {
            "level": "Metadata",
            "resources": [
                {"group": "", "resources": list(_INTO_PODS_AND_NODES)},
                {"group": "", "resources": ["secrets", "configmaps", "serviceaccounts/token"]},
                {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
            ],
        },
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Metadata"},
    ]
    return {**head, "omitStages": ["RequestReceived"], "rules": rules}


def _scheduler(cluster: Cluster) -> dict[str, Any]:
    base = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(SCHEDULER_CONF)},
        "leaderElection": {"leaderElect": True},
        "enableProfiling": False,
    }
    return merged(base, cluster.spec.kubernetes.scheduler.config)
