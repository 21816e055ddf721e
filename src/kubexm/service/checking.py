"""Specs, checked beside the server: in processes of their own, within a time, and once for all who ask for the same.

The server's event loop must not parse: a large spec takes seconds, a hostile one as long as it likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubexm.config import ConfigErrors, Problem
from kubexm.errors import KubexmError
from kubexm.service.checker import READY
from kubexm.store.texts import from_json, to_json

__all__ = ["CHECKER", "Checked", "SpecChecker"]

CHECKER = (sys.executable, "-m", "kubexm.service.checker")
_KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONWARNINGS")
_MOST_ANSWER = 2**26
_MOST_KNOWN = 256
_MOST_KNOWN_SIZE = 2**20
_START = 60.0  # seconds a process has to start


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A valid spec: what it is called, what is doubtful about it, and what it names."""

    name: str
    warnings: tuple[Problem, ...]
    secrets: frozenset[str]
    files: frozenset[str]
    edits: tuple[Mapping[str, Any], ...]
    """What differs from the older one it was compared with, and what may be done about each."""


class SpecChecker:
    """A few processes that check specs. They start when they are needed; `close` ends them."""

    def __init__(self, *, processes: int = 2, seconds: float = 30.0, command: Sequence[str] = CHECKER) -> None:
        self._seconds = seconds
        self._command = command
        self._free = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []
        self._turns: dict[str, asyncio.Lock] = {}
        self._known: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[Mapping[str, Any]]] = {}

    async def check(self, text: str, *, old: str = "", sent: bool = True, who: str = "") -> Checked:
        """The spec, if it is valid; ConfigErrors with everything that is wrong with it, or if it takes too long.

        With `sent` also what a server refuses of a spec that comes from elsewhere. `old` is the spec to compare with.
        Whoever `who` names has one check at a time, and so never all processes.
        """
        request = {"text": text, "old": old, "sent": sent}
        key = hashlib.sha256(to_json(request).encode()).hexdigest()
        if key in self._known:
            self._known.move_to_end(key)
            return _checked(self._known[key])
        work = self._asked.get(key)
        if work is None:
            work = self._asked[key] = asyncio.create_task(self._answer(key, request, who))
            work.add_done_callback(lambda _: self._asked.pop(key, None))
        return _checked(await asyncio.shield(work))

    async def close(self) -> None:
        """Ends all processes."""
        for work in list(self._asked.values()):
            work.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        while self._idle:
            await self._idle.pop().end()

    async def _answer(self, key: str, request: Mapping[str, Any], who: str) -> Mapping[str, Any]:
        async with self._turn(who), self._free:
            process = self._idle.pop() if self._idle else await _Process.start(self._command)
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await process.ask(request)
            except TimeoutError:
                await process.end()
                return {"failed": f"it takes longer than {self._seconds:g} s"}
            except BaseException:
                await process.end()
                raise
            if "failed" in answer:
                await process.end()
                return answer
            self._idle.append(process)
        self._keep(key, answer)
        return answer

    def _keep(self, key: str, answer: Mapping[str, Any]) -> None:
        if len(str(answer)) <= _MOST_KNOWN_SIZE:
            self._known[key] = answer
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    @contextlib.asynccontextmanager
    async def _turn(self, who: str) -> AsyncIterator[None]:
        if not who:
            yield
            return
        async with self._turns.setdefault(who, asyncio.Lock()):  # one for each who has a token: they are few
            yield


class _Process:
    """One process that checks."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, command: Sequence[str]) -> _Process:
        """Starts it, without the server's environment, and waits until it can be asked."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            limit=_MOST_ANSWER,
            start_new_session=True,  # Ctrl-C in the server's terminal is the server's business
        )
        made = cls(process)
        try:
            async with asyncio.timeout(_START):
                began = await made._line() == READY
        except BaseException:
            await made.end()
            raise
        if not began:
            await made.end()
            raise _died()
        return made

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(to_json(request).encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _died() from None
        line = await self._line()
        if not line.endswith(b"\n"):
            raise _died()
        answer: dict[str, Any] = from_json(line.decode())
        return answer

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.readline()

    async def end(self) -> None:
        """Ends it, whatever it does."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


def _died() -> KubexmError:
    return KubexmError("the process that checks specs ended", hint="try again; the server's log gives the cause")


def _checked(answer: Mapping[str, Any]) -> Checked:
    if "failed" in answer:
        raise ConfigErrors(
            [
                Problem(
                    file="cluster.yaml",
                    line=0,
                    column=0,
                    path="",
                    message=f"this spec cannot be checked: {answer['failed']}",
                    hint="is it a cluster.yaml? Host ranges such as `n[1:100]` keep large ones short",
                )
            ]
        )
    if "problems" in answer:
        raise ConfigErrors(_problems(answer["problems"]), _problems(answer["warnings"]))
    return Checked(
        name=answer["name"],
        warnings=tuple(_problems(answer["warnings"])),
        secrets=frozenset(answer["secrets"]),
        files=frozenset(answer["files"]),
        edits=tuple(answer["edits"]),
    )


def _problems(told: list[dict[str, Any]]) -> list[Problem]:
    return [Problem(**{**each, "span": tuple(each["span"])}) for each in told]
