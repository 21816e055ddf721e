"""Checks of what is on a host already: another cluster, what is left of an older one, somebody else's runtime.

A host knows its cluster by the mark kubexm put there. What belongs to this cluster is ours and no finding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components.networks import PLUGINS
from kubexm.components.preflight.check import Finding, HostCheck, Share, few, share_of
from kubexm.components.runtimes import RUNTIMES
from kubexm.connector.base import shell
from kubexm.runtime import StepContext
from kubexm.step import Resources, resources

__all__ = ["NoForeignRuntime", "NoLeftovers", "NoOtherCluster"]

_PATHS = ("/etc/kubernetes", "/var/lib/etcd", "/var/lib/kubelet", "/etc/cni/net.d", "/etc/rancher", "/var/lib/rancher",
          "/var/lib/k0s", "/var/snap/microk8s")  # fmt: skip
_UNITS = ("kubelet", "etcd", "kube-apiserver", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller",
          "k0sworker", "snap.microk8s.daemon-kubelite")  # fmt: skip
_FOREIGN = ("kube-ipvs0", "cali", "vxlan.calico", "cilium_", "weave", "kube-bridge", "nodelocaldns", "antrea-gw")
_INTERFACES = (*_FOREIGN, *(name for plugin in PLUGINS for name in plugin.interfaces))
_RUNTIMES = {
    **{runtime.name: (runtime.unit, runtime.socket) for runtime in RUNTIMES},
    "Docker": ("docker.service", "/run/docker.sock"),
    "CRI-O": ("crio.service", "/run/crio/crio.sock"),
    "cri-dockerd": ("cri-docker.service", "/run/cri-dockerd.sock"),
    "k3s": ("k3s.service", "/run/k3s/containerd/containerd.sock"),
}
_REMOVE = "if nothing there is needed any more: `kubeadm reset` where it was used, then remove these paths"
_OURS = " ".join(name for runtime in RUNTIMES for name in runtime.packages)
_PACKAGES = f"{_OURS} docker.io docker-ce cri-o cri-dockerd"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOtherCluster(HostCheck):
    """The host belongs to no cluster, or to this one."""

    cluster: str
    uid: str = ""
    """Of this cluster, where it is known; else the mark on its etcd and control-plane hosts says."""
    keepers: tuple[str, ...]
    """Hosts of etcd and the control plane, which say what this cluster is."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares the mark on the host with that of the cluster."""
        marker = ctx.facts.marker
        if marker is None:
            return
        if marker.uid == "unreadable":
            yield Finding(
                "its mark /var/lib/kubexm/cluster.json cannot be read, so nobody knows which cluster it is in",
                "put it back from another host of that cluster, or remove it if there is none any more",
            )
            return
        uid = self.uid or self._uid(ctx)
        if marker.name != self.cluster:
            yield self._foreign(f"it belongs to the cluster {marker.name}")
        elif not uid:
            yield self._foreign(
                f"it belongs to a cluster {marker.name} of which no etcd or control-plane host in the file is part"
            )
        elif marker.uid != uid:
            yield self._foreign(f"it belongs to another cluster of the name {marker.name} ({marker.uid}, not {uid})")

    def _uid(self, ctx: StepContext) -> str:
        for name in self.keepers:
            marker = ctx.facts_of(name).marker
            if marker is not None and marker.name == self.cluster and marker.uid != "unreadable":
                return marker.uid
        return ""

    def _foreign(self, problem: str) -> Finding:
        return Finding(
            problem,
            "take it out of this file, or delete it from that cluster first (`kubexm delete cluster` with its file); "
            "if that cluster is gone, remove /var/lib/kubexm on the host",
        )

    def describe(self) -> str:
        """The state."""
        return f"host free, or part of {self.cluster}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLeftovers(HostCheck):
    """Nothing is left of an older Kubernetes: files, units, interfaces."""

    directories: tuple[Share, ...] = ()
    """Data directories that are not in their usual places, so that facts say nothing of them."""

    async def find(self, ctx: StepContext) -> list[Finding]:
        """What facts say, and where the file names directories of its own, a look into those in one read."""
        found = list(self.look(ctx))
        if any(finding.remains for finding in found) and await self._ours(ctx):
            found = [finding for finding in found if not finding.remains]
        unusual = share_of(self.directories, ctx.host.name) if ctx.facts.marker is None else ()
        if unusual and not await self._ours(ctx):
            tests = [
                f'if [ -n "$(ls -A -- {path} 2>/dev/null)" ]; then echo {path}; fi' for path in map(shell, unusual)
            ]
            result = await ctx.host.command.read("\n".join([*tests, ":"]), display="look into data directories")
            full = [path for path in result.text.splitlines() if not path.endswith("/lost+found")]
            if full:
                found.append(Finding(f"not empty: {few(full)}", _REMOVE))
        return found

    async def _ours(self, ctx: StepContext) -> bool:
        """True if kubexm itself was stopped here before it came to mark the host: it kept how things were then."""
        return await ctx.host.files.exists(ctx.host.runner.state / "originals")

    def reads(self) -> Resources:
        """The data directories, where facts say nothing of them, and what kubexm keeps."""
        return resources(
            "file:/var/lib/kubexm/originals*", *(f"file:{path}*" for share in self.directories for path in share.items)
        )

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks for them, unless the host is marked: then they belong to a cluster, and another check sees to it."""
        facts = ctx.facts
        if facts.marker is not None:
            return
        units = [unit for name in _UNITS if (unit := facts.unit(name)) is not None and unit.enabled != "masked"]
        units = [unit for unit in units if unit.name not in facts.presence.stamps]
        live = [unit.name for unit in units if unit.active == "active" or unit.enabled == "enabled"]
        if live:
            yield Finding(
                f"another Kubernetes or etcd is set up here: {few(live)}",
                "stop and remove it with the tool that installed it (kubeadm reset, k3s-uninstall.sh, …)",
            )
        paths = [path for path in facts.presence.paths if path in _PATHS]
        if paths:
            yield Finding(
                f"left of an older cluster: {few(paths)}",
                _REMOVE,
                remains=True,
            )
        interfaces = [item.name for item in facts.network.interfaces if item.name.startswith(_INTERFACES)]
        if interfaces:
            yield Finding(
                f"network interfaces of an older cluster: {few(interfaces)}",
                "reboot the host, or remove each with `ip link delete NAME`",
                remains=True,
            )
        idle = [unit.name for unit in units if unit.name not in live]
        if idle:
            yield Finding(
                f"{few(idle)} installed, but not in use",
                "create puts its own in place; remove the packages to keep them from coming back with an update",
                warning=True,
            )

    def describe(self) -> str:
        """The state."""
        return "nothing left of an older cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoForeignRuntime(HostCheck):
    """No container runtime is there, or only kubexm's own."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks for units and sockets of runtimes that kubexm did not start."""
        facts = ctx.facts
        if facts.marker is not None:
            return
        found = []
        for name, (unit_name, socket) in _RUNTIMES.items():
            unit = facts.unit(unit_name)
            if unit_name in facts.presence.stamps or (unit is not None and unit.enabled == "masked"):
                continue
            if unit is not None or socket in facts.presence.sockets:
                found.append(name)
        if found:
            yield Finding(
                f"a container runtime is there that is not kubexm's: {few(found)}",
                f"two runtimes on one node get in each other's way: remove it with its packages (one of {_PACKAGES})",
            )

    def describe(self) -> str:
        """The state."""
        return "no other container runtime"
