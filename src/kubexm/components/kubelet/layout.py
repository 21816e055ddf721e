"""Where the kubelet's files are on a host, in both modes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = [
    "BINARY",
    "BOOTSTRAP_CONF",
    "CLIENT_CERTIFICATE",
    "CONFIG",
    "DROP_INS",
    "HOME",
    "KUBELET_CONF",
    "MANIFESTS",
    "NODE_ENV",
    "REGISTRATION",
    "SERVING_CERTIFICATE",
    "SERVING_KEY",
    "UNIT",
    "UNIT_FILE",
]

_KUBERNETES: Final = PurePosixPath("/etc/kubernetes")

UNIT: Final = "kubelet"
UNIT_FILE: Final = PurePosixPath("/etc/systemd/system/kubelet.service")
BINARY: Final = PurePosixPath("/usr/local/bin/kubelet")
HOME: Final = PurePosixPath("/var/lib/kubelet")

CONFIG: Final = _KUBERNETES / "kubelet.yaml"
DROP_INS: Final = _KUBERNETES / "kubelet.d"
REGISTRATION: Final = DROP_INS / "10-registration.conf"
"""What counts only when a node registers for the first time, so that changing it restarts nothing."""
NODE_ENV: Final = _KUBERNETES / "kubelet.env"
"""What differs from host to host: the node's name and addresses."""
KUBELET_CONF: Final = _KUBERNETES / "kubelet.conf"
BOOTSTRAP_CONF: Final = _KUBERNETES / "bootstrap-kubelet.conf"
"""Holds a token for as long as the node joins; removed as soon as it has."""
MANIFESTS: Final = _KUBERNETES / "manifests"

CLIENT_CERTIFICATE: Final = HOME / "pki" / "kubelet-client-current.pem"
"""A link: the kubelet puts each new certificate, with its key, beside it."""
SERVING_CERTIFICATE: Final = HOME / "pki" / "kubelet-serving.crt"
SERVING_KEY: Final = HOME / "pki" / "kubelet-serving.key"
