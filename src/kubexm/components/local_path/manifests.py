"""The local-path provisioner's objects, from cluster.yaml alone. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.documents import yaml_text

__all__ = ["NAMESPACE", "STORAGE_CLASS", "local_path_objects"]

NAMESPACE: Final = "local-path-storage"
STORAGE_CLASS: Final = "local-path"
_NAME: Final = "local-path-provisioner"
_API: Final = "rbac.authorization.k8s.io"
_CONTROL_PLANE: Final = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
_SETUP: Final = '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n'
_TEARDOWN: Final = '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n'


def local_path_objects(cluster: Cluster, *, image: str, helper_image: str) -> list[dict[str, Any]]:
    """Everything the provisioner is, in the order it is applied."""
    wanted = cluster.spec.storage.local_path
    config = _config(wanted.path, helper_image)
    labels = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(_NAME)},
        *_rights(),
        *_limits(wanted.path, helper_image),
        config,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": str(wanted.default).lower()},
            },
            "provisioner": "rancher.io/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
        _deployment(config, image),
    ]


def _metadata(name: str, *, namespaced: bool = True) -> dict[str, Any]:
    return {"name": name, **({"namespace": NAMESPACE} if namespaced else {})}


def _config(path: str, helper_image: str) -> dict[str, Any]:
    helper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "automountServiceAccountToken": False,
            "priorityClassName": "system-node-critical",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [
                {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
                _CONTROL_PLANE,
            ],
            "containers": [{"name": "helper-pod", "image": helper_image, "imagePullPolicy": "IfNotPresent"}],
        },
    }
    places = {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [path]}]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata("local-path-config"),
        "data": {
            "config.json": json.dumps(places, indent=2) + "\n",
            "setup": _SETUP,
            "teardown": _TEARDOWN,
            "helperPod.yaml": yaml_text(helper),
        },
    }


def _rights() -> list[dict[str, Any]]:
    look, all_of_it = ["get", "list", "watch"], ["get", "list", "watch", "create", "patch", "update", "delete"]
    subjects = [{"kind": "ServiceAccount", "name": _NAME, "namespace": NAMESPACE}]
    seen = ["nodes", "persistentvolumeclaims", "configmaps", "pods", "pods/log"]
    rules = [
        {"apiGroups": [""], "resources": seen, "verbs": look},
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": all_of_it},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": look},
    ]
    own = [{"apiGroups": [""], "resources": ["pods"], "verbs": [*look, "create", "delete"]}]
    documents = []
    for kind, namespaced, granted in (("Role", True, own), ("ClusterRole", False, rules)):
        metadata = _metadata(_NAME, namespaced=namespaced)
        documents += [
            {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": metadata, "rules": granted},
            {
                "apiVersion": f"{_API}/v1",
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _API, "kind": kind, "name": _NAME},
                "subjects": subjects,
            },
        ]
    return documents


def _limits(path: str, helper_image: str) -> list[dict[str, Any]]:
    """What the provisioner's account may create, since its rights alone would make it root on any node.

    Its namespace has to allow host paths, and with that everything: policies let it run only its two scripts, in its
    own image and on its own directory, and create volumes only there.
    """
    base = json.dumps(path.rstrip("/") + "/")

    def inside(field: str) -> str:
        return f"(({field} + '/').startsWith({base}) && !({field} + '/').contains('/../'))"

    pods = {
        "may run only its own scripts in its own image": (
            "object.spec.containers.size() == 1 && object.spec.containers.all(c, "
            f"c.image == {json.dumps(helper_image)} && has(c.command) && "
            "(c.command == ['/bin/sh', '/script/setup'] || c.command == ['/bin/sh', '/script/teardown']) && "
            "!has(c.lifecycle) && !has(c.livenessProbe) && !has(c.readinessProbe) && !has(c.startupProbe) && "
            "!has(c.envFrom) && (!has(c.env) || c.env.all(e, !has(e.valueFrom)))) && "
            "!has(object.spec.initContainers) && !has(object.spec.ephemeralContainers)"
        ),
        f"may mount only its scripts and {path}": (
            "!has(object.spec.volumes) || object.spec.volumes.all(v, "
            "(has(v.configMap) && has(v.configMap.name) && v.configMap.name == 'local-path-config') || "
            f"(has(v.hostPath) && {inside('v.hostPath.path')}))"
        ),
        "may have no privileges and no namespaces of the host": (
            "!(has(object.spec.hostNetwork) && object.spec.hostNetwork) && "
            "!(has(object.spec.hostPID) && object.spec.hostPID) && "
            "!(has(object.spec.hostIPC) && object.spec.hostIPC) && "
            "object.spec.containers.all(c, !has(c.securityContext) || "
            "(!(has(c.securityContext.privileged) && c.securityContext.privileged) && "
            "!(has(c.securityContext.capabilities) && has(c.securityContext.capabilities.add))))"
        ),
        f"must use the account {_NAME} and mount no token": (
            f"object.spec.serviceAccountName == '{_NAME}' && "
            "has(object.spec.automountServiceAccountToken) && !object.spec.automountServiceAccountToken"
        ),
    }
    volumes = {
        f"must be below {path}": (
            f"(has(object.spec.hostPath) && {inside('object.spec.hostPath.path')}) || "
            f"(has(object.spec.local) && {inside('object.spec.local.path')})"
        )
    }
    return [*_policy("pods", pods), *_policy("persistentvolumes", volumes)]


def _policy(resource: str, rules: Mapping[str, str]) -> list[dict[str, Any]]:
    """A policy for what the provisioner's account creates or changes of one kind, in force."""
    api, name = "admissionregistration.k8s.io/v1", f"kubexm-{_NAME}-{resource}"
    account = f"system:serviceaccount:{NAMESPACE}:{_NAME}"
    match = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    return [
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [match]},
                "matchConditions": [
                    {"name": "of-the-provisioner", "expression": f"request.userInfo.username == '{account}'"}
                ],
                "validations": [
                    {"expression": expression, "message": f"{resource} of {_NAME} {message}"}
                    for message, expression in rules.items()
                ],
            },
        },
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _deployment(config: dict[str, Any], image: str) -> dict[str, Any]:
    digest = hashlib.sha256(json.dumps(config["data"], sort_keys=True).encode()).hexdigest()[:32]
    container = {
        "name": _NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["local-path-provisioner", "start"],
        "args": ["--config", "/etc/config/config.json", "--service-account-name", _NAME],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "CONFIG_MOUNT_PATH", "value": "/etc/config/"},
        ],
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/config/"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(_NAME),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": _NAME}},
            "template": {
                "metadata": {"labels": {"app": _NAME}, "annotations": {"kubexm.io/config": digest}},
                "spec": {
                    "serviceAccountName": _NAME,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [_CONTROL_PLANE],
                    "containers": [container],
                    "volumes": [{"name": "config-volume", "configMap": {"name": "local-path-config"}}],
                },
            },
        },
    }
