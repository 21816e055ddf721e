"""The programs a lab bundle is built from: one recipe each, as data. How they are built is not said here."""

from __future__ import annotations

from kubexm.lab.bundle.gobuild import CProgram, GoPrograms, Module, Program

__all__ = [
    "agnhost",
    "cni_plugins",
    "containerd",
    "coredns",
    "crictl",
    "etcd",
    "flannel",
    "flannel_cni_plugin",
    "helm",
    "kubernetes",
    "local_path_provisioner",
    "pause",
    "registry",
    "runc",
]

_KUBERNETES = "k8s.io/kubernetes"
_KUBERNETES_TAGS = ("selinux", "notest", "grpcnotrace")
_PLUGINS = "github.com/containernetworking/plugins"
_CNI = {
    "ipam": ("dhcp", "host-local", "static"),
    "main": ("bridge", "dummy", "host-device", "ipvlan", "loopback", "macvlan", "ptp", "tap", "vlan"),
    "meta": ("bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf"),
}


def kubernetes(version: str) -> GoPrograms:
    """Kubernetes itself: what runs on nodes, what controls them, and what people talk to them with."""
    names = ("kubeadm", "kubectl", "kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    return GoPrograms(
        name=f"kubernetes-{version}",
        modules=(Module(path=_KUBERNETES, version=version),),
        programs=tuple(Program(package=f"{_KUBERNETES}/cmd/{name}", file=name) for name in (*names, "kube-proxy")),
        staging=_staging(version),
        tags=_KUBERNETES_TAGS,
        stamps=_kubernetes_stamps(version),
    )


def agnhost(version: str, number: str) -> GoPrograms:
    """The program Kubernetes' own tests use as server, client and prober, out of this version's module."""
    return GoPrograms(
        name=f"agnhost-{version}",
        modules=(Module(path=_KUBERNETES, version=version),),
        programs=(Program(package=f"{_KUBERNETES}/test/images/agnhost", file="agnhost"),),
        staging=_staging(version),
        stamps=(("main.Version", number),),
        copies=(
            ("test/images/agnhost/VERSION", "VERSION"),
            ("test/images/agnhost/porter/localhost.crt", "localhost.crt"),
            ("test/images/agnhost/porter/localhost.key", "localhost.key"),
        ),
    )


def pause(version: str, number: str) -> CProgram:
    """The container that holds a pod's namespaces, from the C file in the module of this Kubernetes version."""
    return CProgram(
        name=f"pause-{number}-{version}",
        module=Module(path=_KUBERNETES, version=version),
        source="build/pause/linux/pause.c",
        file="pause",
        defines=(("VERSION", f"v{number}"),),
    )


def etcd(version: str) -> GoPrograms:
    """etcd, etcdctl and etcdutl."""
    parts = {"server": "etcd", "etcdctl": "etcdctl", "etcdutl": "etcdutl"}
    return GoPrograms(
        name=f"etcd-{version}",
        modules=tuple(Module(path=f"go.etcd.io/etcd/{part}/v3", version=version) for part in parts),
        programs=tuple(Program(package=f"go.etcd.io/etcd/{part}/v3", file=file) for part, file in parts.items()),
        stamps=(("go.etcd.io/etcd/api/v3/version.GitSHA", "module"),),
    )


def containerd(version: str) -> GoPrograms:
    """containerd, its shim, its client, and the stress tool upstream's archive has."""
    module = "github.com/containerd/containerd/v2"
    names = ("containerd", "containerd-shim-runc-v2", "containerd-stress", "ctr")
    return GoPrograms(
        name=f"containerd-{version}",
        modules=(Module(path=module, version=version),),
        programs=tuple(Program(package=f"{module}/cmd/{name}", file=name) for name in names),
        tags=("urfave_cli_no_docs", "static_build", "no_btrfs", "netgo", "osusergo"),
        stamps=((f"{module}/version.Version", version), (f"{module}/version.Revision", "module")),
    )


