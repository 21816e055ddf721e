"""Who may change what at a time, across processes. Must not know what is being changed.

Locks are `flock`s: they end with their holder, also when it is killed, and are taken on directories where a lock file
would be something left behind.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubexm.lab.commands import inherited
from kubexm.lab.places import private_directory

__all__ = ["locked", "locked_directory", "locked_machine", "try_locked"]

_MACHINE = Path("/run")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, made where it is missing; waits for whoever holds it."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with inherited(fd):
            yield


@contextmanager
def try_locked(path: Path) -> Iterator[bool]:
    """Hold the lock file if nobody else does; says whether it is held."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            with inherited(fd):
                yield True


@contextmanager
def locked_directory(path: Path, *, make: bool = False) -> Iterator[bool]:
    """Hold a directory; False if it is not there, or was removed by the one who held it before."""
    while True:
        if make:
            private_directory(path)
        elif not path.is_dir():
            yield False
            return
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _is(fd, path):
                with inherited(fd):
                    yield True
                return
        finally:
            os.close(fd)


@contextmanager
def locked_machine() -> Iterator[None]:
    """Hold what all labs on this machine share: subnets and interface names."""
    with _opened(_MACHINE, os.O_RDONLY | os.O_DIRECTORY) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with inherited(fd):
            yield


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _is(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(fd)
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)
