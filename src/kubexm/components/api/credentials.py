"""Who kubexm is to the API: what a kubeconfig of a control plane says, in memory only."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from kubexm.components.api.kubectl import ADMIN_CONF
from kubexm.connector import Command, Connector, shell
from kubexm.errors import ApiError, ApiUnavailable
from kubexm.redact import Secret

__all__ = ["NO_CREDENTIALS", "Credentials", "credentials_of", "read_credentials"]

_MISSING: Final = 44
NO_CREDENTIALS: Final = "NoCredentials"
"""The reason of an error: the host has no kubeconfig yet, and waiting for one is of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a kubeconfig says."""

    url: str
    """Of the API server, as seen from the host that has the kubeconfig."""
    server_name: str = ""
    """The name its certificate must have, if that is not the one in the URL."""
    authority_pem: str = ""
    certificate_pem: str = ""
    key_pem: Secret | None = None
    token: Secret | None = None

    @property
    def authority(self) -> str:
        """For the Host header."""
        return urlsplit(self.url).netloc

    def ssl_context(self) -> ssl.SSLContext:
        """Trusts the cluster's CA and nothing else, and proves to be the administrator."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.authority_pem:
            context.load_verify_locations(cadata=self.authority_pem)
        if self.certificate_pem and self.key_pem is not None:
            _load(context, f"{self.certificate_pem}\n{self.key_pem.reveal()}".encode())
        return context


async def read_credentials(connector: Connector, path: str = ADMIN_CONF) -> Credentials:
    """Those of a kubeconfig on the host; ApiUnavailable if it is not there yet."""
    script = f"[ -r {shell(path)} ] || exit {_MISSING}; {shell('cat', '--', path)}"
    result = await connector.execute(Command(script=script, display=f"read {path}"))
    if result.exit_code == _MISSING:
        raise ApiUnavailable(
            f"{path} is not there yet",
            host=connector.host,
            reason=NO_CREDENTIALS,
            hint="run `create`: it places this file",
        )
    return credentials_of(result.check().text, connector.host, path)


def credentials_of(text: str, host: str, path: str = ADMIN_CONF) -> Credentials:
    """What the current context of a kubeconfig says; ApiError if that is nothing a client can use."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        data = YAML(typ="safe", pure=True).load(text)
        context = _named(data, "contexts", data["current-context"])["context"]
        cluster = _named(data, "clusters", context["cluster"])["cluster"]
        user = _named(data, "users", context["user"])["user"]
        authority = _decoded(cluster, "certificate-authority-data")
        certificate, key = _decoded(user, "client-certificate-data"), _decoded(user, "client-key-data")
        token = user.get("token") or ""
        if not token and not (certificate and key):
            user["client-certificate-data"]
    except (YAMLError, KeyError, TypeError, StopIteration, ValueError, binascii.Error) as error:
        # Not the text of the error: a parser quotes the lines it stumbled over, and these are secret.
        what = error.args[0] if isinstance(error, KeyError) else type(error).__name__
        raise ApiError(
            f"{path} is no kubeconfig with data of its own ({what})",
            host=host,
            hint="run `create` again: it writes this file anew",
        ) from None
    return Credentials(
        url=cluster["server"].rstrip("/"),
        server_name=cluster.get("tls-server-name") or "",
        authority_pem=authority,
        certificate_pem=certificate,
        key_pem=Secret(key) if key else None,
        token=Secret(token) if token else None,
    )


def _named(data: Any, what: str, name: str) -> Any:
    return next(item for item in data[what] if item["name"] == name)


def _decoded(part: Any, key: str) -> str:
    return base64.b64decode(part.get(key) or "").decode()


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Certificate and key; OpenSSL takes them from files only, so from one that is in memory where the system can."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kubexm-client", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        return
    with tempfile.NamedTemporaryFile(prefix="kubexm-") as file:  # 0600, and gone right after
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
