"""Attempts that are carried out in this process: precheck, run, recheck; after a crash, settle first; rollback.

Knows how a unit is carried out, not when: the order of things is the state machine's. Writes nothing down: intent,
logs, values and secrets are the driver's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from kubexm.cache import StepCache
from kubexm.connector import Receipt, ReceiptState, Stream
from kubexm.engine.asked import Asked, Fault, Report, declares
from kubexm.engine.bounded import within
from kubexm.errors import CommandError, CommandTimeout, KubexmError, OutcomeUnknown, StepError, UnsettledError
from kubexm.redact import Redactor, Secret, SecretRef
from kubexm.runtime import Context, StepContext, Transcript, UnitConnector
from kubexm.step import Check, Reversible

__all__ = ["LocalAttempts", "Output"]

Output = Callable[[str, str, Stream, bytes], None]
"""Takes what changing commands print as it comes: node, host, stream, bytes."""
_PRECHECK_TIMEOUT = 120.0
_KEPT = 1000


class LocalAttempts:
    """Acts over the connections of this process."""

    def __init__(self, ctx: Context, output: Output) -> None:
        self._ctx = ctx
        self._output = output
        self._calls: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._looked: dict[tuple[str, str], _Attempt] = {}
        self._counted: dict[str, Any] = {
            name: host.connector for name, host in ctx.host_runtimes.items() if hasattr(host.connector, "round_trips")
        }
        """Connectors that count their round trips."""

    async def look(self, asked: Asked) -> Report:
        """Reads whether the state holds."""
        attempt = _Attempt(self._ctx, asked, self._output)
        task, report = self._begin(asked), attempt.report
        try:
            check = report.check = await within(_PRECHECK_TIMEOUT, asked.node.step.precheck(attempt.step_context))
            if check.satisfied:
                report.done, report.values = True, check.values
            else:
                self._keep(attempt)
        except BaseException as error:  # noqa: BLE001 - told apart there
            self._ended_by(error, attempt, task)
        return self._finish(attempt)

    def _keep(self, attempt: _Attempt) -> None:
        """Most units that are looked at and are not so are run next: what was made for them is used again."""
        while len(self._looked) >= _KEPT:
            del self._looked[next(iter(self._looked))]
        self._looked[attempt.asked.node.id, attempt.asked.host] = attempt

    async def run(self, asked: Asked, receipts: str, *, seconds: float, readable: bool) -> Report:
        """Runs the step, and reads back until its state holds, if that can be read at all."""
        attempt = self._looked.pop((asked.node.id, asked.host), None)
        if attempt is None or attempt.asked is not asked:
            attempt = _Attempt(self._ctx, asked, self._output)
        else:
            attempt.again()
        return await self._call(attempt, attempt.run(receipts, seconds, readable))

    async def settle(self, asked: Asked, receipts: str, *, boot_id: str, seconds: float, here: bool) -> Report:
        """Reads receipts and state."""
        attempt = _Attempt(self._ctx, asked, self._output)
        return await self._call(attempt, attempt.settle(receipts, boot_id, seconds, here))

    async def undo(self, asked: Asked, receipts: str, *, seconds: float) -> Report:
        """Calls the step's rollback."""
        attempt = _Attempt(self._ctx, asked, self._output)
        return await self._call(attempt, attempt.undo(receipts, seconds))

    def stop(self, node: str, host: str) -> None:
        """Cancels the task that is in a call for this unit."""
        if (task := self._calls.get((node, host))) is not None:
            task.cancel()

    async def _call(self, attempt: _Attempt, work: Coroutine[Any, Any, None]) -> Report:
        task = self._begin(attempt.asked)
        try:
            await work
        except BaseException as error:  # noqa: BLE001 - told apart there
            self._ended_by(error, attempt, task)
        return self._finish(attempt)

    def _begin(self, asked: Asked) -> asyncio.Task[Any]:
        task = asyncio.current_task()
        assert task is not None
        self._calls[asked.node.id, asked.host] = task
        return task

    def _ended_by(self, error: BaseException, attempt: _Attempt, task: asyncio.Task[Any]) -> None:
        """A failing step, or a bug in one, ends its unit and not the run; only what ends the process goes on."""
        name = (attempt.asked.node.id, attempt.asked.host)
        if isinstance(error, asyncio.CancelledError):
            task.uncancel()
            attempt.report.interrupted = True
        elif isinstance(error, Exception):
            if isinstance(error, TimeoutError):
                error = attempt.too_slow(f"reading whether it is so took longer than {_PRECHECK_TIMEOUT:g} s")
            self._ctx.logger.debug("%s on %s failed", *name, exc_info=error)
            attempt.report.fault = Fault.of(error, self._ctx.redactor)
        else:
            self._calls.pop(name, None)
            raise error

    def _finish(self, attempt: _Attempt) -> Report:
        asked = attempt.asked
        self._calls.pop((asked.node.id, asked.host), None)
        attempt.finish()
        if (counted := self._counted.get(asked.actor)) is not None:
            attempt.report.round_trips = counted.round_trips
        return attempt.report


