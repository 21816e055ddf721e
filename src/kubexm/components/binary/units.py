"""The units of a control plane: which program is started how, and from which files. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from kubexm.components.assets import stamp_of
from kubexm.components.control_plane import (
    api_server,
    controller_manager,
    read_at_start,
    scheduler,
    settings_files,
    stop_timeout,
)
from kubexm.components.host_files import HostFile, per_host_files
from kubexm.components.topology import etcd_urls, internal_address
from kubexm.components.units import service_unit, unit_path
from kubexm.connector import Host
from kubexm.runtime import TaskContext

__all__ = ["API_SERVER", "CONTROLLER_MANAGER", "PROGRAMS", "SCHEDULER", "control_plane_settings", "inputs"]

API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
PROGRAMS: Final = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER)

_BIN: Final = PurePosixPath("/usr/local/bin")
# As static pods of kubeadm are protected when memory runs out, and no more rights than the programs use.
_SETTINGS: Final = ("OOMScoreAdjust=-997", "NoNewPrivileges=yes", "ProtectSystem=full")


def control_plane_settings(ctx: TaskContext, hosts: tuple[Host, ...]) -> tuple[HostFile, ...]:
    """Every settings file and unit of these control planes, apart from what the PKI makes."""
    settings = [HostFile(path=file.path, content=file.content, mode=file.mode) for file in settings_files(ctx.cluster)]
    cluster = ctx.cluster
    simple = {
        CONTROLLER_MANAGER: ("Kubernetes controller manager", controller_manager(cluster).words()),
        SCHEDULER: ("Kubernetes scheduler", scheduler(cluster).words()),
    }
    units = [
        HostFile(
            path=unit_path(name),
            content=service_unit(
                what, (f"{_BIN}/{name}", *words), after=(f"{API_SERVER}.service",), settings=_SETTINGS
            ),
        )
        for name, (what, words) in simple.items()
    ]
    servers = {host.name: _api_server_unit(ctx, host) for host in hosts}
    return (*settings, *per_host_files(unit_path(API_SERVER), servers), *units)


def inputs(ctx: TaskContext, program: str) -> tuple[PurePosixPath, ...]:
    """What the program is started from: itself, and the files it reads only then."""
    return (*read_at_start(ctx.cluster, program), stamp_of(program))


def _api_server_unit(ctx: TaskContext, host: Host) -> str:
    arguments = api_server(ctx.cluster, advertise=internal_address(ctx, host), etcd=etcd_urls(ctx))
    after = ("etcd.service",) if ctx.cluster.spec.etcd.type == "kubexm" and "etcd" in host.roles else ()
    return service_unit(
        "Kubernetes API server",
        (f"{_BIN}/{API_SERVER}", *arguments.words()),
        after=after,
        notifies=True,
        settings=("TimeoutStartSec=180s", f"TimeoutStopSec={stop_timeout(ctx.cluster)}s", *_SETTINGS),
    )
