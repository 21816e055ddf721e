"""What kube-apiserver, kube-controller-manager and kube-scheduler are told, decided from cluster.yaml in one place.

Both modes take their arguments from here: `kubeadm` those that are not its own, `kubexm` all of them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane.arguments import Arguments, feature_gates, listed, with_gates
from kubexm.components.control_plane.layout import (
    ADMISSION,
    AUDIT_POLICY,
    AUTHENTICATION,
    CA_ROOT,
    CA_TRUST,
    CONTROLLER_MANAGER_CONF,
    ENCRYPTION,
    PKI,
    SCHEDULER_CONF,
    SCHEDULER_SETTINGS,
)
from kubexm.components.control_plane.leaving import leaving_arguments
from kubexm.components.control_plane.settings import limits_anonymous

__all__ = ["api_server", "controller_manager", "health_ports", "scheduler"]

_PLUGINS: Final = ("NodeRestriction", "DenyServiceExternalIPs")
"""The first keeps each kubelet to its own node and the pods on it; it is the only one kubeadm enables. The second
refuses new external IPs of services: with them whoever may create a service can intercept traffic."""
_LONGEST_LIFE: Final = "8760h"
"""A year: what a service account's token is cut to if somebody asks for more."""
_CIPHERS: Final = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
# Of TLS 1.2: those of 1.3 cannot be chosen.
_TLS: Final = {"tls-cipher-suites": ",".join(_CIPHERS), "tls-min-version": "VersionTLS12"}


def api_server(cluster: Cluster, *, advertise: str = "", etcd: Sequence[str] = ()) -> Arguments:
    """kube-apiserver's; address and client URLs of etcd are needed only where it is not kubeadm that sets them."""
    spec = cluster.spec
    own = {
        "advertise-address": advertise,
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "enable-bootstrap-token-auth": "true",
        "etcd-cafile": f"{PKI}/etcd/ca.crt",
        "etcd-certfile": f"{PKI}/apiserver-etcd-client.crt",
        "etcd-keyfile": f"{PKI}/apiserver-etcd-client.key",
        "etcd-servers": ",".join(etcd),
        "kubelet-client-certificate": f"{PKI}/apiserver-kubelet-client.crt",
        "kubelet-client-key": f"{PKI}/apiserver-kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "proxy-client-cert-file": f"{PKI}/front-proxy-client.crt",
        "proxy-client-key-file": f"{PKI}/front-proxy-client.key",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-client-ca-file": f"{PKI}/front-proxy-ca.crt",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "secure-port": str(spec.control_plane_endpoint.port),
        "service-account-issuer": f"https://kubernetes.default.svc.{spec.kubernetes.dns_domain}",
        "service-account-key-file": f"{PKI}/sa.pub",
        "service-account-signing-key-file": f"{PKI}/sa.key",
        "service-cluster-ip-range": ",".join(map(str, spec.network.service_cidr)),
        "tls-cert-file": f"{PKI}/apiserver.crt",
        "tls-private-key-file": f"{PKI}/apiserver.key",
    }
    added = {
        "admission-control-config-file": str(ADMISSION),
        "enable-admission-plugins": ",".join(_PLUGINS),
        "client-ca-file": str(CA_TRUST),
        "encryption-provider-config": str(ENCRYPTION),
        "encryption-provider-config-automatic-reload": "true",
        "kubelet-certificate-authority": str(CA_TRUST),
        "profiling": "false",
        # Tokens in pods end after the hour that was asked for, not after a year.
        "service-account-extend-token-expiration": "false",
        "service-account-max-token-expiration": _LONGEST_LIFE,
        "service-node-port-range": str(spec.kubernetes.service_node_ports),
        # Without it an API server that is told to stop waits for every watch to end: it is killed after half a minute.
        "shutdown-send-retry-after": "true",
        **leaving_arguments(cluster),
        **_audit(cluster),
        **_anonymous(cluster),
        **_TLS,
        **feature_gates(spec.kubernetes.feature_gates),
    }
    extra = with_gates(_with_plugins(spec.kubernetes.api_server.extra_args), spec.kubernetes.feature_gates)
    found = Arguments(own, added, extra)
    return found.without({"authorization-mode"}) if "authorization-config" in extra else found


