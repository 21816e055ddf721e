"""Where the control plane's files are on a host: as kubeadm lays them out, in both modes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = [
    "ADMIN_CONF",
    "ADMISSION",
    "AUDIT_POLICY",
    "AUTHENTICATION",
    "CONTROLLER_MANAGER_CONF",
    "ENCRYPTION",
    "KUBERNETES",
    "PKI",
    "SCHEDULER_CONF",
    "SCHEDULER_SETTINGS",
    "SETTINGS",
    "SUPER_ADMIN_CONF",
]

KUBERNETES: Final = PurePosixPath("/etc/kubernetes")
PKI: Final = KUBERNETES / "pki"
ADMIN_CONF: Final = KUBERNETES / "admin.conf"
SUPER_ADMIN_CONF: Final = KUBERNETES / "super-admin.conf"
CONTROLLER_MANAGER_CONF: Final = KUBERNETES / "controller-manager.conf"
SCHEDULER_CONF: Final = KUBERNETES / "scheduler.conf"

SETTINGS: Final = KUBERNETES / "config"
"""One directory for all files that arguments name, so that a static pod needs one mount."""
AUDIT_POLICY: Final = SETTINGS / "audit-policy.yaml"
ADMISSION: Final = SETTINGS / "admission.yaml"
AUTHENTICATION: Final = SETTINGS / "authentication.yaml"
ENCRYPTION: Final = SETTINGS / "encryption.yaml"
"""The secret `encryption-config`, mode 0600."""
SCHEDULER_SETTINGS: Final = SETTINGS / "scheduler.yaml"
