"""Locks end with whoever holds them, and with all they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab.commands import run
from kubexm.lab.locks import locked, locked_directory, try_locked


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked(file), try_locked(file) as second:
        assert not second
    with try_locked(file) as again:
        assert again


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with locked_directory(tmp_path / "missing") as there:
        assert not there
    with locked_directory(tmp_path / "a" / "b", make=True) as there:
        assert there
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_whoever_waited_for_a_directory_that_was_removed_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    answers: list[bool] = []

    def wait() -> None:
        with locked_directory(folder) as there:
            answers.append(there)

    with locked_directory(folder, make=True):
        waiter = threading.Thread(target=wait)
        waiter.start()
        while not _waits_for_lock(waiter):
            pass
        folder.rmdir()
    waiter.join(20)
    assert answers == [False]


def test_the_lock_of_a_killed_process_is_held_until_its_command_has_ended(tmp_path: Path) -> None:
    fifo, lock, started = tmp_path / "fifo", tmp_path / "lock", tmp_path / "started"
    os.mkfifo(fifo)
    program = (
        "import sys; from pathlib import Path\n"
        "from kubexm.lab.locks import locked; from kubexm.lab.commands import run\n"
        "with locked(Path(sys.argv[1])): run('sh', '-c', 'touch \"$1\"; read line <\"$2\"', 'sh', *sys.argv[2:])"
    )
    with subprocess.Popen([sys.executable, "-c", program, lock, started, fifo]) as holder:
        while not started.exists():
            assert holder.poll() is None
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with try_locked(lock) as held:
        assert not held
    fifo.write_text("go on\n")
    with locked(lock):
        pass


def test_a_failing_command_says_which_and_why() -> None:
    with pytest.raises(LabError) as caught:
        run("sh", "-c", "echo cannot do that >&2; exit 3")
    assert "exited with 3: cannot do that" in caught.value.message
    with pytest.raises(LabError, match="`no-such-program` is not installed"):
        run("no-such-program")
    with pytest.raises(LabError, match="did not end within"):
        run("sleep", "600", timeout=0.05)


def _waits_for_lock(thread: threading.Thread) -> bool:
    """Whether the thread sleeps in flock, as the kernel tells."""
    try:
        return "flock" in Path(f"/proc/self/task/{thread.native_id}/wchan").read_text() or _blocked(thread)
    except OSError:
        return False


def _blocked(thread: threading.Thread) -> bool:
    held = Path("/proc/locks").read_text()
    return any("->" in line and str(os.getpid()) in line for line in held.splitlines())
