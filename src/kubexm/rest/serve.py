"""Listening: a socket, TLS where it must be, and uvicorn on top. Must not know routes."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from kubexm.errors import UsageError
from kubexm.rest.gate import Connection, ConnectionLimits, Gate

__all__ = ["Certificate", "Listening", "listen", "own_certificate", "serve"]

_STALLED_MS = 60_000
_SEND_BUFFER = 64 * 2**10
_YEARS = 2
_SWEEP = 1.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, for those who compare."""
        found = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        digest = found.fingerprint(hashes.SHA256()).hex().upper()
        return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that is bound, and how it is spoken to."""

    socket: Gate
    certificate: Certificate | None

    @property
    def url(self) -> str:
        """Where the server is to be found."""
        host, port = self.socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.certificate else 'http'}://{shown}:{port}"


def listen(
    address: str,
    certificate: Certificate | None,
    make: Callable[[str], Certificate] | None,
    limits: ConnectionLimits | None = None,
) -> Listening:
    """Binds to `host:port`. What is not only this machine's needs TLS: given, or made by `make` for that host."""
    host, port = _parsed(address)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise UsageError(f"{address}: there is no such address: {error.strerror}") from error
    if certificate is None and not ipaddress.ip_address(place[0]).is_loopback:
        if make is None:
            raise UsageError(
                f"{host} is reached by others, and they could read along",
                hint="give a certificate with --tls-cert and --tls-key, or let kubexm make one with --tls-self-signed",
            )
        certificate = make(str(place[0]))
    elif certificate is None and make is not None:
        certificate = make(str(place[0]))
    bound = Gate(family, kind, protocol, limits or ConnectionLimits())
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A peer that answers probes and never reads is let go by the kernel; those that are accepted inherit this.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALLED_MS)
        # Nor does it keep megabytes for each of them.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        bound.bind(place)
        bound.listen(2048)
    except OSError as error:
        bound.close()
        raise UsageError(
            f"cannot listen on {address}: {error.strerror}", hint="choose another with --listen HOST:PORT"
        ) from error
    return Listening(bound, certificate)


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"{address!r} is not an address to listen on", hint="write it like 127.0.0.1:8443 or [::1]:8443"
        )
    return host.strip("[]"), int(port)


def own_certificate(directory: Path, host: str) -> Certificate:
    """A self-signed certificate for this host, made once and kept; made anew when it is for another, or runs out."""
    found = Certificate(directory / "cert.pem", directory / "key.pem")
    if found.certificate.exists() and found.key.exists() and _still_good(found.certificate, host):
        return found
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubexm server")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    found.key.unlink(missing_ok=True)
    with os.fdopen(os.open(found.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    found.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return found


def _names(host: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.DNSName(socket.gethostname())]
    addresses = {"127.0.0.1", "::1"}
    with contextlib.suppress(OSError):
        addresses |= {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(socket.gethostname(), None)}
    if not ipaddress.ip_address(host).is_unspecified:
        addresses.add(host)
    return [*names, *(x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses))]


def _still_good(path: Path, host: str) -> bool:
    found = x509.load_pem_x509_certificate(path.read_bytes())
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=30)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    here = ipaddress.ip_address(host)
    known = here.is_unspecified or here in names.get_values_for_type(x509.IPAddress)
    return known and found.not_valid_after_utc > soon


class _Protocol(H11Protocol):
    """HTTP as uvicorn speaks it. The gate is told what the connection does, routes can end one nobody reads from."""

    gate: Gate
    _connection: Connection | None = None

    def connection_made(self, transport: Any) -> None:
        self.app_state = {**self.app_state, "transport": transport}
        peer = transport.get_extra_info("peername")
        self._connection = self.gate.connection(peer[:2]) if peer else None
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._connection is not None:
            self._connection.begin() if self._is_busy() else self._connection.head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._connection is not None and not self._is_busy():
            self._connection.rest()

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


async def serve(
    app: ASGIApp,
    listening: Listening,
    *,
    ready: Callable[[], None] = lambda: None,
    until: asyncio.Event | None = None,
) -> None:
    """Serves until the process is told to end, or `until` is set; `ready` is called once it answers."""
    certificate = listening.certificate
    config = uvicorn.Config(
        app,
        http=type("Protocol", (_Protocol,), {"gate": listening.socket}),
        ws="none",
        lifespan="on",
        log_level="error",  # of requests that are not HTTP there can be any number
        access_log=False,
        server_header=False,
        ssl_certfile=None if certificate is None else certificate.certificate,
        ssl_keyfile=None if certificate is None else certificate.key,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=64 * 2**10,
    )
    server = _Server(config, ready)
    beside = [asyncio.create_task(_sweep(listening.socket))]
    if until is not None:
        beside.append(asyncio.create_task(_end(server, until)))
    try:
        await server.serve(sockets=[listening.socket])
    finally:
        for task in beside:
            task.cancel()


async def _sweep(gate: Gate) -> None:
    while True:
        await asyncio.sleep(_SWEEP)
        gate.sweep()


async def _end(server: uvicorn.Server, until: asyncio.Event) -> None:
    await until.wait()
    server.should_exit = True