def runc(version: str) -> GoPrograms:
    """runc with seccomp, without which no pod starts."""
    module = "github.com/opencontainers/runc"
    return GoPrograms(
        name=f"runc-{version}",
        modules=(Module(path=module, version=version),),
        programs=(Program(package=module, file="runc"),),
        tags=("seccomp", "urfave_cli_no_docs", "netgo", "osusergo"),
        cgo=True,
        libraries=("libseccomp",),
    )


def cni_plugins(version: str) -> GoPrograms:
    """The standard CNI plugins, all of them."""
    packages = [f"{_PLUGINS}/plugins/{kind}/{name}" for kind, names in _CNI.items() for name in names]
    return GoPrograms(
        name=f"cni-plugins-{version}",
        modules=(Module(path=_PLUGINS, version=version),),
        programs=tuple(Program(package=package, file=package.rpartition("/")[2]) for package in packages),
        stamps=((f"{_PLUGINS}/pkg/utils/buildversion.BuildVersion", version),),
    )


def flannel_cni_plugin(version: str) -> GoPrograms:
    """flannel's CNI plugin, from when it was one of the standard ones: its own module does not verify."""
    return GoPrograms(
        name=f"flannel-cni-plugin-{version}",
        modules=(Module(path=_PLUGINS, version=version),),
        programs=(Program(package=f"{_PLUGINS}/plugins/meta/flannel", file="flannel"),),
        stamps=((f"{_PLUGINS}/pkg/utils/buildversion.BuildVersion", version),),
    )


def flannel(version: str) -> GoPrograms:
    """flanneld; one of its backends is C."""
    module = "github.com/flannel-io/flannel"
    return GoPrograms(
        name=f"flannel-{version}",
        modules=(Module(path=module, version=version),),
        programs=(Program(package=module, file="flanneld"),),
        tags=("netgo", "osusergo"),
        stamps=((f"{module}/pkg/version.Version", version),),
        cgo=True,
    )


def coredns(version: str) -> GoPrograms:
    """CoreDNS with its standard plugins."""
    module = "github.com/coredns/coredns"
    return GoPrograms(
        name=f"coredns-{version}",
        modules=(Module(path=module, version=version),),
        programs=(Program(package=module, file="coredns"),),
        stamps=((f"{module}/coremain.GitCommit", "module"),),
    )


def crictl(version: str) -> GoPrograms:
    """The client for container runtimes."""
    module = "github.com/kubernetes-sigs/cri-tools"
    return GoPrograms(
        name=f"crictl-{version}",
        modules=(Module(path=module, version=version, served_as="sigs.k8s.io/cri-tools"),),
        staging=_staging(version),
        programs=(Program(package=f"{module}/cmd/crictl", file="crictl"),),
        stamps=((f"{module}/pkg/version.Version", version),),
    )


def local_path_provisioner(version: str) -> GoPrograms:
    """A storage class on the nodes' own disks."""
    module = "github.com/rancher/local-path-provisioner"
    return GoPrograms(
        name=f"local-path-provisioner-{version}",
        modules=(Module(path=module, version=version),),
        programs=(Program(package=module, file="local-path-provisioner"),),
        stamps=(("main.VERSION", version),),
    )


def helm(version: str) -> GoPrograms:
    """The helm client."""
    module = "helm.sh/helm/v3"
    return GoPrograms(
        name=f"helm-{version}",
        modules=(Module(path=module, version=version),),
        programs=(Program(package=f"{module}/cmd/helm", file="helm"),),
        stamps=((f"{module}/internal/version.version", version),),
    )


def registry(version: str) -> GoPrograms:
    """The distribution registry."""
    module = "github.com/distribution/distribution/v3"
    return GoPrograms(
        name=f"registry-{version}",
        modules=(Module(path=module, version=version),),
        programs=(Program(package=f"{module}/cmd/registry", file="registry"),),
        stamps=((f"{module}/version.version", version),),
    )


def _staging(version: str) -> str:
    return "v0." + version.removeprefix("v1.")


def _kubernetes_stamps(version: str) -> tuple[tuple[str, str], ...]:
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "module",
        "gitTreeState": "clean",
        "buildDate": "{date}",
    }
    places = ("k8s.io/client-go/pkg/version", "k8s.io/component-base/version")
    return tuple((f"{place}.{name}", value) for place in places for name, value in values.items())
