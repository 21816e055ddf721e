"""What brings a container runtime to a node: programs and settings on all at once, then it is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from kubexm.components import topology
from kubexm.components.assets import image, place
from kubexm.components.containerd import config
from kubexm.components.containerd.registries import registry_files
from kubexm.components.containerd.steps import RegistriesConfigured, RuntimeAnswers
from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.components.milestones import RUNTIME_READY, RUNTIME_STARTED
from kubexm.connector import Host
from kubexm.module import rolling
from kubexm.plan import ExecutionFragment, Milestone
from kubexm.runtime import TaskContext
from kubexm.step import ServiceRunning
from kubexm.task import Batch, FragmentBuilder, Task

__all__ = ["InstallRuntime", "StartRuntime"]

RUNTIME_PLACED = Milestone("RuntimePlaced", per_host=True)
"""What containerd needs to run is in place."""
TOOLS_PLACED = Milestone("RuntimeToolsPlaced", per_host=True)
"""What is used through it or beside it is in place: CNI plugins, crictl, settings of registries."""

_SHARE = 10
"""One in so many nodes has its runtime restarted at a time, once it serves a cluster."""


class InstallRuntime(Task):
    """Puts programs and settings in place. Needs nothing, so that it begins at once."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Side by side on all nodes."""
        nodes, g = topology.nodes(ctx), FragmentBuilder("containerd.install")
        programs = [place(g, ctx, name, on=nodes) for name in ("containerd", "runc")]
        files = FilesPresent(files=_settings(ctx, nodes))
        g.add("settings", files, on=nodes, after_same_host=programs, provides=RUNTIME_PLACED)
        tools = [place(g, ctx, name, on=nodes) for name in ("cni-plugins", "crictl")]
        registries = RegistriesConfigured(files=registry_files(ctx.cluster))
        g.add("registries", registries, on=nodes, after_same_host=tools, provides=TOOLS_PLACED)
        return g.build()


class StartRuntime(Task):
    """Starts containerd; where it serves a cluster already, a few nodes at a time, each proven before the next."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """All new nodes at once; those that joined earlier in turn."""
        nodes = topology.nodes(ctx)
        serving = [host for host in nodes if _serves(ctx, host)]
        fresh = [host for host in nodes if host not in serving]
        size = max(1, len(serving) // _SHARE)
        batches = [serving[start : start + size] for start in range(0, len(serving), size)]
        return _started(fresh) + rolling(batches, lambda batch: _started(batch.hosts, batch))


def _started(hosts: Sequence[Host], batch: Batch | None = None) -> ExecutionFragment:
    g = FragmentBuilder("containerd.start", batch)
    service = ServiceRunning(unit="containerd", inputs=(config.CONFIG, config.PROGRAM))
    start = g.add("service", service, on=hosts, needs=RUNTIME_PLACED, provides=RUNTIME_STARTED)
    g.add("answers", RuntimeAnswers(), on=hosts, after_same_host=[start], needs=TOOLS_PLACED, provides=RUNTIME_READY)
    return g.build()


def _serves(ctx: TaskContext, host: Host) -> bool:
    marker = topology.marker_of(ctx, host)
    return marker is not None and bool({"controlPlane", "worker"} & set(marker.roles))


def _settings(ctx: TaskContext, nodes: Sequence[Host]) -> tuple[HostFile, ...]:
    texts = {host.name: config.config_toml(_runtime_settings(ctx, host)) for host in nodes}
    return (
        *per_host_files(config.CONFIG, texts),
        HostFile(path=config.UNIT, content=config.unit_file()),
        HostFile(path=PurePosixPath(config.CRICTL), content=config.crictl_yaml()),
    )


def _runtime_settings(ctx: TaskContext, host: Host) -> config.RuntimeSettings:
    facts, wanted = ctx.facts(host), ctx.cluster.spec.kubernetes.container_runtime
    return config.RuntimeSettings(
        version=ctx.assets.file("containerd", facts.arch).version,
        sandbox_image=image(ctx, "pause"),
        data_dir=wanted.data_dir,
        restrict_oom_score="CAP_SYS_RESOURCE" not in facts.security.capabilities,
        extra=wanted.config,
    )
