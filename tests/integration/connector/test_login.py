"""Logging in: every kind of credential, every refusal, with what the user is told."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubexm.connector import Command, ConnectionPool, ConnectionSettings
from kubexm.errors import AuthenticationError, ConnectError, SudoError
from kubexm.redact import Secret
from kubexm.testing import SshServer, SshUser

from ..conftest import MakeServer

BARE: dict[str, Any] = {"private_key_path": None, "sudo_password": None}


async def whoami(pool: ConnectionPool, settings: ConnectionSettings, *, sudo: bool = False) -> str:
    connector = pool.connector(str(id(settings)), settings)
    return (await connector.execute(Command(script="id -un", sudo=sudo))).check().text


def keygen(*words: str | Path) -> None:
    subprocess.run(["ssh-keygen", "-q", *map(str, words)], check=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    socket = str(tmp_path / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not Path(socket).exists():
        assert process.poll() is None
    yield socket
    process.send_signal(signal.SIGTERM)
    process.wait()


def add(agent: str, key: Path) -> None:
    environment = {**os.environ, "SSH_AUTH_SOCK": agent}
    subprocess.run(["ssh-add", "-q", str(key)], check=True, env=environment, stdin=subprocess.DEVNULL)


async def test_key_as_text(sshd: SshServer, pool: ConnectionPool) -> None:
    key = Secret(sshd.private_key.read_text())
    assert await whoami(pool, sshd.settings(private_key_path=None, private_key=key)) == "root"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
async def test_key_with_passphrase(make_sshd: MakeServer, pool: ConnectionPool, tmp_path: Path, kind: str) -> None:
    server = make_sshd()
    key = tmp_path / "key"
    keygen("-t", kind, "-N", "open sesame", "-f", key)
    with (server.directory / "client_key.pub").open("a") as authorized:
        authorized.write(Path(f"{key}.pub").read_text())
    settings = server.settings(private_key_path=key)
    assert await whoami(pool, replace(settings, passphrase=Secret("open sesame"))) == "root"
    with pytest.raises(AuthenticationError, match="the passphrase does not fit"):
        await whoami(pool, replace(settings, passphrase=Secret("wrong")))
    with pytest.raises(AuthenticationError, match="no passphrase is given") as caught:
        await whoami(pool, settings)
    assert caught.value.host
    assert "privateKeyPassphrase" in caught.value.hint


async def test_wrong_key(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "other")
    with pytest.raises(AuthenticationError, match=r"did not let root in with the key .*other \(SHA256:") as caught:
        await whoami(pool, sshd.settings(private_key_path=tmp_path / "other"))
    assert "authorized_keys" in caught.value.hint


async def test_missing_and_broken_key(sshd: SshServer, pool: ConnectionPool, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match="cannot be read: No such file"):
        await whoami(pool, sshd.settings(private_key_path=tmp_path / "none"))
    for content in (b"nonsense", b"\xff\xfe", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"):
        (tmp_path / "broken").write_bytes(content)
        with pytest.raises(AuthenticationError, match="no private key"):
            await whoami(pool, sshd.settings(private_key_path=tmp_path / "broken"))


async def test_agent(sshd: SshServer, pool: ConnectionPool, agent: str, tmp_path: Path) -> None:
    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "other")
    settings = sshd.settings(**BARE, agent=True, agent_socket=agent)
    with pytest.raises(AuthenticationError, match="agent holds no key"):
        await whoami(pool, settings)
    add(agent, tmp_path / "other")
    add(agent, sshd.private_key)
    names = await asyncio.gather(*(whoami(pool, replace(settings, timeout=20.0 + n)) for n in range(5)))
    assert names == ["root"] * 5


async def test_agent_that_is_not_there(
    sshd: SshServer, pool: ConnectionPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AuthenticationError, match="SSH_AUTH_SOCK is not set"):
        await whoami(pool, sshd.settings(**BARE, agent=True))
    with pytest.raises(AuthenticationError, match="does not answer"):
        await whoami(pool, sshd.settings(**BARE, agent=True, agent_socket=str(tmp_path / "none")))
    with pytest.raises(AuthenticationError, match="nothing to log in with"):
        await whoami(pool, sshd.settings(**BARE))


async def test_default_keys(
    sshd: SshServer, pool: ConnectionPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    keygen("-t", "ecdsa", "-N", "", "-f", tmp_path / ".ssh/id_ecdsa")
    (tmp_path / ".ssh/id_ed25519").write_text(sshd.private_key.read_text())
    assert await whoami(pool, sshd.settings(**BARE)) == "root"


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
async def test_password(make_sshd: MakeServer, pool: ConnectionPool, method: str) -> None:
    options = {"PasswordAuthentication": "yes"}
    if method == "keyboard-interactive":
        options = {"UsePAM": "yes", "KbdInteractiveAuthentication": "yes"}
    server = make_sshd(options=options)
    settings = server.settings("ops", **BARE, password=Secret("correct horse"))
    assert await whoami(pool, settings) == "ops"
    assert await whoami(pool, settings, sudo=True) == "root"  # the login password serves sudo too
    with pytest.raises(AuthenticationError, match="did not let ops in with the password") as caught:
        await whoami(pool, replace(settings, password=Secret("battery staple")))
    assert "battery" not in str(caught.value) + caught.value.hint


async def test_key_refused_then_password(make_sshd: MakeServer, pool: ConnectionPool, tmp_path: Path) -> None:
    server = make_sshd(options={"PasswordAuthentication": "yes"})
    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "other")
    settings = server.settings("ops", private_key_path=tmp_path / "other", password=Secret("correct horse"))
    assert await whoami(pool, settings) == "ops"


async def test_certificate(make_sshd: MakeServer, pool: ConnectionPool, tmp_path: Path) -> None:
    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "ca")
    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    keygen("-s", tmp_path / "ca", "-I", "me", "-n", "root", "-V", "+1h", tmp_path / "key.pub")
    server = make_sshd(options={"TrustedUserCAKeys": str(tmp_path / "ca.pub"), "AuthorizedKeysFile": "none"})
    tmp_path.chmod(0o755)
    settings = server.settings(private_key_path=tmp_path / "key")
    assert await whoami(pool, settings) == "root"  # KEY-cert.pub is found by itself
    elsewhere = (tmp_path / "key-cert.pub").rename(tmp_path / "elsewhere.pub")
    assert await whoami(pool, replace(settings, certificate_path=elsewhere)) == "root"
    with pytest.raises(AuthenticationError, match="did not let root in"):
        await whoami(pool, replace(settings, timeout=21))
    keygen("-t", "ed25519", "-N", "", "-f", tmp_path / "key2")
    with pytest.raises(AuthenticationError, match="belongs to another key"):
        await whoami(pool, replace(settings, private_key_path=tmp_path / "key2", certificate_path=elsewhere))
    with pytest.raises(AuthenticationError, match=r"certificate .* cannot be read"):
        await whoami(pool, replace(settings, certificate_path=tmp_path / "none"))


async def test_nobody_there(pool: ConnectionPool, sshd: SshServer) -> None:
    refused = sshd.settings(port=1)
    with pytest.raises(ConnectError, match="refuses connections") as caught:
        await pool.connector("gone", refused).connect()
    assert caught.value.host == "gone"
    assert "sshd running" in caught.value.hint
    with pytest.raises(ConnectError, match="cannot be resolved"):
        await pool.connector("dns", replace(refused, address="no-such-host.invalid")).connect()


async def test_something_else_answers(pool: ConnectionPool, sshd: SshServer) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-1.0-ancient\r\n")
        await reader.read(10000)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectError, match="found no common ground"):
            await pool.connector("old", sshd.settings(port=port)).connect()


@pytest.mark.parametrize(
    ("sent", "closes", "message"),
    [
        (b"", True, "accepts connections and closes them without sending anything"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True, "it answers as an HTTP server: `HTTP/1.1 400 Bad Request`"),
        (b"220 mail ESMTP\r\n", False, "is not an SSH server: it answers `220 mail ESMTP`"),
        (b"\x15\x03\x01\x00\x02\x02\x46", True, "it answers as a TLS server"),
    ],
)
async def test_a_port_that_is_not_sshs(
    pool: ConnectionPool, sshd: SshServer, sent: bytes, message: str, *, closes: bool
) -> None:
    """It is named for what it sends, within the host's own timeout, directly and behind a bastion."""
    done = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        if not closes:
            await done.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        settings = sshd.settings(port=server.sockets[0].getsockname()[1], timeout=1.0)
        for name, each in (("direct", settings), ("behind", replace(settings, bastions=(sshd.settings(),)))):
            with pytest.raises(ConnectError, match=re.escape(message)) as caught:
                await pool.connector(name, each).connect()
            assert caught.value.host == name
            assert caught.value.hint
        done.set()


