"""Kubernetes itself: version, control plane, kubelet and kube-proxy. Must not know how any of it is installed."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

from kubexm.apis.v1alpha1.arguments import Args, FeatureGates
from kubexm.apis.v1alpha1.base import EMPTY, Model, fixed, invalid, live, section, shown, upgrade
from kubexm.apis.v1alpha1.networks import is_domain, parse_ip
from kubexm.apis.v1alpha1.scalars import Count, Flag, FreeMapping, PortRange, Size
from kubexm.apis.v1alpha1.texts import AbsolutePath, DataDir, Domain, Name
from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES, NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion, Version

__all__ = [
    "ApiServer",
    "Audit",
    "ContainerRuntime",
    "ControllerManager",
    "KubeProxy",
    "Kubelet",
    "Kubernetes",
    "PodSecurity",
    "Scheduler",
    "SecretsEncryption",
]


def _san(value: str) -> str:
    if parse_ip(value) is None and not is_domain(value.removeprefix("*.")):
        raise invalid(f"{shown(value)} cannot stand in a certificate", "an IP address or a DNS name")
    return value


def _resource(value: str) -> str:
    if re.fullmatch(r"[a-z*]+(\.[a-z0-9.*-]+)?", value) is None:
        raise invalid(f"{shown(value)} is not a kind of resource", "write it like `secrets` or `widgets.example.com`")
    return value


class ContainerRuntime(Model):
    """The container runtime of every node."""

    type: Annotated[Literal["containerd"], fixed("Which container runtime. Only containerd exists.")] = "containerd"
    version: Annotated[
        Version | None, upgrade("Version of it. Unset: the one that goes with the version of Kubernetes.")
    ] = None
    data_dir: Annotated[DataDir, fixed("Where images and containers are kept.")] = "/var/lib/containerd"
    config: Annotated[FreeMapping, live("Settings merged into its config.toml, by the same names.")] = EMPTY


class StaticComponent(Model):
    """A part of the control plane."""

    extra_args: Annotated[
        Args,
        live("Arguments by name, without dashes. They win over those kubexm sets. A list repeats the argument."),
    ] = EMPTY
    patch: Annotated[
        FreeMapping,
        live(
            "Merged into its static pod, as a strategic merge patch. Only with `type: kubeadm`, where there is a pod."
        ),
    ] = EMPTY


class ApiServer(StaticComponent):
    """kube-apiserver."""

    cert_sans: Annotated[
        tuple[Annotated[str, AfterValidator(_san)], ...],
        live("Names and addresses its certificate is valid for, besides those of the cluster itself."),
    ] = ()
    anonymous_access: Annotated[
        Literal["health", "none", "all"],
        live(
            "What a caller with no identity may reach. `health`: only /livez, /readyz and /healthz (from Kubernetes "
            "1.32; before that as `all`). `all`: what Kubernetes allows by default."
        ),
    ] = "health"


class ControllerManager(StaticComponent):
    """kube-controller-manager."""


class Scheduler(StaticComponent):
    """kube-scheduler."""

    config: Annotated[FreeMapping, live("Settings merged into its KubeSchedulerConfiguration.")] = EMPTY


class Kubelet(Model):
    """The kubelet of every node."""

    extra_args: Annotated[Args, live("Arguments by name, without dashes.")] = EMPTY
    config: Annotated[FreeMapping, live("Merged into its KubeletConfiguration, such as `maxPods: 200`.")] = EMPTY


class KubeProxy(Model):
    """kube-proxy, which makes services reachable."""

    mode: Annotated[
        Literal["iptables", "nftables", "ipvs"],
        fixed("How it programs the kernel. nftables needs Kubernetes 1.31 or newer."),
    ] = "iptables"
    extra_args: Annotated[
        Args,
        live("Arguments about its log (`v`, `vmodule`, …), without dashes; it takes no others beside config."),
    ] = EMPTY
    config: Annotated[FreeMapping, live("Settings merged into its KubeProxyConfiguration.")] = EMPTY


class Audit(Model):
    """The audit log of the API server."""

    enabled: Annotated[Flag, live("Whether requests are logged.")] = True
    policy: Annotated[
        FreeMapping,
        live(
            "Audit policy (`rules`, `omitStages`, …). Empty: metadata of writes, of reads of secrets, of exec, logs "
            "and the like; no bodies, no health checks."
        ),
    ] = EMPTY
    log_path: Annotated[AbsolutePath, live("File on the control planes.")] = "/var/log/kubernetes/audit/audit.log"
    max_age: Annotated[Count, live("Days a log file is kept.")] = 30
    max_backups: Annotated[Count, live("How many log files are kept.")] = 10
    max_size: Annotated[Size, live("Megabytes after which a new log file is begun.")] = 100


class SecretsEncryption(Model):
    """Encryption of secrets at rest in etcd, with a key that kubexm makes."""

    enabled: Annotated[Flag, live("Whether what is written from now on is encrypted; both forms stay readable.")] = True
    provider: Annotated[Literal["secretbox", "aesgcm", "aescbc"], fixed("How it is encrypted.")] = "secretbox"
    resources: Annotated[
        tuple[Annotated[str, AfterValidator(_resource)], ...], live("Kinds of resources that are encrypted.")
    ] = ("secrets",)


PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


class PodSecurity(Model):
    """Pod Security Admission for namespaces that say nothing themselves."""

    enforce: Annotated[PodSecurityLevel, live("Level below which pods are refused.")] = "privileged"
    warn: Annotated[PodSecurityLevel, live("Level below which the user is warned.")] = "baseline"
    audit: Annotated[PodSecurityLevel, live("Level below which the audit log says so.")] = "baseline"
    exempt_namespaces: Annotated[tuple[Name, ...], live("Namespaces this does not apply to.")] = ("kube-system",)


class Kubernetes(Model):
    """Kubernetes itself."""

    type: Annotated[
        Literal["kubeadm", "kubexm"],
        fixed("`kubeadm`: the control plane runs in static pods. `kubexm`: binaries under systemd."),
    ] = "kubeadm"
    version: Annotated[
        KubernetesVersion,
        upgrade(
            f"Version of Kubernetes, 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}, with all three numbers: "
            f"`{DEFAULT_KUBERNETES}`.",
        ),
    ] = DEFAULT_KUBERNETES
    cluster_name: Annotated[
        Name | None, fixed("Name of the cluster in kubeconfigs and for cloud providers. Unset: metadata.name.")
    ] = None
    dns_domain: Annotated[Domain, fixed("Domain of services inside the cluster.")] = "cluster.local"
    service_node_ports: Annotated[PortRange, live("Ports for services of type NodePort.")] = PortRange(30000, 32767)
    container_runtime: Annotated[ContainerRuntime, section("The container runtime of every node.")] = ContainerRuntime()
    api_server: Annotated[ApiServer, section("kube-apiserver.")] = ApiServer()
    controller_manager: Annotated[ControllerManager, section("kube-controller-manager.")] = ControllerManager()
    scheduler: Annotated[Scheduler, section("kube-scheduler.")] = Scheduler()
    kubelet: Annotated[Kubelet, section("The kubelet of every node.")] = Kubelet()
    kube_proxy: Annotated[KubeProxy, section("kube-proxy.")] = KubeProxy()
    feature_gates: Annotated[FeatureGates, live("Feature gates, set on every component of Kubernetes.")] = EMPTY
    audit: Annotated[Audit, section("The audit log of the API server.")] = Audit()
    secrets_encryption: Annotated[SecretsEncryption, section("Encryption of secrets at rest.")] = SecretsEncryption()
    pod_security: Annotated[PodSecurity, section("Pod Security Admission.")] = PodSecurity()
