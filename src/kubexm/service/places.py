"""Where a server keeps what, on disk. All of it is this user's alone; one server at a time uses it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import StoreError

__all__ = ["Places"]


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of one server."""

    data: Path

    @classmethod
    def usual(cls) -> Places:
        """KUBEXM_DATA_DIR, or `kubexm` in the user's data directory."""
        if named := os.environ.get("KUBEXM_DATA_DIR"):
            return cls(Path(named).absolute())
        base = os.environ.get("XDG_DATA_HOME")
        return cls((Path(base) if base else Path.home() / ".local" / "share") / "kubexm")

    @property
    def database(self) -> str:
        """The URL of the embedded database."""
        return f"sqlite:///{self.data / 'kubexm.db'}"

    @property
    def key(self) -> Path:
        """What secrets are sealed with."""
        return self.data / "key"

    @property
    def work(self) -> Path:
        """Runs, logs and PKI of every cluster: a work directory as the command line has one."""
        return self.data / "work"

    @property
    def bundles(self) -> Path:
        """Bundles that specs may name."""
        return self.data / "bundles"

    @property
    def tls(self) -> Path:
        """Certificate and key, if kubexm made them itself."""
        return self.data / "tls"

    @property
    def first_token(self) -> Path:
        """The first administrator token, if there was no terminal to show it on."""
        return self.data / "first-token"

    def home(self, cluster: str) -> Path:
        """What a cluster's tasks take for a home directory: known hosts of their own, no keys of the server's user."""
        return self.data / "homes" / cluster

    def staged(self, cluster: str) -> Path:
        """Where a cluster's file and uploads lie while a task of it is under way: in memory if there is such a place.

        The same each time, since a plan may name it.
        """
        name = f"kubexm-{os.getuid()}-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]}"
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        for base in (Path(runtime) if runtime else None, Path("/dev/shm")):  # noqa: S108 - made private, and refused if it is not ours
            if base is not None and base.is_dir() and os.access(base, os.W_OK):
                return base / name / cluster
        return self.data / "staged" / cluster

    def prepare(self) -> None:
        """Makes the directories, private to this user."""
        for path in (self.data, self.work, self.bundles):
            private_directory(path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Within, this process is the only server here; StoreError if there is another."""
        self.prepare()
        lock = os.open(self.data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"another kubexm server uses {self.data}", hint="stop it, or choose another --data-dir"
                ) from None
            yield
        finally:
            os.close(lock)


def private_directory(path: Path) -> None:
    """Makes a directory that only this user can enter; StoreError if it is somebody else's."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
        if found.st_uid != os.getuid() or path.is_symlink():
            raise StoreError(f"{path} belongs to somebody else", hint="remove it, or choose another directory")
        if found.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}") from error