async def test_silence(pool: ConnectionPool, sshd: SshServer) -> None:
    closed = asyncio.Event()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await closed.wait()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectError, match=r"did not answer within 0.3 s"):
            await pool.connector("mute", sshd.settings(port=port, timeout=0.3)).connect()
        closed.set()


@pytest.mark.parametrize("sudo", [False, True])
@pytest.mark.parametrize("changes", [False, True])
async def test_a_shell_that_exits_at_once(
    make_sshd: MakeServer, pool: ConnectionPool, *, sudo: bool, changes: bool
) -> None:
    """It is an error of that host, at once, whatever was asked for; other hosts are not affected."""
    guest = SshUser(name="guest", uid=23002, sudo="ALL=(ALL:ALL) NOPASSWD: ALL", shell="/usr/sbin/nologin")
    settings = {
        "nologin": make_sshd(users=(guest,)).settings("guest"),
        "forced": make_sshd(options={"ForceCommand": "/bin/false"}).settings("ops"),
        "killed": make_sshd(options={"ForceCommand": "kill -9 $$"}).settings("ops"),
    }
    command = Command(script="id -un", sudo=sudo, changes=changes, timeout=5.0)
    fine = pool.connector("fine", make_sshd().settings())
    refused = [pool.connector(name, each).execute(command) for name, each in settings.items()]
    async with asyncio.timeout(60):
        answered, *errors = await asyncio.gather(fine.execute(command), *refused, return_exceptions=True)
    assert not isinstance(answered, BaseException)
    assert answered.text == "root"
    for name, error in zip(settings, errors, strict=True):
        assert isinstance(error, ConnectError), error
        assert not isinstance(error, SudoError), "sudo was never reached"
        assert error.host == name
        assert "the session ended before a shell started" in error.message
        assert "nologin" in error.hint
        assert "ForceCommand" in error.hint
    assert "This account is currently not available" in str(errors[0])


