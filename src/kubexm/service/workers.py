"""Worker processes, from the server's side: started with a job, asked to stop, waited for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubexm.service.jobs import STOP, STOP_NOW, Job, Outcome, progress_of

__all__ = ["WORKER", "Worker", "worker_environment"]

WORKER = (sys.executable, "-m", "kubexm.service.worker")
_KEPT = frozenset(
    {"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONWARNINGS", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
)
_MOST_OUTPUT = 2**24


def worker_environment(home: Path, cache: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a worker gets of the server's environment: no key of the store, no agent, no home with keys in it."""
    kept = {name: value for name, value in environ.items() if name in _KEPT}
    return {**kept, "HOME": str(home), "KUBEXM_CACHE": str(cache)}


class Worker:
    """One worker process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.asked_to_stop = False
        self.hosts: dict[str, str] = {}
        """How far each host is while they are connected: connecting, connected, ready or failed."""

    @classmethod
    async def start(cls, command: Sequence[str], job: Job, environment: Mapping[str, str]) -> Worker:
        """Starts it and hands it the job; its standard input stays open for as long as this server lives."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(environment),
            limit=_MOST_OUTPUT,
            start_new_session=True,  # Ctrl-C in the server's terminal is the server's business
        )
        worker = cls(process)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is gone already: its exit code tells
            process.stdin.write(job.to_line())
            await process.stdin.drain()
        return worker

    def stop(self, *, now: bool = False) -> None:
        """Asks it to finish what runs and start nothing; a second time, or with `now`, to stop at once.

        Sent through its standard input: a signal that arrives while Python still starts would end it with a traceback.
        """
        self.asked_to_stop = True
        stdin = self._process.stdin
        if self._process.returncode is None and stdin is not None and not stdin.is_closing():
            stdin.write(STOP_NOW if now else STOP)

    def kill(self) -> None:
        """Ends it, whatever it does."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    async def outcome(self) -> Outcome:
        """How the job ended; without status and error if the process died."""
        assert self._process.stdout is not None
        line = b""
        async for said in self._process.stdout:
            if (found := progress_of(said)) is not None:
                self.hosts[found[0]] = found[1]
            elif said.strip():
                line = said
        code = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            return Outcome.from_line(line)
        except (ValueError, TypeError):
            how = f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
            return Outcome(
                error={
                    "kind": "WorkerDied",
                    "message": f"the worker process {how}",
                    "hint": "the server's log may tell why; resuming the task goes on where it stopped",
                }
            )
