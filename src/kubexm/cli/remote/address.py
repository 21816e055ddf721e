"""Where the server is, how one knows that it is the right one, and with which token one comes.

A token is read from the environment or a file; one that stands on the command line is seen by everybody on the machine.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import socket
import ssl
import stat
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from kubexm.cli.settings import Settings
from kubexm.errors import KubexmError, UsageError
from kubexm.redact import Secret

__all__ = ["TRY_FOR", "ServerAddress", "address_of"]

TRY_FOR = 30.0
"""Seconds for which a server that does not answer is asked again; docs/service.md says so."""
_TIMEOUT = 10.0
_PAUSE = 0.5
_logger = logging.getLogger("kubexm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """One server, as this command line talks to it."""

    url: str
    """Without a slash at the end."""
    token: Secret
    trust: ssl.SSLContext | None
    """None for a server on this machine without TLS."""
    words: tuple[str, ...] = ()
    """The options that name it on a command line; empty if the environment does."""


def address_of(settings: Settings) -> ServerAddress:
    """The server that was named; UsageError if it cannot be asked safely."""
    url = settings.server.rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.username:
        raise UsageError(
            f"--server: {settings.server!r} is not an address of a server", hint="like https://10.0.0.5:8443"
        )
    if parts.scheme == "http" and not _here(parts.hostname):
        raise UsageError(
            f"{url} is another machine, and without TLS everybody on the way can read the token",
            hint="use https://, and let the server have a certificate: `kubexm serve --tls-self-signed`",
        )
    return ServerAddress(
        url=url, token=_token(settings), trust=_trust(settings, parts.hostname, parts.port), words=_words(settings)
    )


def _here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _words(settings: Settings) -> tuple[str, ...]:
    words: list[str] = []
    if settings.server_given:
        words += ["--server", settings.server]
    if settings.token_file is not None:
        words += ["--token-file", str(settings.token_file)]
    if settings.server_ca is not None:
        words += ["--server-ca", str(settings.server_ca)]
    if settings.server_fingerprint:
        words += ["--server-fingerprint", settings.server_fingerprint]
    return tuple(words)


# Tokens


def _token(settings: Settings) -> Secret:
    if settings.token:
        return Secret(_checked(settings.token, "--token"))
    if settings.token_file is not None:
        return Secret(_checked(_read(settings.token_file.expanduser()), str(settings.token_file)))
    if named := os.environ.get("KUBEXM_TOKEN"):
        return Secret(_checked(named, "KUBEXM_TOKEN"))
    from kubexm.cli.terminal import ask_secret, has_terminal

    if has_terminal():
        return Secret(_checked(ask_secret(f"Token for {settings.server}").reveal(), "what was typed"))
    raise UsageError(
        f"{settings.server} needs a token",
        hint="put it into a file of mode 0600 and name that with --token-file, or into KUBEXM_TOKEN",
    )


def _checked(text: str, where: str) -> str:
    token = text.strip()
    if not re.fullmatch(r"[\x21-\x7e]{1,500}", token):
        raise UsageError(f"{where}: this is not a token", hint="`kubexm serve token create` makes one, like kx_…")
    return token


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UsageError(f"{path} can be read by others on this machine", hint=f"chmod 600 {path}")
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path}: the token cannot be read: {error.strerror}") from None


# Certificates


def _trust(settings: Settings, host: str, port: int | None) -> ssl.SSLContext | None:
    if not settings.server.startswith("https:"):
        return None
    if settings.server_ca is not None and settings.server_fingerprint:
        raise UsageError("--server-ca and --server-fingerprint exclude each other", hint="give one of them")
    if settings.server_ca is not None:
        try:
            return ssl.create_default_context(cafile=str(settings.server_ca.expanduser()))
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"--server-ca: {settings.server_ca} holds no certificate: {error}") from None
    if settings.server_fingerprint:
        return _pinned(host, port or 443, settings.server_fingerprint)
    return ssl.create_default_context()


def _pinned(host: str, port: int, fingerprint: str) -> ssl.SSLContext:
    """Trusts the one certificate of this fingerprint, whatever name is in it, and no other."""
    wanted = re.sub(r"^sha-?256:", "", fingerprint.strip(), flags=re.IGNORECASE).replace(":", "").lower()
    if not re.fullmatch(r"[0-9a-f]{64}", wanted):
        raise UsageError(
            "--server-fingerprint: this is not the SHA-256 fingerprint of a certificate",
            hint="`kubexm serve --tls-self-signed` prints it: 32 bytes in hex, with or without colons",
        )
    shown = _certificate(host, port)
    if not hmac.compare_digest(hashlib.sha256(shown).hexdigest(), wanted):
        raise KubexmError(
            f"{host}:{port} shows another certificate, of fingerprint {hashlib.sha256(shown).hexdigest()}",
            hint="either the server has a new one, or this is not the server; nothing was sent to it",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate itself is known, which is more than a name
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=shown)
    return context


def _certificate(host: str, port: int) -> bytes:
    """The certificate a server shows. Nothing is sent to it, and it is not believed yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            _connected(host, port) as near,
            context.wrap_socket(near, server_hostname=host) as far,
        ):
            shown = far.getpeercert(binary_form=True)
    except OSError as error:
        raise KubexmError(
            f"{host}:{port} cannot be reached: {error}", hint="does the server run, and with TLS?"
        ) from None
    if not shown:
        raise KubexmError(f"{host}:{port} shows no certificate")
    return shown


def _connected(host: str, port: int, try_for: float = TRY_FOR) -> socket.socket:
    """A connection, tried again while nobody listens: the server may be restarting."""
    until, told = time.monotonic() + try_for, False
    while True:
        try:
            return socket.create_connection((host, port), timeout=_TIMEOUT)
        except ConnectionError as error:
            if time.monotonic() > until:
                raise
            if not told:
                _logger.warning("%s:%d: %s; trying again for up to %g s", host, port, error, try_for)
                told = True
        time.sleep(_PAUSE)
