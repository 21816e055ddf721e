"""containerd's settings as text: config.toml by its major version, its unit, and crictl's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from kubexm import releases
from kubexm.components.containerd.toml import merged, to_toml

__all__ = [
    "CERTS",
    "CONFIG",
    "CRICTL",
    "PROGRAM",
    "RUNC",
    "SOCKET",
    "UNIT",
    "RuntimeSettings",
    "config_toml",
    "crictl_yaml",
    "unit_file",
]

CONFIG: Final = PurePosixPath("/etc/containerd/config.toml")
CERTS: Final = PurePosixPath("/etc/containerd/certs.d")
CRICTL: Final = PurePosixPath("/etc/crictl.yaml")
UNIT: Final = PurePosixPath("/etc/systemd/system/containerd.service")
PROGRAM: Final = PurePosixPath("/usr/local/bin/containerd")
RUNC: Final = PurePosixPath("/usr/local/sbin/runc")
SOCKET: Final = PurePosixPath("/run/containerd/containerd.sock")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """All that config.toml is made from."""

    version: str
    """Of containerd: v1.7.34, v2.1.9."""
    sandbox_image: str
    data_dir: str
    restrict_oom_score: bool
    """The kernel does not let root lower a process's OOM score: containerd must not try."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """The user's own settings, which win."""


def config_toml(settings: RuntimeSettings) -> str:
    """config.toml, in the version that this containerd reads."""
    forms = {2: _version_2, 3: _version_3}
    made = forms[releases.containerd(settings.version).config_version](settings)
    return (
        "# Made by kubexm: edits here are undone, spec.kubernetes.containerRuntime.config is the place for them.\n"
        + (to_toml(merged(made, settings.extra)))
    )


def unit_file() -> str:
    """The systemd unit. Containers outlive it: only the daemon itself is stopped with it."""
    return f"""\
[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target local-fs.target dbus.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStartPre=-/sbin/modprobe overlay
ExecStart={PROGRAM} --config {CONFIG}
Delegate=yes
KillMode=process
Restart=always
RestartSec=2s
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""


def crictl_yaml() -> str:
    """Where crictl finds the runtime."""
    return f"runtime-endpoint: unix://{SOCKET}\nimage-endpoint: unix://{SOCKET}\ntimeout: 10\n"


def _common(settings: RuntimeSettings, version: int) -> dict[str, Any]:
    return {
        "version": version,
        "root": settings.data_dir,
        "state": "/run/containerd",
        "plugins": {
            # Its default, /opt/containerd, would be one more directory to clean up.
            "io.containerd.internal.v1.opt": {"path": f"{settings.data_dir}/opt"},
        },
    }


def _runc() -> dict[str, Any]:
    return {
        "default_runtime_name": "runc",
        "runtimes": {
            "runc": {
                "runtime_type": "io.containerd.runc.v2",
                "options": {"BinaryName": str(RUNC), "SystemdCgroup": True},
            }
        },
    }


def _version_2(settings: RuntimeSettings) -> dict[str, Any]:
    cri = {
        "sandbox_image": settings.sandbox_image,
        "restrict_oom_score_adj": settings.restrict_oom_score,
        "containerd": {"snapshotter": "overlayfs", **_runc()},
        "registry": {"config_path": str(CERTS)},
    }
    return merged(_common(settings, 2), {"plugins": {"io.containerd.grpc.v1.cri": cri}})


def _version_3(settings: RuntimeSettings) -> dict[str, Any]:
    images = {
        "snapshotter": "overlayfs",
        "pinned_images": {"sandbox": settings.sandbox_image},
        "registry": {"config_path": str(CERTS)},
    }
    runtime = {
        "restrict_oom_score_adj": settings.restrict_oom_score,
        "containerd": _runc(),
    }
    plugins = {"io.containerd.cri.v1.images": images, "io.containerd.cri.v1.runtime": runtime}
    return merged(_common(settings, 3), {"plugins": plugins})
