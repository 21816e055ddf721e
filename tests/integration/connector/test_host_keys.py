"""Whether a host is who it claims to be."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from kubexm.connector import ConnectionPool
from kubexm.errors import HostKeyError
from kubexm.testing import SshServer

from ..conftest import MakeServer


def keygen(*words: str | Path) -> None:
    subprocess.run(["ssh-keygen", "-q", *map(str, words)], check=True, stdin=subprocess.DEVNULL)


async def test_unknown_key_is_refused_with_its_fingerprint(
    sshd: SshServer, pool: ConnectionPool, tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    with pytest.raises(HostKeyError, match="is not known") as caught:
        await pool.connector("n1", sshd.settings(known_hosts=known)).connect()
    assert sshd.fingerprint in caught.value.message
    assert "--accept-new-host-keys" in caught.value.hint
    assert caught.value.host == "n1"
    assert not known.exists()


async def test_new_keys_are_recorded_when_asked(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    known = tmp_path / "ssh" / "known_hosts"
    known.parent.mkdir()
    known.write_text("# mine, without a newline at its end")
    await asyncio.gather(
        *(
            pool.connector(f"n{n}", sshd.settings(known_hosts=known, accept_new_host_keys=True)).connect()
            for n in range(5)
        )
    )
    lines = known.read_text().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(f"[127.0.0.1]:{sshd.port} ssh-ed25519 ")
    await pool.connector("again", sshd.settings(known_hosts=known)).connect()


async def test_a_new_known_hosts_is_private(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    known = tmp_path / "ssh" / "known_hosts"
    await pool.connector("n1", sshd.settings(known_hosts=known, accept_new_host_keys=True)).connect()
    assert stat.S_IMODE(known.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
async def test_a_changed_key_is_always_fatal(make_sshd: MakeServer, pool: ConnectionPool, kind: str) -> None:
    server = make_sshd()
    old, fingerprint = server.known_hosts.read_text(), server.fingerprint
    server.stop()
    server.key_type = kind
    server.new_host_key()
    server.known_hosts.write_text(f"# first line\n{old}")
    server.start()
    with pytest.raises(HostKeyError, match="HAS CHANGED") as caught:
        await pool.connector("n1", server.settings(accept_new_host_keys=True)).connect()
    assert f"{server.known_hosts}:2" in caught.value.message
    assert fingerprint in caught.value.message
    assert server.fingerprint in caught.value.message
    assert "ssh-keygen -f" in caught.value.hint


async def test_hashed_entries(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_hosts.read_text())
    keygen("-H", "-f", known)
    assert "127.0.0.1" not in known.read_text()
    await pool.connector("n1", sshd.settings(known_hosts=known)).connect()


async def test_patterns_and_negation(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    key = sshd.known_hosts.read_text().split(" ", 1)[1]
    for number, (patterns, fits) in enumerate(
        [("[127.0.0.*]:*", True), ("[127.0.0.?]:*,!*", False), ("other", False), (f"x,[127.0.0.1]:{sshd.port}", True)]
    ):
        known = tmp_path / f"known_hosts{number}"
        known.write_text(f"{patterns} {key}")
        connector = pool.connector(f"n{number}", sshd.settings(known_hosts=known))
        if fits:
            await connector.connect()
        else:
            with pytest.raises(HostKeyError, match="is not known"):
                await connector.connect()


async def test_revoked(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    entry = sshd.known_hosts.read_text()
    known.write_text(f"{entry}@revoked {entry}")
    with pytest.raises(HostKeyError):
        await pool.connector("n1", sshd.settings(known_hosts=known)).connect()


async def test_host_certificate(make_sshd: MakeServer, pool: ConnectionPool, tmp_path: Path) -> None:
    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "ca")
    server = make_sshd()
    server.stop()
    certificate = server.directory / "host_key-cert.pub"
    keygen("-s", tmp_path / "ca", "-I", "host", "-h", "-n", "127.0.0.1", "-V", "+1h", server.directory / "host_key.pub")
    server.options = {"HostCertificate": str(certificate)}
    server.start()
    known = tmp_path / "known_hosts"
    known.write_text(f"@cert-authority 127.0.0.* {(tmp_path / 'ca.pub').read_text()}")
    await pool.connector("n1", server.settings(known_hosts=known)).connect()

    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "ca2")
    known2 = tmp_path / "known_hosts2"
    known2.write_text(f"@cert-authority * {(tmp_path / 'ca2.pub').read_text()}")
    with pytest.raises(HostKeyError):
        await pool.connector("n2", server.settings(known_hosts=known2)).connect()

    server.stop()
    keygen("-s", tmp_path / "ca", "-I", "host", "-h", "-n", "elsewhere", "-V", "+1h", server.directory / "host_key.pub")
    server.start()
    with pytest.raises(HostKeyError, match="cannot be trusted"):
        await pool.connector("n3", server.settings(known_hosts=known)).connect()


async def test_pin(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    none = tmp_path / "none"
    await pool.connector("n1", sshd.settings(known_hosts=none, host_key=sshd.fingerprint)).connect()
    wrong = "SHA256:" + "A" * 43
    with pytest.raises(HostKeyError, match="is not the pinned one") as caught:
        await pool.connector("n2", sshd.settings(host_key=wrong, accept_new_host_keys=True)).connect()
    assert sshd.fingerprint in caught.value.message
    assert wrong in caught.value.message
    await pool.connector("n3", sshd.settings(known_hosts=none, host_key=f"{sshd.fingerprint}=")).connect()
    assert not none.exists()


async def test_a_whole_public_key_as_pin(make_sshd: MakeServer, pool: ConnectionPool, tmp_path: Path) -> None:
    first, second = make_sshd(), make_sshd()
    keys = [(server.directory / "host_key.pub").read_text().strip() for server in (first, second)]
    none = tmp_path / "none"
    await pool.connector("n1", first.settings(known_hosts=none, host_key=keys[0])).connect()
    await pool.connector("n2", second.settings(known_hosts=none, host_key=f"{keys[1]} root@n2")).connect()
    with pytest.raises(HostKeyError, match="is not the pinned one") as caught:
        await pool.connector("n3", second.settings(known_hosts=none, host_key=keys[0])).connect()
    assert f"it shows {second.fingerprint}, hostKey is {first.fingerprint}" in caught.value.message
    assert not none.exists()


async def test_a_pin_when_the_reset_outruns_the_reason(sshd: SshServer, pool: ConnectionPool) -> None:
    """sshd hangs up on who wants another kind of key; on some machines the reset comes before what it said."""
    callers = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal callers
        callers += 1
        if callers > 1:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(sshd.address, sshd.port)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    settings = sshd.settings(host_key="SHA256:" + "A" * 43, port=server.sockets[0].getsockname()[1])
    async with server:
        with pytest.raises(HostKeyError, match="is not the pinned one"):
            await pool.connector("n1", settings).connect()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
    target.close()


async def test_a_pin_of_another_kind_of_key(make_sshd: MakeServer, pool: ConnectionPool, tmp_path: Path) -> None:
    keygen("-t", "rsa", "-b", "2048", "-N", "", "-f", tmp_path / "rsa")
    server = make_sshd(options={"hostkey": str(tmp_path / "rsa")})
    listed = subprocess.run(
        ["ssh-keygen", "-lf", str(tmp_path / "rsa.pub")], check=True, capture_output=True, text=True
    )
    await pool.connector("n1", server.settings(host_key=listed.stdout.split()[1])).connect()
    await pool.connector("n2", server.settings(host_key=server.fingerprint)).connect()