# sudo


async def test_sudo_without_a_password(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    users = (SshUser(name="free", uid=23003, sudo="ALL=(ALL:ALL) NOPASSWD: ALL"),)
    server = make_sshd(users=users)
    # A password that nobody asks for must not be taken for a command.
    settings = server.settings("free", sudo_password=Secret("touch /run/pwned"))
    connector = pool.connector("free", settings)
    result = await connector.execute(Command(script="id -un; ls /run"))
    assert result.text.splitlines()[0] == "root"
    assert "pwned" not in result.text
    assert result.stderr == b""


async def test_wrong_sudo_password(sshd: SshServer, pool: ConnectionPool) -> None:
    connector = pool.connector("wrong", sshd.settings("ops", sudo_password=Secret("wrong")))
    with pytest.raises(SudoError, match="sudo refused the password") as caught:
        await connector.execute(Command(script=":"))
    assert "sudoPassword" in caught.value.hint
    assert (await connector.execute(Command(script="id -un", sudo=False))).text == "ops"


async def test_no_sudo_password(sshd: SshServer, pool: ConnectionPool) -> None:
    connector = pool.connector("none", sshd.settings("ops", sudo_password=None))
    results = await asyncio.gather(*(connector.execute(Command(script=":")) for _ in range(3)), return_exceptions=True)
    for result in results:
        assert isinstance(result, SudoError)
        assert "asks for a password" in result.message


async def test_not_in_sudoers(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd(users=(SshUser(name="plain", uid=23004, password="secret"),))
    connector = pool.connector("plain", server.settings("plain"))
    with pytest.raises(SudoError, match=r"sudo did not start a shell.*not in the sudoers"):
        await connector.execute(Command(script=":"))


async def test_no_sudo_installed(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd(mounts=("mount --bind /dev/null /usr/bin/sudo",))
    connector = pool.connector("bare", server.settings("ops"))
    with pytest.raises(SudoError, match="sudo did not start a shell"):
        await connector.execute(Command(script=":"))


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/dash"])
async def test_login_shells_that_talk(make_sshd: MakeServer, pool: ConnectionPool, shell: str) -> None:
    users = (SshUser(name="ops", uid=23001, password="p", sudo="ALL=(ALL:ALL) ALL", shell=shell),)
    server = make_sshd(users=users)
    home = server.directory / "home" / "ops"
    (home / ".bashrc").write_text("echo welcome; echo beware >&2; cat 2>/dev/null <&-\n")
    connector = pool.connector("talkative", server.settings("ops"))
    for sudo in (True, False):
        result = await connector.execute(Command(script="echo mine; echo err >&2", sudo=sudo))
        assert (result.stdout, result.stderr) == (b"mine\n", b"err\n")