class _Attempt:
    """One call for one unit."""

    __slots__ = (
        "_cache",
        "_connector",
        "_ctx",
        "_output",
        "_secrets",
        "_transcript",
        "asked",
        "report",
        "step_context",
    )

    def __init__(self, ctx: Context, asked: Asked, output: Output) -> None:
        self._ctx = ctx
        self._output = output
        self._transcript: Transcript | None = None
        self._cache: StepCache | None = None
        self.asked = asked
        self.report = Report()
        node, runtime = asked.node, ctx.host_runtimes[asked.actor]
        self._connector = UnitConnector(runtime.connector, self._log, asked.urgency)
        self._secrets: _UnitSecrets | None = None
        self.step_context = StepContext(
            ctx, node.id, runtime, self._connector, asked.run,
            subject=asked.host, cache=self._given, secrets=self._given_secrets, sources=node.step.sources,
        )  # fmt: skip

    def _given(self) -> StepCache:
        if self._cache is None:
            self._cache = StepCache.over(self.asked.notes, self.asked.values)
        return self._cache

    def _given_secrets(self) -> _UnitSecrets:
        if self._secrets is None:
            self._secrets = _UnitSecrets(self.asked, self._ctx.redactor)
        return self._secrets

    def _log(self) -> Transcript:
        if self._transcript is None:
            node, host = self.asked.node.id, self.asked.host
            self._transcript = Transcript(lambda stream, data: self._output(node, host, stream, data))
        return self._transcript

    def again(self) -> None:
        """Begins another call for the same unit; what the last one left behind was reported."""
        self.report = Report()
        self._transcript = self._cache = self._secrets = None
        self._connector.busy = 0.0
        self.step_context.renew()

    def finish(self) -> None:
        """Puts into the report what came along, however the call ended."""
        report, connector = self.report, self._connector
        if self._transcript is not None:
            report.stdout, report.stderr = self._transcript.text("stdout"), self._transcript.text("stderr")
        if self.step_context.warnings:
            report.warnings = tuple(self.step_context.warnings)
        if self._cache is not None:
            report.notes = self._cache.own
        if self._secrets is not None and self._secrets.kept:
            report.kept = self._secrets.kept
        report.busy = connector.busy

    async def _precheck(self) -> Check:
        return await within(_PRECHECK_TIMEOUT, self.asked.node.step.precheck(self.step_context))

    async def run(self, receipts: str, seconds: float, readable: bool) -> None:
        """Runs the step, and reads back until its state holds, if that can be read at all."""
        self._connector.begin(receipts)
        try:
            values = await within(seconds, self.asked.node.step.run(self.step_context))
        except TimeoutError:
            raise self.too_slow(f"did not finish within {seconds:g} s") from None
        finally:
            self._connector.end()
        report = self.report
        check = report.check = await self._recheck() if readable else Check.unreadable()
        report.done, report.values = True, {**values, **check.values} if values else check.values

    async def _recheck(self) -> Check:
        step = self.asked.node.step
        deadline = time.monotonic() + step.settle
        wait = 0.05
        while True:
            check = await self._precheck()
            if check.satisfied is not False:
                return check
            left = deadline - time.monotonic()
            if left <= 0:
                after = f" within {step.settle:g} s" if step.settle else ""
                raise UnsettledError(
                    f"{step.describe()}: it was run, and is still not so{after}"
                    + (f": {check.reason}" if check.reason else ""),
                    host=self.asked.host,
                    hint="the log of this step has what its commands printed",
                )
            await asyncio.sleep(min(wait, left))
            wait = min(wait * 2, 1.0)

    async def settle(self, prefix: str, boot_id: str, seconds: float, here: bool) -> None:
        """Finds out how an interrupted change ended."""
        connector, report = self._connector, self.report
        receipts: tuple[Receipt, ...] = ()
        if here:  # else the host that has the receipts cannot be reached
            receipts = await connector.settle(f"{prefix}.", wait=seconds)
        check = report.check = await self._precheck()
        if check.satisfied:
            report.done, report.values = True, check.values
            return
        if check.satisfied is False:
            return
        if any(receipt.state is ReceiptState.ENDED for receipt in receipts):
            return  # kubexm itself ended the command, so that says nothing about the step: run it again
        if receipts and self.asked.node.step.commands == 1:
            self._record(receipts[-1])
            self._judge(receipts[-1])
            report.done = True
            return
        if here and not receipts and boot_id and await connector.boot_id() == boot_id:
            return  # no receipt on the same boot: the command never began
        raise self._unknown()

    def _record(self, receipt: Receipt) -> None:
        """Logs everything the command printed: nobody may have been connected to see it."""
        if receipt.stdout:
            self._log().write("stdout", receipt.stdout)
        if receipt.stderr:
            self._log().write("stderr", receipt.stderr)

    def _judge(self, receipt: Receipt) -> None:
        if receipt.state is not ReceiptState.EXITED or receipt.exit_code is None:
            raise self._unknown()
        if receipt.exit_code:
            raise CommandError(
                host=self.asked.host,
                command=self.asked.node.step.describe(),
                exit_code=receipt.exit_code,
                stdout=self._ctx.redactor(receipt.stdout.decode(errors="replace")),
                stderr=self._ctx.redactor(receipt.stderr.decode(errors="replace")),
            )

    async def undo(self, receipts: str, seconds: float) -> None:
        """Rolls back."""
        step = self.asked.node.step
        assert isinstance(step, Reversible)
        self._connector.begin(receipts)
        try:
            await within(seconds, step.rollback(self.step_context))
        except TimeoutError:
            raise self.too_slow(f"could not be undone within {seconds:g} s") from None
        finally:
            self._connector.end()
        self.report.done = True

    def _unknown(self) -> OutcomeUnknown:
        """The error for a change nobody can tell the end of."""
        what = self.asked.node.step.describe()
        return OutcomeUnknown(
            f"{what}: it had begun, nothing tells how it ended, and nothing can be read back",
            host=self.asked.host,
            hint="look at the host; run it again yourself if it must be, or start a new run",
        )

    def too_slow(self, what: str) -> KubexmError:
        """The error for something that passed its deadline."""
        step = self.asked.node.step
        return CommandTimeout(
            host=self.asked.host,
            command=step.describe(),
            exit_code=124,
            message=f"{step.describe()}: {what}",
            hint="a slow host or disk? the step was stopped; resume the run to try again",
        )


