"""CoreDNS's objects, as kubeadm makes them, from cluster.yaml alone. Pure."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.apis.v1alpha1.networks import is_domain, parse_ip
from kubexm.errors import PlanError

__all__ = ["coredns_objects", "corefile", "service_address"]

_NAMESPACE: Final = "kube-system"
_LABELS: Final = {"k8s-app": "kube-dns"}
_DNS_INDEX: Final = 10
_INDENT: Final = " " * 4


def service_address(cluster: Cluster) -> str:
    """The address of the cluster's DNS service: the tenth of the first service network, as kubelets tell pods."""
    return str(cluster.spec.network.service_cidr[0][_DNS_INDEX])


def coredns_objects(cluster: Cluster, *, image: str) -> list[dict[str, Any]]:
    """Everything CoreDNS is, in the order it is applied."""
    text = corefile(cluster)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata("coredns"), "data": {"Corefile": text}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata("coredns")}
    return [account, *_rights(), config, _service(cluster), _deployment(cluster, image, text)]


def corefile(cluster: Cluster) -> str:
    """What CoreDNS is told."""
    dns, domain = cluster.spec.dns.coredns, cluster.spec.kubernetes.dns_domain
    upstream = " ".join(dns.upstream) or "/etc/resolv.conf"
    lines = [
        "errors",
        "health {",
        "   lameduck 5s",
        "}",
        "ready",
        *_more_names(dns.hosts),
        f"kubernetes {domain} in-addr.arpa ip6.arpa {{",
        "   pods insecure",
        "   fallthrough in-addr.arpa ip6.arpa",
        "   ttl 30",
        "}",
        "prometheus :9153",
        f"forward . {upstream} {{",
        "   max_concurrent 1000",
        "}",
        "cache 30 {",
        f"   disable success {domain}",
        f"   disable denial {domain}",
        "}",
        "loop",
        "reload",
        "loadbalance",
    ]
    return ".:53 {\n" + "".join(f"{_INDENT}{line}\n" for line in lines) + "}\n"


def _more_names(hosts: dict[str, str]) -> list[str]:
    """Names of the user's own: those with an address are answered here, those with a name ask for that one."""
    for name in hosts:
        if not is_domain(name):
            raise PlanError(f"dns.coredns.hosts: {name!r} is no name", hint="write it like `db.example.com: 10.0.0.9`")
    addresses = {name: target for name, target in hosts.items() if parse_ip(target) is not None}
    lines = [f"rewrite name exact {name} {target}" for name, target in hosts.items() if name not in addresses]
    if addresses:
        lines += ["hosts {", *(f"   {target} {name}" for name, target in addresses.items()), "   fallthrough", "}"]
    return lines


def _metadata(name: str, *, namespaced: bool = True) -> dict[str, Any]:
    place = {"namespace": _NAMESPACE} if namespaced else {}
    return {"name": name, **place, "labels": dict(_LABELS)}


def _rights() -> list[dict[str, Any]]:
    api, name = "rbac.authorization.k8s.io", "system:coredns"
    seen = ["endpoints", "services", "pods", "namespaces"]
    return [
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": _metadata(name, namespaced=False),
            "rules": [
                {"apiGroups": [""], "resources": seen, "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(name, namespaced=False),
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": _NAMESPACE}],
        },
    ]


def _service(cluster: Cluster) -> dict[str, Any]:
    metadata = _metadata("kube-dns")
    metadata["labels"] |= {"kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
    metadata["annotations"] = {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": service_address(cluster),
            "selector": dict(_LABELS),
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
                {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153},
            ],
        },
    }


def _deployment(cluster: Cluster, image: str, config: str) -> dict[str, Any]:
    digest = hashlib.sha256(config.encode()).hexdigest()[:32]
    apart = {
        "weight": 100,
        "podAffinityTerm": {
            "labelSelector": {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]},
            "topologyKey": "kubernetes.io/hostname",
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata("coredns"),
        "spec": {
            "replicas": cluster.spec.dns.coredns.replicas,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {
                # A changed configuration starts the pods anew, so that one with a mistake is noticed at once.
                "metadata": {"labels": dict(_LABELS), "annotations": {"kubexm.io/config": digest}},
                "spec": {
                    "priorityClassName": "system-cluster-critical",
                    "serviceAccountName": "coredns",
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}},
                    "tolerations": [
                        {"key": "CriticalAddonsOnly", "operator": "Exists"},
                        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                    ],
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "dnsPolicy": "Default",
                    "containers": [_container(image)],
                    "volumes": [
                        {
                            "name": "config-volume",
                            "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]},
                        }
                    ],
                },
            },
        },
    }


def _container(image: str) -> dict[str, Any]:
    ports = (("dns", 53, "UDP"), ("dns-tcp", 53, "TCP"), ("metrics", 9153, "TCP"))
    health = (("liveness-probe", 8080, "TCP"), ("readiness-probe", 8181, "TCP"))
    return {
        "name": "coredns",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}],
        "ports": [
            {"name": name, "containerPort": port, "protocol": protocol} for name, port, protocol in (*ports, *health)
        ],
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": "liveness-probe", "scheme": "HTTP"},
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "successThreshold": 1,
            "failureThreshold": 5,
        },
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": "readiness-probe", "scheme": "HTTP"},
            "periodSeconds": 2,
            "failureThreshold": 15,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