def controller_manager(cluster: Cluster) -> Arguments:
    """kube-controller-manager's."""
    spec = cluster.spec
    kubeconfig = str(CONTROLLER_MANAGER_CONF)
    own = {
        "allocate-node-cidrs": "true",
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "cluster-cidr": ",".join(map(str, spec.network.pod_cidr)),
        "cluster-name": spec.kubernetes.cluster_name or cluster.name,
        "cluster-signing-cert-file": f"{PKI}/ca.crt",
        "cluster-signing-key-file": f"{PKI}/ca.key",
        "controllers": "*,bootstrapsigner,tokencleaner",
        "kubeconfig": kubeconfig,
        "leader-elect": "true",
        "requestheader-client-ca-file": f"{PKI}/front-proxy-ca.crt",
        "service-account-private-key-file": f"{PKI}/sa.key",
        "service-cluster-ip-range": ",".join(map(str, spec.network.service_cidr)),
        "use-service-account-credentials": "true",
    }
    added = {
        "client-ca-file": str(CA_TRUST),
        "cluster-signing-duration": f"{int(spec.certs.duration.total_seconds())}s",
        # Each controller fetches a token of its own first: with the 20 requests a second it allows itself, a new leader
        # stands still for five seconds before the last of them has begun.
        "kube-api-burst": "200",
        "kube-api-qps": "100",
        "profiling": "false",
        "root-ca-file": str(CA_ROOT),
        **_node_masks(cluster),
        **_TLS,
        **feature_gates(spec.kubernetes.feature_gates),
    }
    extra = with_gates(spec.kubernetes.controller_manager.extra_args, spec.kubernetes.feature_gates)
    return Arguments(own, added, extra)


def scheduler(cluster: Cluster) -> Arguments:
    """kube-scheduler's. What its configuration file says, arguments cannot."""
    kubernetes, kubeconfig = cluster.spec.kubernetes, str(SCHEDULER_CONF)
    own = {
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
    }
    added = {"config": str(SCHEDULER_SETTINGS), **_TLS, **feature_gates(kubernetes.feature_gates)}
    return Arguments(own, added, with_gates(kubernetes.scheduler.extra_args, kubernetes.feature_gates))


def _with_plugins(extra: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The user's arguments, with kubexm's plugins among those to enable, unless they are among those to disable.

    Of two lists that both name a plugin the API server takes neither, and does not start: so kubexm's gives way.
    """
    wanted, unwanted = (listed(extra.get(f"{verb}-admission-plugins", ())) for verb in ("enable", "disable"))
    ours = [plugin for plugin in _PLUGINS if plugin not in unwanted]
    if not wanted and len(ours) == len(_PLUGINS):
        return {name: values for name, values in extra.items() if name != "enable-admission-plugins"}
    return {**extra, "enable-admission-plugins": (",".join(listed([*ours, *wanted])),)}


def _audit(cluster: Cluster) -> dict[str, str]:
    audit = cluster.spec.kubernetes.audit
    if not audit.enabled:
        return {}
    return {
        "audit-log-maxage": str(audit.max_age),
        "audit-log-maxbackup": str(audit.max_backups),
        "audit-log-maxsize": str(audit.max_size),
        "audit-log-path": audit.log_path,
        "audit-policy-file": str(AUDIT_POLICY),
    }


def _anonymous(cluster: Cluster) -> dict[str, str]:
    if limits_anonymous(cluster):
        return {"authentication-config": str(AUTHENTICATION)}
    none = cluster.spec.kubernetes.api_server.anonymous_access == "none"
    return {"anonymous-auth": "false"} if none else {}


def _node_masks(cluster: Cluster) -> dict[str, str]:
    network = cluster.spec.network
    masks = {4: network.node_mask_v4, 6: network.node_mask_v6}
    families = [cidr.version for cidr in network.pod_cidr]
    if len(families) == 1:
        return {"node-cidr-mask-size": str(masks[families[0]])}
    return {f"node-cidr-mask-size-ipv{family}": str(masks[family]) for family in sorted(families)}


def health_ports(cluster: Cluster) -> dict[str, int]:
    """Where controller manager and scheduler say how they are: the user may have moved them."""
    spec = cluster.spec.kubernetes
    usual = (("kube-controller-manager", spec.controller_manager, 10257), ("kube-scheduler", spec.scheduler, 10259))
    return {name: int(program.extra_args.get("secure-port", (str(port),))[-1]) for name, program, port in usual}
