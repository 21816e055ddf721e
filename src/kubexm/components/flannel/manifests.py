"""flannel's objects, from cluster.yaml alone. Pure.

flanneld reaches the API the way its node does and not through the service address, so that it waits for no kube-proxy.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.topology import LOCALHOST, endpoint

__all__ = ["DAEMON_SET", "NAMESPACE", "flannel_objects", "net_conf"]

NAMESPACE: Final = "kube-flannel"
DAEMON_SET: Final = "kube-flannel-ds"
_LABELS: Final = {"tier": "node", "app": "flannel", "k8s-app": "flannel"}
_POD_SECURITY: Final = ("enforce", "audit", "warn")
_ENCAPSULATION: Final = 50
"""Bytes that vxlan adds to each packet; flannel takes them off what it is given."""

# flannel takes one address to find its interface by, and for both families only by this detour.
_BOTH_FAMILIES: Final = """\
for address in $(echo "$HOST_IPS" | tr , ' '); do
  case $address in *:*) six=$address ;; *) four=$address ;; esac
done
exec /opt/bin/flanneld "$@" --iface="$four" --public-ipv6="$six"
"""

# Once the configuration is there the node is Ready. A pod that is started before flanneld knows the node's subnet
# fails, and is not tried again for ten seconds. After a while it is put there all the same: a hook that never ends
# would keep flanneld's log from those who look for the reason.
_ANNOUNCE: Final = """\
n=0
until [ -s /run/flannel/subnet.env ] || [ "$n" -ge 100 ]; do n=$((n + 1)); sleep 0.1; done
umask 077
cp -f /etc/kube-flannel/cni-conf.json /etc/cni/net.d/.10-flannel.new \\
  && mv -f /etc/cni/net.d/.10-flannel.new /etc/cni/net.d/10-flannel.conflist
