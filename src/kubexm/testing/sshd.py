"""Real OpenSSH servers for tests and benchmarks: child processes on loopback addresses, each a small host of its own.

A server runs in namespaces of its own (processes, mounts, host name), with its own users, sudo rules, /run and home
directories, so that nothing of this machine is changed and nothing outlives `stop`. That needs root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kubexm.connector import ConnectionSettings
from kubexm.redact import Secret

__all__ = ["SshServer", "SshUser", "why_no_sshd"]

_START = 15.0
_SSHD = "/usr/sbin/sshd"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshUser:
    """A user of a server; root is always there."""

    name: str
    uid: int
    password: str = ""
    sudo: str = ""
    """A rule for sudoers, such as ALL=(ALL:ALL) ALL or ALL=(ALL:ALL) NOPASSWD: ALL; empty: no sudo."""
    shell: str = "/bin/sh"


OPS = SshUser(name="ops", uid=23001, password="correct horse", sudo="ALL=(ALL:ALL) ALL")  # noqa: S106


def why_no_sshd() -> str:
    """Why servers cannot be started on this machine; empty if they can."""
    if os.geteuid() != 0:
        return "only root can give an sshd namespaces of its own"
    missing = [
        tool for tool in (_SSHD, "unshare", "setpriv", "ssh-keygen", "sudo", "openssl") if shutil.which(tool) is None
    ]
    return f"not installed: {', '.join(missing)}" if missing else ""


@dataclass(slots=True, kw_only=True)
class SshServer:
    """One sshd. Use it as a context manager, or call `start` and `stop`."""

    directory: Path
    """Of its own, empty; holds keys, users and homes."""
    address: str = "127.0.0.1"
    port: int = 0
    """0: a free one."""
    users: tuple[SshUser, ...] = (OPS,)
    options: Mapping[str, str] = field(default_factory=dict)
    """More lines for sshd_config."""
    hostname: str = ""
    key_type: str = "ed25519"
    mounts: tuple[str, ...] = ()
    """Shell lines run in its mount namespace before sshd starts."""
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def private_key(self) -> Path:
        """What root and all users let in."""
        return self.directory / "client_key"

    @property
    def known_hosts(self) -> Path:
        """A known_hosts file with this server's key."""
        return self.directory / "known_hosts"

    @property
    def fingerprint(self) -> str:
        """Of its host key."""
        listed = _run("ssh-keygen", "-lf", str(self.directory / "host_key.pub"))
        return listed.split()[1]

    @property
    def log(self) -> str:
        """What sshd has said so far."""
        return (self.directory / "log").read_text(errors="replace")

    def settings(self, user: str = "root", **changes: object) -> ConnectionSettings:
        """How to log in as this user with the client's key; anything else can be given too."""
        known = next((each for each in self.users if each.name == user), None)
        values: dict[str, object] = {
            "address": self.address,
            "port": self.port,
            "user": user,
            "private_key_path": self.private_key,
            "known_hosts": self.known_hosts,
            "sudo_password": Secret(known.password) if known and known.password else None,
            "timeout": 20.0,
        }
        return ConnectionSettings(**{**values, **changes})  # type: ignore[arg-type]

    def start(self) -> None:
        """Starts it and waits until it answers; a second start gives the same host with the same keys."""
        assert self._process is None, "it runs already"
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        fresh = not self.port
        if fresh:
            self.port = _free_port(self.address)
        if not self.private_key.exists():
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "client", "-f", str(self.private_key))
        if not (self.directory / "host_key").exists():
            self.new_host_key()
        elif fresh:
            self._know()
        self._write_users()
        (self.directory / "sshd_config").write_text(self._config())
        script = self.directory / "start"
        script.write_text(self._script())
        log = (self.directory / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                # Should we be killed ourselves, the server goes too.
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "unshare",
                    "--mount",
                    "--uts",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "sh",
                    str(script),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait()

    def stop(self) -> None:
        """Ends it and everything that ever ran on it, as a power cut would."""
        if self._process is None:
            return
        inside, process, self._process = self._main(), self._process, None
        process.kill()
        process.wait()
        _until_gone(inside)

    def new_host_key(self) -> None:
        """Gives it another host key, as a new installation would; known_hosts follows."""
        for name in ("host_key", "host_key.pub"):
            (self.directory / name).unlink(missing_ok=True)
        _run("ssh-keygen", "-q", "-t", self.key_type, "-N", "", "-C", "", "-f", str(self.directory / "host_key"))
        self._know()

    def _know(self) -> None:
        key = (self.directory / "host_key.pub").read_text()
        self.known_hosts.write_text(f"[{self.address}]:{self.port} {key}")

    def cut(self) -> int:
        """Kills the processes that serve connections, and nothing they started; says how many."""
        victims = [pid for pid in _below(self._main()) if _command(pid).startswith("sshd: ")]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        return len(victims)

    def processes(self) -> list[str]:
        """The command lines of everything that runs on it, except sshd itself."""
        return [line for pid in _below(self._main()) if not (line := _command(pid)).startswith("sshd")]

    def connections(self) -> int:
        """How many connections are logged in now."""
        return sum(_command(pid).startswith("sshd: ") for pid in _children(self._main()))

    def _main(self) -> int:
        assert self._process is not None, "it does not run"
        return _children(self._process.pid)[0]

    def _config(self) -> str:
        lines = {
            "Port": str(self.port),
            "ListenAddress": self.address,
            "HostKey": str(self.directory / "host_key"),
            "AuthorizedKeysFile": f"{self.directory}/client_key.pub",
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PermitRootLogin": "yes",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "UseDNS": "no",
            "PrintMotd": "no",
            "MaxStartups": "500",
            "Subsystem": "sftp internal-sftp",
            **self.options,
        }
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    def _write_users(self) -> None:
        etc = self.directory / "etc"
        (etc / "sudoers.d").mkdir(parents=True, exist_ok=True)
        passwd = [f"root:x:0:0:root:{self._home('root', 0)}:/bin/sh"]
        shadow = ["root:*:19000:0:99999:7:::"]
        group = ["root:x:0:"]
        rules = ["root ALL=(ALL:ALL) ALL"]
        for user in self.users:
            passwd.append(f"{user.name}:x:{user.uid}:{user.uid}::{self._home(user.name, user.uid)}:{user.shell}")
            group.append(f"{user.name}:x:{user.uid}:")
            secret = _hash(user.password) if user.password else "*"
            shadow.append(f"{user.name}:{secret}:19000:0:99999:7:::")
            if user.sudo:
                rules.append(f"{user.name} {user.sudo}")
        mine = {line.split(":")[0] for line in passwd}
        for name, lines in (("passwd", passwd), ("shadow", shadow), ("group", group)):
            others = Path("/etc", name).read_text().splitlines()
            kept = [line for line in others if line.split(":")[0] not in mine]
            (etc / name).write_text("\n".join([*lines, *kept]) + "\n")
        (etc / "shadow").chmod(0o640)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        defaults = ["Defaults env_reset", "Defaults use_pty", f'Defaults secure_path="{path}"']
        (etc / "sudoers").unlink(missing_ok=True)
        (etc / "sudoers").write_text("\n".join([*defaults, *rules]) + "\n")
        (etc / "sudoers").chmod(0o440)
        stack = "".join(f"{kind} required pam_unix.so\n" for kind in ("auth", "account", "session"))
        (etc / "pam").write_text(stack)

    def _home(self, name: str, uid: int) -> Path:
        home = self.directory / "home" / name
        home.mkdir(parents=True, exist_ok=True)
        os.chown(home, uid, uid)
        return home

    def _script(self) -> str:
        etc = shlex.quote(str(self.directory / "etc"))
        lines = ["set -e", "mount --make-rprivate /", "mount -t proc proc /proc", "mount -t tmpfs -o mode=755 run /run"]
        lines += ["mkdir -m 755 /run/sshd", "mkdir -m 711 /run/sudo"]
        lines += [f"mount --bind {etc}/{name} /etc/{name}" for name in ("passwd", "shadow", "group", "sudoers")]
        lines += [f"mount --bind {etc}/sudoers.d /etc/sudoers.d"]
        lines += [f"mount --bind {etc}/pam /etc/pam.d/{name}" for name in ("sshd", "sudo")]
        for user in self.users:
            lines += [f"install -d -m 700 -o {user.uid} -g {user.uid} /run/user/{user.uid}"]
        lines += [f"hostname {shlex.quote(self.hostname)}"] if self.hostname else []
        lines += self.mounts
        lines += [f"exec {_SSHD} -D -e -f {shlex.quote(str(self.directory / 'sshd_config'))}"]
        return "\n".join(lines) + "\n"

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"sshd did not start:\n{self.log}")
            try:
                with socket.create_connection((self.address, self.port), timeout=1.0) as probe:
                    if probe.recv(4) == b"SSH-":
                        return
            except OSError:
                pass
            time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"sshd gave no answer within {_START:g} s:\n{self.log}")


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def _hash(password: str) -> str:
    command = ["openssl", "passwd", "-6", "-stdin"]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=password).stdout.strip()


def _until_gone(pid: int) -> None:
    """A killed namespace takes a moment to die; until then its sessions still answer.

    Its first process becomes a zombie once all others are gone. How soon it is reaped then is up to the machine's init,
    and some take a second.
    """
    deadline = time.monotonic() + _START
    while _state(pid) not in ("", "Z", "X") and time.monotonic() < deadline:
        time.sleep(0.005)


def _state(pid: int) -> str:
    """The letter that ps shows for a process; empty if there is none."""
    try:
        shown = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return shown.rpartition(")")[2].split()[0]


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _below(pid: int) -> Iterable[int]:
    for child in _children(pid):
        yield child
        yield from _below(child)


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return ""
    return words.decode(errors="replace").strip()
