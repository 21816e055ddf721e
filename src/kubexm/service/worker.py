"""One task, carried out in a process of its own by the same ClusterService the command line uses.

Apart from the server, so that neither slows the other down and a crash takes one task along, not all. It ends with its
server: when the pipe it got its job through is closed, it stops as if it were asked to twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from pathlib import Path

from kubexm.engine import Cancellation
from kubexm.errors import KubexmError
from kubexm.events import Event, EventKind
from kubexm.redact import Redactor
from kubexm.service.cluster import ClusterService
from kubexm.service.jobs import STOP_NOW, Job, Outcome, progress_line
from kubexm.service.reports import ServiceOptions, Watch
from kubexm.service.troubles import trouble

__all__ = ["main"]

_LINGER = 20.0  # seconds a run has to stop when its server is gone


class _Stop:
    """How the server stops the task: once to finish what runs, twice to stop now; before it begins, at once."""

    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self.begun = False
        self._asked = 0
        self._work: asyncio.Task[Outcome] | None = None

    def on_event(self, event: Event) -> None:
        self.begun |= event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED)

    def watch(self, work: asyncio.Task[Outcome]) -> None:
        self._work = work
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.once)
        loop.add_signal_handler(signal.SIGTERM, self.now)

    def once(self) -> None:
        self._asked += 1
        if (not self.begun or self._asked > 2) and self._work is not None:
            self._work.cancel()
        else:
            self.cancellation.cancel()

    def now(self) -> None:
        if not self.begun:
            self.once()
        while self.begun and self._asked < 2:
            self.once()


async def _carry_out(job: Job, stop: _Stop) -> Outcome:
    redact = Redactor(job.secrets.values())
    service = ClusterService(
        ServiceOptions(
            logger=logging.getLogger("kubexm"),
            work_dir=job.work_dir,
            progress=_tell,
            stored=job.secrets,
        )
    )
    try:
        return Outcome(status=await _do(service, job, stop))
    except KubexmError as error:
        return Outcome(error=trouble(error, redact))
    except Exception as error:
        logging.getLogger("kubexm").exception("task %s failed", job.task)
        return Outcome(error=trouble(error, redact))


async def _do(service: ClusterService, job: Job, stop: _Stop) -> str:
    file, spec = Path(job.file), job.spec
    watch = Watch(observers=(stop,), cancellation=stop.cancellation, run=job.task)
    match job.kind:
        case "run" if spec is not None:
            result = await service.run(file, spec, watch)
        case "apply" if spec is not None:
            result = await service.apply(Path(job.plan), spec, watch, file=file)
        case "resume":
            result = await service.resume(service.run_files(job.task, file).path, watch, file=file)
        case "plan" if spec is not None:
            (await service.plan(file, spec, offline=job.offline)).save(Path(job.out))
            return "succeeded"
        case "facts":
            report = await service.facts(file)
            data = {
                "facts": {name: facts.to_dict() for name, facts in report.facts.items()},
                "unreached": {name: trouble(error) for name, error in report.unreached.items()},
            }
            _write(Path(job.out), json.dumps(data))
            return "partial" if report.unreached else "succeeded"
        case _:
            raise KubexmError(f"no worker knows what {job.kind!r} is")
    return result.status.value


def _tell(host: str, state: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(progress_line(host, state))
        sys.stdout.buffer.flush()


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


async def _main() -> Outcome:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    job, stop = Job.from_line(await reader.readline()), _Stop()
    work = asyncio.create_task(_carry_out(job, stop))
    stop.watch(work)
    server = asyncio.create_task(_heed(reader, stop))
    try:
        await asyncio.wait((work, server), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():  # the server is gone
            stop.now()
            await asyncio.wait((work,), timeout=_LINGER)
            if not work.done():
                os._exit(1)  # whatever hangs there, a resume settles it
        return await work
    except asyncio.CancelledError:
        return Outcome(status="cancelled")
    finally:
        server.cancel()


async def _heed(reader: asyncio.StreamReader, stop: _Stop) -> None:
    """Stops the work as the server asks; returns when the server is gone."""
    while line := await reader.readline():
        stop.now() if line == STOP_NOW else stop.once()


def main() -> None:
    """Reads a job from standard input, carries it out, and writes the outcome to standard output."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    outcome = asyncio.run(_main())
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(outcome.to_line())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
