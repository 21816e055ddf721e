"""Runs the programs a build needs: output line by line to whoever watches, all of it to a log, errors with their lines.

Knows nothing of what the programs do.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kubexm.errors import LabError, telling_lines

__all__ = ["CommandFailed", "Commands"]

_KEPT_LINES = 400


class CommandFailed(LabError):
    """A program of the build ended badly; `output` holds its last lines."""

    def __init__(self, argv: Sequence[str], exit_code: int, output: str, log: Path | None) -> None:
        program = Path(argv[0]).name
        lines = "\n".join(f"  {line}" for line in telling_lines(output, most=5))
        what = f"was stopped by signal {-exit_code}" if exit_code < 0 else f"exited with {exit_code}"
        super().__init__(
            f"{program} {what}" + (f":\n{lines}" if lines else ""),
            hint=f"Everything it said is in {log}." if log else "",
        )
        self.exit_code = exit_code
        self.output = output


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Runs programs, each with all it says in one log file."""

    log: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        timeout: float = 3600,
    ) -> str:
        """Runs it to its end and returns what it wrote to stdout; CommandFailed if that end was a bad one."""
        full = {**os.environ, "LC_ALL": "C.UTF-8", **self.environment, **(env or {})}
        out: list[str] = []
        tail: deque[str] = deque(maxlen=_KEPT_LINES)
        with subprocess.Popen(
            _bound_to_us(argv),
            cwd=cwd,
            env=full,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            reader = threading.Thread(target=lambda: out.extend(process.stdout or ()), daemon=True)
            reader.start()
            ended = threading.Timer(timeout, process.kill)
            ended.start()
            try:
                for line in process.stderr:
                    tail.append(line)
                    if on_line is not None:
                        on_line(line.rstrip())
                reader.join()
                code = process.wait()
            except BaseException:
                process.kill()
                raise
            finally:
                ended.cancel()
        self._note(argv, code, out, tail)
        if code:
            raise CommandFailed(argv, code, "".join(tail) or "".join(out[-_KEPT_LINES:]), self.log)
        return "".join(out)

    def _note(self, argv: Sequence[str], code: int, out: Sequence[str], tail: Sequence[str]) -> None:
        if self.log is None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as stream:
            stream.write(f"$ {shlex.join(argv)}\n")
            stream.writelines(tail)
            if code:
                stream.writelines(out[-_KEPT_LINES:])
            stream.write(f"# exit code {code}\n")


def _bound_to_us(argv: Sequence[str]) -> list[str]:
    """The command, set to die with us: a build killed with -9 must not leave a compiler running."""
    if (setpriv := shutil.which("setpriv")) is None:
        return list(argv)
    return [setpriv, "--pdeathsig", "KILL", "--", *argv]
