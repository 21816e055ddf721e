"""The container runtime of every node: containerd, runc, the CNI plugins and crictl, and its access to registries.

What it leaves on a host, besides files whose originals are kept: containerd's own data (`containerRuntime.dataDir`),
/run/containerd, and with running pods their shims (`containerd-shim-runc-v2`), mounts and cgroups.
"""

from typing import Final

from kubexm.components.container_runtime import ContainerRuntime
from kubexm.components.containerd import commands
from kubexm.components.containerd.config import CRICTL, PROGRAM, RUNC, SOCKET, UNIT
from kubexm.components.containerd.module import Containerd
from kubexm.runner.facts import PROGRAMS

__all__ = ["CONTAINERD", "Containerd"]

_PROGRAMS: Final = ("containerd", "crictl", "runc")
_SETTINGS: Final = "/etc/containerd"

CONTAINERD: Final = ContainerRuntime(
    name="containerd",
    module=Containerd,
    unit=UNIT.name,
    socket=str(SOCKET),
    usual_data="/var/lib/containerd",
    programs=_PROGRAMS,
    files=(
        _SETTINGS,
        str(CRICTL),
        str(UNIT),
        f"{UNIT}.d",
        *(str(PROGRAM.parent / name) for name in ("containerd", "containerd-shim-runc-v2", "crictl", "ctr")),
        str(RUNC),
        *(str(PROGRAMS / name) for name in _PROGRAMS),
    ),
    directories=(_SETTINGS, "/opt/containerd", str(SOCKET.parent), "/etc/nri", "/opt/nri", "/run/nri"),
    packages=("containerd", "containerd.io"),
    list_images=commands.LIST_IMAGES,
    import_images=commands.import_images,
    remove_images=commands.remove_images,
    run_once=commands.run_once,
    library=commands.library,
)
