"""One (node, host) from its turn to its end: precheck, run, recheck; after a crash, settle first.

Knows how a unit is carried out, not when: the order of things is the state machine's.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from kubexm.connector import Receipt, ReceiptState
from kubexm.engine.bounded import within
from kubexm.engine.prior import PriorAttempt
from kubexm.engine.recorder import Recorder, UnitLog
from kubexm.errors import CommandError, CommandTimeout, KubexmError, OutcomeUnknown, UnsettledError
from kubexm.events import EventKind
from kubexm.plan import ExecutionNode
from kubexm.runtime import Context, StepContext, Transcript, UnitConnector
from kubexm.step import Check, Values

__all__ = ["Attempt", "Outcome"]

_RUNNING = EventKind.UNIT_RUNNING
_RUN_TIMEOUT = 1800.0
_PRECHECK_TIMEOUT = 120.0


@dataclass(slots=True)
class Outcome:
    """What came of an attempt that did not fail."""

    changed: bool
    check: Check
    values: Values = field(default_factory=dict)


class Attempt:
    """One go at one unit."""

    __slots__ = ("_ctx", "_log", "_recorder", "actor", "connector", "host", "movable", "node", "step_context")

    def __init__(
        self,
        ctx: Context,
        recorder: Recorder,
        run: str,
        node: ExecutionNode,
        host: str,
        actor: str,
        urgency: float = 0.0,
    ) -> None:
        """`host` is what the unit is about, `actor` the host it acts from."""
        self._ctx = ctx
        self._recorder = recorder
        self.host = host
        self.actor = actor
        self.movable = True
        """Whether another host may take over: not once something has begun that cannot be read back."""
        self._log: UnitLog | None = None
        self.node = node
        runtime = ctx.host_runtimes[actor]
        self.connector = UnitConnector(runtime.connector, self._transcript, urgency)
        self.step_context = StepContext(ctx, node.id, runtime, self.connector, run, subject=host)

    def _transcript(self) -> Transcript:
        if self._log is None:
            self._log = self._recorder.log(self.node.id, self.host)
        return self._log.transcript

    def output(self) -> tuple[str, str]:
        """What the changing commands printed, masked."""
        if self._log is None:
            return "", ""
        self._log.flush()
        return self._log.texts()

    async def precheck(self) -> Check:
        """Reads whether the state holds."""
        try:
            return await within(_PRECHECK_TIMEOUT, self.node.step.precheck(self.step_context))
        except TimeoutError:
            raise self._too_slow(f"reading whether it is so took longer than {_PRECHECK_TIMEOUT:g} s") from None

    async def change(self, number: int, receipts: str, before: Check) -> Outcome:
        """Makes intent durable, runs the step, and reads back until its state holds, if that can be read at all."""
        timeout = self.node.timeout or _RUN_TIMEOUT
        facts = self._ctx.host_runtimes[self.actor].facts
        self.movable = before.satisfied is not None
        intent = {"attempt": number, "receipts": receipts, "boot": facts.boot_id, "deadline": time.time() + timeout}
        if self.actor != self.host:
            intent["actor"] = self.actor
        self._recorder.emit(_RUNNING, self.node.id, self.host, intent)
        if (pending := self._recorder.journal.pending()) is not None:
            await pending
        self.connector.begin(receipts)
        try:
            values = await within(timeout, self.node.step.run(self.step_context))
        except TimeoutError:
            raise self._too_slow(f"did not finish within {timeout:g} s") from None
        finally:
            self.connector.end()
        check = before if before.satisfied is None else await self._recheck()
        return Outcome(changed=True, check=check, values={**values, **check.values} if values else check.values)

    async def _recheck(self) -> Check:
        step = self.node.step
        deadline = time.monotonic() + step.settle
        wait = 0.05
        while True:
            check = await self.precheck()
            if check.satisfied is not False:
                return check
            left = deadline - time.monotonic()
            if left <= 0:
                after = f" within {step.settle:g} s" if step.settle else ""
                raise UnsettledError(
                    f"{step.describe()}: it was run, and is still not so{after}"
                    + (f": {check.reason}" if check.reason else ""),
                    host=self.host,
                    hint="the log of this step has what its commands printed",
                )
            await asyncio.sleep(min(wait, left))
            wait = min(wait * 2, 1.0)

    async def settle(self, prior: PriorAttempt) -> Outcome | None:
        """Finds out how an interrupted change ended: done, or None if it may be run (again). Raises if it failed."""
        connector = self.connector
        there = (prior.actor or self.host) == self.actor
        receipts: tuple[Receipt, ...] = ()
        if there:  # else the host that has the receipts cannot be reached
            receipts = await connector.settle(f"{prior.receipts}.", wait=max(0.0, prior.deadline - time.time()))
        check = await self.precheck()
        if check.satisfied:
            return Outcome(changed=True, check=check, values=check.values)
        if check.satisfied is False:
            return None
        if any(receipt.state is ReceiptState.ENDED for receipt in receipts):
            return None  # kubexm itself ended the command, so that says nothing about the step: run it again
        if receipts and self.node.step.commands == 1:
            self._record(receipts[-1])
            self._judge(receipts[-1])
            return Outcome(changed=True, check=check)
        if there and not receipts and prior.boot_id and await connector.boot_id() == prior.boot_id:
            return None  # no receipt on the same boot: the command never began
        raise self.unknown()

    def _record(self, receipt: Receipt) -> None:
        """Logs everything the command printed: nobody may have been connected to see it."""
        if receipt.stdout:
            self._transcript().write("stdout", receipt.stdout)
        if receipt.stderr:
            self._transcript().write("stderr", receipt.stderr)

    def _judge(self, receipt: Receipt) -> None:
        if receipt.state is not ReceiptState.EXITED or receipt.exit_code is None:
            raise self.unknown()
        if receipt.exit_code:
            raise CommandError(
                host=self.host,
                command=self.node.step.describe(),
                exit_code=receipt.exit_code,
                stdout=self._recorder.redactor(receipt.stdout.decode(errors="replace")),
                stderr=self._recorder.redactor(receipt.stderr.decode(errors="replace")),
            )

    def unknown(self) -> OutcomeUnknown:
        """The error for a change nobody can tell the end of."""
        return OutcomeUnknown(
            f"{self.node.step.describe()}: it had begun, nothing tells how it ended, and nothing can be read back",
            host=self.host,
            hint="look at the host; run it again yourself if it must be, or start a new run",
        )

    def _too_slow(self, what: str) -> KubexmError:
        return CommandTimeout(
            host=self.host,
            command=self.node.step.describe(),
            exit_code=124,
            message=f"{self.node.step.describe()}: {what}",
            hint="a slow host or disk? the step was stopped; resume the run to try again",
        )
