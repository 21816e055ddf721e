"""The names of the cluster's secrets: what a certificate, key or kubeconfig is called in the work directory.

`HOST` in a name stands for the host it is for, so that one node can place files on many hosts.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ADMIN",
    "APISERVER",
    "APISERVER_ETCD_CLIENT",
    "APISERVER_KUBELET_CLIENT",
    "CA",
    "CONTROLLER_MANAGER",
    "ENCRYPTION_CONFIG",
    "ETCD_CA",
    "ETCD_HEALTHCHECK_CLIENT",
    "ETCD_PEER",
    "ETCD_SERVER",
    "FRONT_PROXY_CA",
    "FRONT_PROXY_CLIENT",
    "HOST",
    "HOST_ADMIN",
    "KUBELET_SERVING",
    "KUBE_PROXY",
    "SCHEDULER",
    "SERVICE_ACCOUNT",
    "SUPER_ADMIN",
    "certificate",
    "client",
    "key",
    "kubeconfig",
    "of_host",
    "public_key",
]

HOST: Final = "{host}"

# Pairs of a certificate (.crt) and its key (.key).
CA: Final = "pki.ca"
FRONT_PROXY_CA: Final = "pki.front-proxy-ca"
ETCD_CA: Final = "pki.etcd-ca"
SERVICE_ACCOUNT: Final = "pki.sa"
"""A key (.key) and its public half (.pub)."""
APISERVER: Final = f"pki.apiserver.{HOST}"
APISERVER_KUBELET_CLIENT: Final = "pki.apiserver-kubelet-client"
APISERVER_ETCD_CLIENT: Final = "pki.apiserver-etcd-client"
FRONT_PROXY_CLIENT: Final = "pki.front-proxy-client"
ETCD_SERVER: Final = f"pki.etcd-server.{HOST}"
ETCD_PEER: Final = f"pki.etcd-peer.{HOST}"
ETCD_HEALTHCHECK_CLIENT: Final = "pki.etcd-healthcheck-client"
KUBELET_SERVING: Final = f"pki.kubelet-serving.{HOST}"

# Who a kubeconfig is for.
ADMIN: Final = "admin"
"""The user's own: names an address that works from outside."""
HOST_ADMIN: Final = f"admin.{HOST}"
SUPER_ADMIN: Final = f"super-admin.{HOST}"
CONTROLLER_MANAGER: Final = f"controller-manager.{HOST}"
SCHEDULER: Final = f"scheduler.{HOST}"
KUBE_PROXY: Final = "kube-proxy"

ENCRYPTION_CONFIG: Final = "encryption-config"
"""The whole EncryptionConfiguration."""


def certificate(pair: str) -> str:
    """The secret that holds the certificate of a pair."""
    return f"{pair}.crt"


def key(pair: str) -> str:
    """The secret that holds the private key of a pair."""
    return f"{pair}.key"


def public_key(pair: str) -> str:
    """The secret that holds the public half of a key without certificate."""
    return f"{pair}.pub"


def kubeconfig(who: str) -> str:
    """The secret that holds a whole kubeconfig."""
    return f"kubeconfig.{who}"


def client(who: str) -> str:
    """The pair with which the kubeconfig of this name proves who it is."""
    return f"pki.client-{who}"


def of_host(name: str, host: str) -> str:
    """The name with the host put in."""
    return name.replace(HOST, host)
