"""What changes leave on their host, read back. Must not know how a host is reached, only whom to ask."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from kubexm.connector.base import Command, CommandResult, Receipt, ReceiptState
from kubexm.connector.output import HEAD, TAIL

__all__ = ["Read", "Trace", "fetch", "look", "settle"]

Read = Callable[[Command], Awaitable[CommandResult]]
"""Runs a read where the receipts are."""

_POLL = 0.25
_GRACE = 0.5
"""A command that is gone without an exit code may be just about to get one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A receipt without its output."""

    name: str
    state: ReceiptState
    exit_code: int | None
    started: float
    left: float
    """Seconds until its deadline on the host."""
    digest: str


async def look(read: Read, prefix: str, boot_id: str) -> list[Trace]:
    """All receipts whose names start so."""
    result = await read(Command(script=f"k_receipts {shlex.quote(prefix)}", display="reading receipts"))
    return [_trace(line.split(), boot_id) for line in result.check().text.splitlines() if line.strip()]


def _trace(words: list[str], boot_id: str) -> Trace:
    name, code, life, now, boot, begun, limit, digest = (*words, *[""] * 8)[:8]
    if not digest:  # the host went down, or its disk was full, while the claim was written
        return Trace(name=name, state=ReceiptState.LOST, exit_code=None, started=0.0, left=0.0, digest="")
    age = float(now) - float(begun)
    if life == "ended" and code != "0":  # one that was done when the signal arrived has succeeded
        state = ReceiptState.ENDED
    elif code != "-":
        state = ReceiptState.EXITED
    elif life == "alive" and boot == boot_id:
        state = ReceiptState.RUNNING
    else:
        state = ReceiptState.LOST
    return Trace(
        name=name,
        state=state,
        exit_code=int(code) if code != "-" else None,
        started=time.time() - age if boot == boot_id else 0.0,
        left=float(limit) - age,
        digest=digest,
    )


async def fetch(read: Read, directory: str, traces: Iterable[Trace]) -> tuple[Receipt, ...]:
    """The receipts with their output, up to what a result keeps."""

    async def whole(trace: Trace) -> Receipt:
        out, err = await asyncio.gather(*(read(_output(f"{directory}/{trace.name}.{kind}")) for kind in "oe"))
        return Receipt(
            name=trace.name,
            state=trace.state,
            exit_code=trace.exit_code,
            stdout=out.stdout,
            stderr=err.stdout,
            started=trace.started,
        )

    return tuple(await asyncio.gather(*(whole(trace) for trace in traces)))


def _output(path: str) -> Command:
    file = shlex.quote(path)
    script = (
        f"[ -e {file} ] || exit 0; k_size=$(stat -c %s {file}); "
        f'if [ "$k_size" -le {HEAD + TAIL} ]; then cat {file}; '
        f"else head -c {HEAD} {file}; printf '\\n… %s bytes left out …\\n' $((k_size - {HEAD + TAIL})); "
        f"tail -c {TAIL} {file}; fi"
    )
    return Command(script=script, display=f"reading {path}")


async def settle(read: Read, prefix: str, boot_id: str, wait: float) -> list[Trace]:
    """Waits for running commands; those still running after `wait` are ended."""
    deadline = time.monotonic() + wait
    traces = await look(read, prefix, boot_id)
    while running := [trace for trace in traces if trace.state is ReceiptState.RUNNING]:
        if time.monotonic() >= deadline:
            ends = "; ".join(f"k_end_receipt {shlex.quote(trace.name)}" for trace in running)
            await read(Command(script=ends, timeout=60.0, display="ending what is overdue"))
            break
        await asyncio.sleep(max(0.01, min(_POLL, deadline - time.monotonic())))
        traces = await look(read, prefix, boot_id)
    else:
        if not any(trace.state is ReceiptState.LOST for trace in traces):
            return traces
    # Whoever was ended, or is gone without a code, gets one from its shell in a moment, if that shell still lives.
    await asyncio.sleep(_GRACE)
    return [_stopped(trace) for trace in await look(read, prefix, boot_id)]


def _stopped(trace: Trace) -> Trace:
    if trace.state is not ReceiptState.RUNNING:
        return trace
    return Trace(
        name=trace.name,
        state=ReceiptState.LOST,
        exit_code=None,
        started=trace.started,
        left=trace.left,
        digest=trace.digest,
    )