"""


def flannel_objects(cluster: Cluster, *, image: str, plugin_image: str) -> list[dict[str, Any]]:
    """Everything flannel is, in the order it is applied."""
    config = _config(cluster)
    return [
        _namespace(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata("flannel")},
        *_rights(),
        config,
        _daemon_set(cluster, config, image, plugin_image),
    ]


def net_conf(cluster: Cluster) -> dict[str, Any]:
    """What flanneld is told of the network."""
    network = cluster.spec.network
    by_version = {cidr.version: str(cidr) for cidr in network.pod_cidr}
    backend: dict[str, Any] = {"Type": network.flannel.backend}
    if network.flannel.backend == "vxlan":
        backend |= {"VNI": network.flannel.vni, "Port": network.flannel.port}
        if network.flannel.direct_routing:
            backend["DirectRouting"] = True
        if network.mtu is not None:
            backend["MTU"] = network.mtu + _ENCAPSULATION
    conf: dict[str, Any] = {"EnableNFTables": cluster.spec.kubernetes.kube_proxy.mode == "nftables"}
    if 4 in by_version:
        conf["Network"] = by_version[4]
    else:
        conf["EnableIPv4"] = False
    if 6 in by_version:
        conf |= {"EnableIPv6": True, "IPv6Network": by_version[6]}
    return {**conf, "Backend": backend}


def _cni_conf(cluster: Cluster) -> dict[str, Any]:
    """What the container runtime does for each pod."""
    mtu = cluster.spec.network.mtu
    delegate: dict[str, Any] = {"hairpinMode": True, "isDefaultGateway": True}
    if mtu is not None:
        delegate["mtu"] = mtu
    return {
        "name": "cbr0",
        "cniVersion": "0.3.1",
        "plugins": [
            {"type": "flannel", "delegate": delegate},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _metadata(name: str, *, namespaced: bool = True) -> dict[str, Any]:
    place = {"namespace": NAMESPACE} if namespaced else {}
    return {"name": name, **place, "labels": {"k8s-app": "flannel"}}


def _namespace() -> dict[str, Any]:
    labels = {"k8s-app": "flannel", **{f"pod-security.kubernetes.io/{mode}": "privileged" for mode in _POD_SECURITY}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _rights() -> list[dict[str, Any]]:
    api = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": _metadata("flannel", namespaced=False),
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
            ],
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _metadata("flannel", namespaced=False),
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "flannel"},
            "subjects": [{"kind": "ServiceAccount", "name": "flannel", "namespace": NAMESPACE}],
        },
    ]


def _config(cluster: Cluster) -> dict[str, Any]:
    metadata = _metadata("kube-flannel-cfg")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "labels": dict(_LABELS)},
        "data": {
            "cni-conf.json": json.dumps(_cni_conf(cluster), indent=2) + "\n",
            "net-conf.json": json.dumps(net_conf(cluster), indent=2) + "\n",
        },
    }


def _daemon_set(cluster: Cluster, config: dict[str, Any], image: str, plugin_image: str) -> dict[str, Any]:
    digest = hashlib.sha256(json.dumps(config["data"], sort_keys=True).encode()).hexdigest()[:32]
    metadata = _metadata(DAEMON_SET)
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {**metadata, "labels": dict(_LABELS)},
        "spec": {
            "selector": {"matchLabels": {"app": "flannel"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                # A changed configuration starts the pods anew, a few at a time.
                "metadata": {"labels": dict(_LABELS), "annotations": {"kubexm.io/config": digest}},
                "spec": {
                    "hostNetwork": True,
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": "flannel",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [{"operator": "Exists"}],
                    "terminationGracePeriodSeconds": 5,
                    "initContainers": [_install_plugin(plugin_image)],
                    "containers": [_flanneld(cluster, image)],
                    "volumes": [
                        {"name": "run", "hostPath": {"path": "/run/flannel", "type": "DirectoryOrCreate"}},
                        {"name": "cni-plugin", "hostPath": {"path": "/opt/cni/bin", "type": "DirectoryOrCreate"}},
                        {"name": "cni", "hostPath": {"path": "/etc/cni/net.d", "type": "DirectoryOrCreate"}},
                        {"name": "flannel-cfg", "configMap": {"name": "kube-flannel-cfg"}},
                        {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
                    ],
                },
            },
        },
    }


def _install_plugin(image: str) -> dict[str, Any]:
    return {
        "name": "install-cni-plugin",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["cp", "-f", "/flannel", "/opt/cni/bin/flannel"],
        "volumeMounts": [{"name": "cni-plugin", "mountPath": "/opt/cni/bin"}],
    }


def _flanneld(cluster: Cluster, image: str) -> dict[str, Any]:
    network = cluster.spec.network
    arguments = ["--ip-masq", "--kube-subnet-mgr"]
    command = ["/opt/bin/flanneld"]
    if network.flannel.interface:
        arguments.append(f"--iface={network.flannel.interface}")
    elif len(network.pod_cidr) > 1:
        command = ["/bin/sh", "-c", _BOTH_FAMILIES, "flanneld"]
    else:
        arguments.append("--iface=$(HOST_IP)")
    return {
        "name": "kube-flannel",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "args": arguments,
        "env": _environment(cluster),
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
        "securityContext": {"privileged": False, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "lifecycle": {"postStart": {"exec": {"command": ["/bin/sh", "-c", _ANNOUNCE]}}},
        "volumeMounts": [
            {"name": "run", "mountPath": "/run/flannel"},
            {"name": "cni", "mountPath": "/etc/cni/net.d"},
            {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"},
            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
        ],
    }


def _environment(cluster: Cluster) -> list[dict[str, Any]]:
    wanted = cluster.spec.control_plane_endpoint
    server = LOCALHOST if wanted.load_balancer == "haproxy" else endpoint(cluster)

    def field(path: str) -> dict[str, Any]:
        return {"fieldRef": {"fieldPath": path}}

    return [
        {"name": "POD_NAME", "valueFrom": field("metadata.name")},
        {"name": "POD_NAMESPACE", "valueFrom": field("metadata.namespace")},
        {"name": "HOST_IP", "valueFrom": field("status.hostIP")},
        {"name": "HOST_IPS", "valueFrom": field("status.hostIPs")},
        {"name": "EVENT_QUEUE_DEPTH", "value": "5000"},
        {"name": "KUBERNETES_SERVICE_HOST", "value": server},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(wanted.port)},
    ]
