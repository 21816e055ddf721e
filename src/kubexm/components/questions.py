"""How a program of the control plane is asked, on its own host, whether it is well: shell text, and nothing else.

A light question is asked again and again while something comes up: curl takes a tenth of what it takes to start
kubectl. It may only say yes; what it does not say yes to is asked in full, as the one identity that always may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.topology import LOCALHOST, server_url
from kubexm.connector.base import shell
from kubexm.runner import Facts

__all__ = ["Question", "listened"]

_SUPER_ADMIN: Final = "/etc/kubernetes/super-admin.conf"
_PKI: Final = "/etc/kubernetes/pki"
_CLIENT: Final = f"{_PKI}/apiserver-kubelet-client"
_SECONDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whether a program that listens on a port says that it is well."""

    port: int
    path: str
    api: bool = False
    """It is the API server."""
    tls: bool = True

    def light(self, facts: Facts) -> tuple[str, ...]:
        """Words of the command that asks at least cost: true only if it is well. None where the host has no such."""
        if not facts.has_command("curl"):
            return ()
        who: tuple[str, ...] = ()
        if self.api:
            # Whoever has a certificate of the cluster may ask, from the moment the first rights are in place; until
            # then the API server is not ready either.
            who = ("--cacert", f"{_PKI}/ca.crt", "--cert", f"{_CLIENT}.crt", "--key", f"{_CLIENT}.key")
        elif self.tls:
            who = ("--insecure",)
        quiet = ("-q", "--silent", "--show-error", "--fail", "--output", "/dev/null", "--noproxy", "*")
        return ("curl", *quiet, "--max-time", str(_SECONDS), *who, f"{self._server}{self.path}")

    def full(self) -> tuple[str, ...]:
        """Words of the command that says why it is not well."""
        if self.api:
            who: tuple[str, ...] = ("--kubeconfig", _SUPER_ADMIN)
        else:
            # Its certificate is one it made for itself when it started. Ours tells it nothing secret, and without
            # one kubectl would ask for a password.
            skip = ("--insecure-skip-tls-verify",) if self.tls else ()
            ours = ("--client-certificate", f"{_CLIENT}.crt", "--client-key", f"{_CLIENT}.key")
            who = ("--kubeconfig", "/dev/null", "--server", self._server, *skip, *ours)
        return ("kubectl", *who, "--request-timeout", f"{_SECONDS}s", "get", "--raw", self.path)

    @property
    def _server(self) -> str:
        return server_url(LOCALHOST, self.port) if self.tls else f"http://{LOCALHOST}:{self.port}"


def listened(port: int) -> str:
    """Shell text that is true if somebody listens on a TCP port, whatever the address."""
    # State 0A is LISTEN. The file of IPv6 is missing where that is off.
    return shell("grep", "-qs", f":{port:04X} [0-9A-F]*:0000 0A ", "/proc/net/tcp", "/proc/net/tcp6")
