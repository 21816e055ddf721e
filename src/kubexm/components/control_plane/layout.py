"""Where the control plane's files are on a host: as kubeadm lays them out, in both modes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = [
    "ADMIN_CONF",
    "ADMISSION",
    "AUDIT_POLICY",
    "AUTHENTICATION",
    "CA_ROOT",
    "CA_TRUST",
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
CA_TRUST: Final = PKI / "ca-trust.crt"
"""Whose certificates API servers and kubelets accept. `ca.crt`, beside `ca.key`, is what certificates are signed with,
and always one. All three hold the same certificate until the CA is rotated."""
CA_ROOT: Final = PKI / "ca-root.crt"
"""What pods and kubelets verify API servers with."""
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
