"""Programs the lab runs on this machine. Must not know what they are run for.

Every program inherits the locks that are held while it runs. A lock is then free only when the process that took it
*and* everything it started are gone, so nobody who takes it next can meet a command that is still under way, also
after a kill -9.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kubexm.errors import LabError, telling_lines

__all__ = ["Progress", "contained", "inherited", "quiet", "run", "stream"]

Progress = Callable[[str], None]
"""Takes one line about what is going on."""

_SHOWN = 160
_held: list[int] = []


def quiet(_line: str) -> None:
    """Progress that nobody wants to see."""


@contextmanager
def inherited(fd: int) -> Iterator[None]:
    """While this lasts, every program that is run keeps `fd` open too."""
    _held.append(fd)
    try:
        yield
    finally:
        _held.remove(fd)


def run(
    *argv: str | Path,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    check: bool = True,
) -> str:
    """Run a program to its end and return its output; a failure becomes a LabError unless `check` is off."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env=_environment(env),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            pass_fds=tuple(_held),
        )
    except FileNotFoundError as error:
        raise LabError(f"`{words[0]}` is not installed.", hint="Run `kubexm lab up --install`.") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"`{_shown(words)}` did not end within {timeout:.0f} s.") from error
    if check and done.returncode != 0:
        raise _failure(words, done.returncode, done.stderr or done.stdout)
    return done.stdout


def stream(
    argv: Sequence[str | Path],
    *,
    on_line: Progress,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a program to its end, hand on each line of its output as it comes, and keep all of it in `log`."""
    words = [str(word) for word in argv]
    last: deque[str] = deque(maxlen=40)
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(env),
            text=True,
            errors="replace",
            pass_fds=tuple(_held),
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            last.append(line)
            on_line(line.strip())
    if process.returncode != 0:
        raise _failure(words, process.returncode, "".join(last))


def contained(*argv: str | Path) -> list[str]:
    """The command that runs `argv` with mounts and processes of its own, all of which end when this process does."""
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL"]
    return ["setpriv", "--pdeathsig", "KILL", *namespaces, *(str(word) for word in argv)]


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The caller's environment with the system's folders on PATH and messages in English."""
    path = os.environ.get("PATH", "")
    folders = [*filter(None, path.split(":")), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
    return {**os.environ, "PATH": ":".join(dict.fromkeys(folders)), "LC_ALL": "C.UTF-8", **(extra or {})}


def _failure(words: Sequence[str], code: int, output: str) -> LabError:
    lines = telling_lines(output)
    return LabError(f"`{_shown(words)}` exited with {code}" + (": " + " | ".join(lines) if lines else "."))


def _shown(words: Sequence[str]) -> str:
    """A command line in one line, cut where it stops telling anything."""
    line = " ".join(" ".join(words).split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