class _UnitSecrets:
    """The secrets of one call: those its step declares, and those it makes, which the report hands over."""

    __slots__ = ("_asked", "_names", "_redactor", "kept")

    def __init__(self, asked: Asked, redactor: Redactor) -> None:
        self._asked = asked
        self._redactor = redactor
        self._names: tuple[str, ...] | None = None
        self.kept: dict[str, Secret] = {}

    def get(self, ref: SecretRef) -> Secret:
        """The secret of this name."""
        if (kept := self.kept.get(ref.name)) is not None:
            return kept
        self._refuse_undeclared(ref.name)
        try:
            return self._asked.secrets[ref.name]
        except KeyError:
            raise KubexmError(
                f"the secret {ref.name!r} is not in the work directory", hint="run the command that makes it again"
            ) from None

    def __contains__(self, ref: SecretRef) -> bool:
        if ref.name in self.kept:
            return True
        self._refuse_undeclared(ref.name)
        return ref.name in self._asked.secrets

    def put_all(self, secrets: Mapping[str, Secret]) -> None:
        """Hands them over with the report."""
        for secret in secrets.values():
            self._redactor.add(secret)
        self.kept.update(secrets)

    def _refuse_undeclared(self, name: str) -> None:
        if self._names is None:
            self._names = self._asked.node.step.secrets(self._asked.actor)
        if not declares(self._names, name):
            raise StepError(
                f"{self._asked.node.id} uses the secret {name}, which its step does not declare",
                host=self._asked.actor,
                hint="this is a bug: its `secrets` must name it",
            )
