"""A real PostgreSQL server for tests: from the distribution's package, in a directory and on a port of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    return None if elsewhere is None else Path(elsewhere).resolve().parent


def why_no_postgres() -> str:
    """Why there can be no server here; empty if there can."""
    if _programs() is None:
        return "PostgreSQL is not installed: `tools/packages test` as root installs it"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


def _user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


class PostgresServer:
    """One server; use it as a context manager."""

    def __init__(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="kubexm-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_hex(8)
        self.port = 0

    def __enter__(self) -> Self:
        programs = _programs()
        assert programs is not None
        password = self._base / "password"
        password.write_text(self._password)
        if os.geteuid() == 0:
            user = _user()
            assert user is not None
            for path in (self._base, password):
                os.chown(path, user.pw_uid, user.pw_gid)
        data = self._base / "data"
        options = ["-U", "kubexm", "-A", "scram-sha-256", "--no-sync", "-E", "UTF8", "--locale", "C.UTF-8"]
        self._run([str(programs / "initdb"), "-D", str(data), "--pwfile", str(password), *options])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._base),
            "fsync": "off",
            "max_connections": "100",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log = (self._base / "log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [*self._as_user(), str(programs / "postgres"), "-D", str(data), *words], stdout=log, stderr=log
            )
        self._wait(programs)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once: nothing in it is to be kept
            self._process.wait(30)
        shutil.rmtree(self._base, ignore_errors=True)

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{secrets.token_hex(6)}"
        self.sql(f"CREATE DATABASE {name}", "postgres")
        return f"postgresql://kubexm:{self._password}@127.0.0.1:{self.port}/{name}"

    def sql(self, statement: str, database: str) -> str:
        """Runs one statement, as psql would."""
        programs = _programs()
        assert programs is not None
        words = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "kubexm", "-d", database, "-tAc", statement]
        environ = {**os.environ, "PGPASSWORD": self._password}
        done = subprocess.run(
            [str(programs / "psql"), *words], env=environ, check=True, capture_output=True, text=True, timeout=30
        )
        return done.stdout.strip()

    def _as_user(self) -> list[str]:
        user = _user()
        if os.geteuid() != 0 or user is None:
            return []
        # Should we be killed ourselves, the server goes too.
        ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig", "INT"]
        return ["setpriv", *ids, "--"]

    def _run(self, words: list[str]) -> None:
        done = subprocess.run([*self._as_user(), *words], capture_output=True, text=True, timeout=120, cwd="/")
        if done.returncode:
            raise RuntimeError(f"{words[0]} failed: {done.stderr}")

    def _wait(self, programs: Path) -> None:
        assert self._process is not None
        for _ in range(300):
            ready = subprocess.run(
                [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], timeout=10
            )
            if ready.returncode == 0:
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL did not start: {(self._base / 'log').read_text()}")
