"""Rules about versions, combinations of types, and what is applied on top. Arguments are in `arguments`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kubexm import releases
from kubexm.apis.v1alpha1.base import camel
from kubexm.apis.v1alpha1.cluster import Cluster
from kubexm.apis.v1alpha1.etcd import Etcd
from kubexm.apis.v1alpha1.rules.base import Finding, Path, Rule
from kubexm.apis.v1alpha1.versions import Version

__all__ = ["RULES"]

_KUBERNETES: Path = ("spec", "kubernetes")
_ETCD: Path = ("spec", "etcd")
_VERSION: Path = (*_KUBERNETES, "version")


def _types(cluster: Cluster) -> Iterator[Finding]:
    kubernetes, etcd = cluster.spec.kubernetes, cluster.spec.etcd
    if kubernetes.type == "kubexm" and etcd.type == "kubeadm":
        yield Finding(
            path=(*_ETCD, "type"),
            message="`etcd.type: kubeadm` needs `kubernetes.type: kubeadm`, which runs it in static pods",
            hint="use `etcd.type: kubexm`",
            also=((*_KUBERNETES, "type"),),
        )
    for key, component in (
        ("apiServer", kubernetes.api_server),
        ("controllerManager", kubernetes.controller_manager),
        ("scheduler", kubernetes.scheduler),
    ):
        if kubernetes.type == "kubexm" and component.patch:
            yield Finding(
                path=(*_KUBERNETES, key, "patch"),
                message="there is no static pod to patch with `kubernetes.type: kubexm`",
                hint="use extraArgs, or `kubernetes.type: kubeadm`",
            )


def _external_etcd(cluster: Cluster) -> Iterator[Finding]:
    etcd = cluster.spec.etcd
    external = etcd.external
    written = {
        "endpoints": bool(external.endpoints),
        "caFile": bool(external.ca_file),
        "certFile": bool(external.cert_file),
        "keyFile": bool(external.key_file),
    }
    if etcd.type == "external":
        for key, there in written.items():
            if not there:
                yield Finding(
                    path=(*_ETCD, "external", key),
                    message=f"`etcd.type: external` needs `external.{key}`",
                    hint="write endpoints, caFile, certFile and keyFile under spec.etcd.external",
                    also=((*_ETCD, "external"), (*_ETCD, "type")),
                )
    elif any(written.values()):
        yield Finding(
            path=(*_ETCD, "external"),
            message=f"`external` has no effect with `etcd.type: {etcd.type}`",
            hint="set spec.etcd.type to `external`, or remove this section",
            warning=True,
        )


def _unused_etcd(cluster: Cluster) -> Iterator[Finding]:
    etcd, usual = cluster.spec.etcd, Etcd()
    if etcd.type == "external":
        for name in ("version", "data_dir", "client_port", "peer_port", "metrics_port", "tuning", "extra_args"):
            if getattr(etcd, name) != getattr(usual, name):
                yield Finding(
                    path=(*_ETCD, camel(name)),
                    message=f"`{camel(name)}` has no effect on an external etcd",
                    hint="set it where that etcd is installed, and remove it here",
                    warning=True,
                )
    unused = etcd.backup.model_copy(update={"recipients": ()}) != usual.backup
    if etcd.type != "kubexm" and unused:
        yield Finding(
            path=(*_ETCD, "backup"),
            message=f"this kubexm cannot take snapshots with `etcd.type: {etcd.type}`: only of an etcd it runs under "
            "systemd, `etcd.type: kubexm`",
            hint="set spec.etcd.type to `kubexm`, or remove this section and take them yourself with `etcdctl snapshot "
            "save`",
            also=((*_ETCD, "type"),),
        )


def _skew(cluster: Cluster) -> Iterator[Finding]:
    kubernetes, etcd = cluster.spec.kubernetes, cluster.spec.etcd
    runtime = kubernetes.container_runtime.version
    able = releases.kubernetes(str(kubernetes.version))
    oldest = Version.parse(able.oldest_containerd)
    oldest_etcd = Version.parse(able.oldest_etcd)
    if runtime is not None and runtime < oldest:
        yield Finding(
            path=(*_KUBERNETES, "containerRuntime", "version"),
            message=f"containerd {runtime} is too old for Kubernetes {kubernetes.version}: it needs {oldest} or newer",
            hint="remove this line to use the version that goes with Kubernetes",
        )
    if etcd.version is not None and etcd.type != "external" and not oldest_etcd <= etcd.version < Version(4, 0, 0):
        yield Finding(
            path=(*_ETCD, "version"),
            message=f"etcd {etcd.version} does not go with Kubernetes {kubernetes.version}: "
            f"it needs {oldest_etcd} or newer",
            hint="remove this line to use the version that goes with Kubernetes",
        )


def _proxy(cluster: Cluster) -> Iterator[Finding]:
    kubernetes, path = cluster.spec.kubernetes, (*_KUBERNETES, "kubeProxy", "mode")
    mode, version = kubernetes.kube_proxy.mode, kubernetes.version
    able = releases.kubernetes(str(version))
    if mode not in able.proxy_modes:
        yield Finding(
            path=path,
            message=f"kube-proxy of Kubernetes {version} has no {mode} mode",
            hint=f"use one of {', '.join(able.proxy_modes)}, or a newer version of Kubernetes",
        )
    if mode in able.deprecated_proxy_modes:
        yield Finding(
            path=path,
            message=f"kube-proxy's {mode} mode is deprecated in Kubernetes {version.minor_text}",
            hint="use `mode: nftables`",
            warning=True,
        )


def _durations(cluster: Cluster) -> Iterator[Finding]:
    certs, tuning = cluster.spec.certs, cluster.spec.etcd.tuning
    if certs.duration > certs.ca_duration:
        yield Finding(
            path=("spec", "certs", "duration"),
            message="certificates cannot be valid for longer than the CA that signs them",
            hint="lower duration or raise caDuration",
            also=(("spec", "certs", "caDuration"),),
        )
    if not 5 * tuning.heartbeat_interval <= tuning.election_timeout <= timedelta(seconds=50):
        yield Finding(
            path=(*_ETCD, "tuning", "electionTimeout"),
            message="etcd needs an electionTimeout of at least five heartbeatIntervals, and at most 50s",
            hint="ten heartbeats are a good choice",
            also=((*_ETCD, "tuning", "heartbeatInterval"),),
        )


def _audit(cluster: Cluster) -> Iterator[Finding]:
    policy = cluster.spec.kubernetes.audit.policy
    if policy and not isinstance(policy.get("rules"), list):
        yield Finding(
            path=(*_KUBERNETES, "audit", "policy"),
            message="an audit policy needs a list of `rules`",
            hint="write it like `policy: {rules: [{level: Metadata}]}`",
        )


def _exactly_one(cluster: Cluster) -> Iterator[Finding]:
    sources = cluster.spec.assets.sources
    if not sources:
        yield Finding(
            path=("spec", "assets", "sources"),
            message="there is no source for files and images",
            hint="write a `bundle`, a `mirror` or `upstream: true`, or remove this line",
        )
    for index, source in enumerate(sources):
        given = [key for key in ("bundle", "mirror", "upstream") if getattr(source, key) is not None]
        if len(given) != 1:
            yield Finding(
                path=("spec", "assets", "sources", index),
                message=f"a source is one of bundle, mirror or upstream; this one has {' and '.join(given) or 'none'}",
                hint="write one entry for each source, in the order they are to be tried",
            )


def _addons(cluster: Cluster) -> Iterator[Finding]:
    names: dict[str, int] = {}
    for index, addon in enumerate(cluster.spec.addons):
        if bool(addon.manifests) == (addon.chart is not None):
            yield Finding(
                path=("spec", "addons", index),
                message=f"addon `{addon.name}` needs either manifests or a chart",
                hint="make two addons of it" if addon.chart else "add `manifests: [./file.yaml]` or `chart: {path: …}`",
            )
        first = names.setdefault(addon.name, index)
        if first != index:
            yield Finding(
                path=("spec", "addons", index, "name"),
                message=f"addon `{addon.name}` is already defined at spec.addons[{first}]",
                hint="give every addon a name of its own",
            )


RULES = (
    Rule(_types, needs=((*_KUBERNETES, "type"), (*_ETCD, "type"))),
    Rule(_external_etcd, needs=((*_ETCD, "type"), (*_ETCD, "external"))),
    Rule(_unused_etcd, needs=(_ETCD,)),
    Rule(_skew, needs=(_VERSION, (*_KUBERNETES, "containerRuntime"), (*_ETCD, "version"), (*_ETCD, "type"))),
    Rule(_proxy, needs=(_VERSION, (*_KUBERNETES, "kubeProxy", "mode"))),
    Rule(_durations, needs=(("spec", "certs"), (*_ETCD, "tuning"))),
    Rule(_audit, needs=((*_KUBERNETES, "audit"),)),
    Rule(_exactly_one, needs=(("spec", "assets"),)),
    Rule(_addons, needs=(("spec", "addons"),)),
)
