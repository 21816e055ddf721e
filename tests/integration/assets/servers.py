"""Real servers for the tests of assets, all on 127.0.0.1: the distribution registry, and a proxy that cuts."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import bcrypt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

USER, PASSWORD = "pusher", "hush-hush"


@dataclass(frozen=True)
class RealRegistry:
    """A running registry."""

    host: str
    ca_file: Path | None
    storage: Path
    log: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}:\n{log.read_text()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on {port}:\n{log.read_text()}")


@contextmanager
def real_registry(binary: Path, directory: Path, *, secure: bool) -> Iterator[RealRegistry]:
    """A registry with its own storage; secure means TLS by a CA of its own, and a user with a password."""
    directory.mkdir(parents=True, exist_ok=True)
    port, storage, log = free_port(), directory / "storage", directory / "log"
    config = [
        "version: 0.1",
        "log: {level: info, accesslog: {disabled: false}}",
        f"storage: {{filesystem: {{rootdirectory: {storage}}}, delete: {{enabled: true}}}}",
    ]
    ca_file = None
    tls = ""
    if secure:
        ca_file = write_certificates(directory)
        tls = f", tls: {{certificate: {directory / 'server.pem'}, key: {directory / 'server.key'}}}"
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (directory / "htpasswd").write_text(f"{USER}:{hashed}\n")
        config.append(f"auth: {{htpasswd: {{realm: here, path: {directory / 'htpasswd'}}}}}")
    config.append(f"http: {{addr: 127.0.0.1:{port}, secret: test{tls}}}")
    (directory / "config.yml").write_text("\n".join(config) + "\n")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(binary), "serve", str(directory / "config.yml")],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={"OTEL_TRACES_EXPORTER": "none", "PATH": "/usr/bin:/bin"},
        )
    try:
        wait_for_port(port, process, log)
        yield RealRegistry(host=f"127.0.0.1:{port}", ca_file=ca_file, storage=storage, log=log)
    finally:
        process.kill()
        process.wait()


def write_certificates(directory: Path, address: str = "127.0.0.1") -> Path:
    """A CA and a certificate for this address; gives the CA's file."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test CA")])

    def builder(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    authority = builder(ca_name, ca_key.public_key()).add_extension(x509.BasicConstraints(True, 0), critical=True)
    authority = authority.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False
    ).add_extension(x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    server = builder(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "registry")]), key.public_key())
    server = server.add_extension(names, critical=False).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
    )
    ca_file = directory / "ca.pem"
    ca_file.write_bytes(authority.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    signed = server.sign(ca_key, hashes.SHA256())
    (directory / "server.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (directory / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return ca_file


@dataclass
class Cuts:
    """A proxy that cuts: how often it has, and how often it still will."""

    port: int = 0
    left: int = 0
    done: int = 0


@asynccontextmanager
async def cutting_proxy(target: int, *, after: int, times: int) -> AsyncIterator[Cuts]:
    """Passes connections on to `target`, and cuts each of the first that carried so many bytes, in mid-stream."""
    cuts = Cuts(left=times)
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        ends = [writer]
        try:
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", target)
            ends.append(onward_writer)
            carried = 0

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                nonlocal carried
                with contextlib.suppress(OSError):
                    while chunk := await source.read(16 * 1024):
                        carried += len(chunk)
                        if cuts.left and carried > after:
                            cuts.left -= 1
                            cuts.done += 1
                            for end in ends:
                                end.transport.abort()
                            return
                        sink.write(chunk)
                        await sink.drain()
                sink.close()

            await asyncio.gather(pump(reader, onward_writer), pump(onward_reader, writer))
        except asyncio.CancelledError:
            pass  # the test is over; asyncio would make a fuss about a handler that was cancelled
        finally:
            for end in ends:
                end.transport.abort()
                with contextlib.suppress(OSError):
                    await end.wait_closed()
            serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    cuts.port = server.sockets[0].getsockname()[1]
    try:
        yield cuts
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
