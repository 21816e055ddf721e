"""What the kubelet is told: its settings file, its arguments and its unit, from cluster.yaml and facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubexm import releases
from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane.layout import CA_ROOT, CA_TRUST
from kubexm.components.documents import merged, yaml_text
from kubexm.components.kubelet.layout import (
    BINARY,
    BOOTSTRAP_CONF,
    CLIENT_CERTIFICATE,
    CONFIG,
    DROP_INS,
    HOME,
    KUBELET_CONF,
    MANIFESTS,
    NODE_ENV,
    SERVING_CERTIFICATE,
    SERVING_KEY,
)
from kubexm.components.runtimes import runtime_of
from kubexm.components.topology import LOCALHOST, addresses, endpoint, server_url
from kubexm.components.units import unit_word
from kubexm.connector import Host
from kubexm.runner import Facts
from kubexm.runtime import TaskContext

__all__ = [
    "CONTROL_PLANE_TAINT",
    "KERNEL",
    "bootstrap_conf",
    "cluster_dns",
    "kubelet_conf",
    "node_env",
    "node_servers",
    "protects_kernel",
    "registration",
    "settings",
    "unit_file",
]

CONTROL_PLANE_TAINT: Final = "node-role.kubernetes.io/control-plane:NoSchedule"

KERNEL: Final[Mapping[str, str]] = {
    "kernel.keys.root_maxbytes": "25000000",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
}
"""What the kubelet wants of the kernel; with `protectKernelDefaults` it refuses to start where it is otherwise."""

_STUB_RESOLVERS: Final = frozenset({"127.0.0.53", "127.0.0.54"})
_BEHIND_STUB: Final = "/run/systemd/resolve/resolv.conf"
_DNS_INDEX: Final = 10
_PODS_PIDS: Final = 4096
_CIPHERS: Final = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)


def cluster_dns(cluster: Cluster) -> str:
    """The address of the cluster's DNS service: the tenth of the first service network."""
    return str(cluster.spec.network.service_cidr[0][_DNS_INDEX])


def settings(cluster: Cluster, host: Host, facts: Facts) -> str:
    """The KubeletConfiguration of a host, the user's settings laid over ours."""
    kubernetes = cluster.spec.kubernetes
    ours: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "2m0s"},
            "x509": {"clientCAFile": str(CA_TRUST)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "clusterDNS": [cluster_dns(cluster)],
        "clusterDomain": kubernetes.dns_domain,
        "containerRuntimeEndpoint": runtime_of(cluster).endpoint,
        "healthzBindAddress": LOCALHOST,
        "healthzPort": 10248,
        "makeIPTablesUtilChains": True,
        "podPidsLimit": _PODS_PIDS,
        "protectKernelDefaults": protects_kernel(cluster),
        "readOnlyPort": 0,
        "resolvConf": _resolv_conf(facts),
        "rotateCertificates": True,
        "seccompDefault": True,
        "streamingConnectionIdleTimeout": "4h0m0s",
        "tlsCertFile": str(SERVING_CERTIFICATE),
        "tlsCipherSuites": list(_CIPHERS),
        "tlsMinVersion": "VersionTLS12",
        "tlsPrivateKeyFile": str(SERVING_KEY),
    }
    if kubernetes.type == "kubeadm" and "controlPlane" in host.roles:
        ours["staticPodPath"] = str(MANIFESTS)
    if facts.cgroup == 1 and releases.kubernetes(str(kubernetes.version)).refuses_cgroup_v1:
        ours["failCgroupV1"] = False
    if kubernetes.feature_gates:
        ours["featureGates"] = dict(sorted(kubernetes.feature_gates.items()))
    return yaml_text(merged(ours, kubernetes.kubelet.config))


def registration(host: Host) -> str:
    """What a node says of itself when it registers: the taints that keep pods away from the first moment on."""
    taints = list(host.taints)
    if "controlPlane" in host.roles and "worker" not in host.roles:
        taints.append(CONTROL_PLANE_TAINT)
    return yaml_text(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "registerWithTaints": [_taint(text) for text in dict.fromkeys(taints)],
        }
    )


def node_env(ctx: TaskContext, host: Host) -> str:
    """The arguments of one host: names and addresses only, so nothing in it needs quoting."""
    chosen = addresses(ctx, host)
    return f"KUBELET_NODE_ARGS=--hostname-override={host.name} --node-ip={','.join(chosen)}\n"


def unit_file(cluster: Cluster) -> str:
    """The systemd unit, the same on every node."""
    words = [
        f"--config={CONFIG}",
        f"--config-dir={DROP_INS}",
        f"--kubeconfig={KUBELET_CONF}",
        f"--bootstrap-kubeconfig={BOOTSTRAP_CONF}",
        f"--root-dir={HOME}",
        "$KUBELET_NODE_ARGS",
        *(
            unit_word(f"--{name}={value}")
            for name, values in sorted(cluster.spec.kubernetes.kubelet.extra_args.items())
            for value in values
        ),
    ]
    command = " \\\n    ".join([str(BINARY), *words])
    return f"""\
[Unit]
Description=kubelet, the agent of Kubernetes on this node
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target {runtime_of(cluster).unit}
StartLimitIntervalSec=0

[Service]
Type=notify
EnvironmentFile={NODE_ENV}
ExecStart={command}
Restart=always
RestartSec=2s
KillMode=process
CPUAccounting=true
MemoryAccounting=true
StandardOutput=journal
StandardError=journal

[Install]
WantedBy=multi-user.target
"""


def node_servers(cluster: Cluster) -> tuple[str, str]:
    """Where kubelets reach the API: through the endpoint, and on a control plane its own API server."""
    port = cluster.spec.control_plane_endpoint.port
    return server_url(endpoint(cluster), port), server_url(LOCALHOST, port)


def kubelet_conf(name: str, server: str) -> str:
    """The kubeconfig of a node that has joined: the certificate is the kubelet's own affair."""
    certificate = {"client-certificate": str(CLIENT_CERTIFICATE), "client-key": str(CLIENT_CERTIFICATE)}
    return _kubeconfig(server, {"name": f"system:node:{name}", "user": certificate})


def bootstrap_conf(server: str, token: str) -> str:
    """The kubeconfig of a node that is about to join."""
    return _kubeconfig(server, {"name": "bootstrap", "user": {"token": token}})


def protects_kernel(cluster: Cluster) -> bool:
    """True if the kernel is set as the kubelet wants it, as preparing hosts does unless the file wants it otherwise."""
    wanted = cluster.spec.system.sysctl
    contradicted = any(str(wanted[key]) != value for key, value in KERNEL.items() if key in wanted)
    return not contradicted and cluster.spec.kubernetes.kubelet.config.get("protectKernelDefaults") is not False


def _kubeconfig(server: str, user: Mapping[str, Any]) -> str:
    cluster = {"name": "kubernetes", "cluster": {"certificate-authority": str(CA_ROOT), "server": server}}
    context = {"name": "default", "context": {"cluster": "kubernetes", "user": user["name"]}}
    return yaml_text(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [user],
            "contexts": [context],
            "current-context": "default",
        }
    )


def _resolv_conf(facts: Facts) -> str:
    """The name servers pods are given: those behind systemd's stub, since the stub itself is out of their reach."""
    stub = not _STUB_RESOLVERS.isdisjoint(facts.network.nameservers)
    resolved = facts.unit("systemd-resolved")
    return _BEHIND_STUB if stub and resolved is not None and resolved.active == "active" else "/etc/resolv.conf"


def _taint(text: str) -> dict[str, str]:
    """`key=value:Effect` or `key:Effect`, as the file writes it."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}
