"""The engine that runs in this process, on asyncio. Drives the state machine and holds no rule of its own."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

from kubexm.cache import RUN_CHANGED
from kubexm.engine.ahead import ReadAhead
from kubexm.engine.asked import Asked, AttemptFailed, Attempts, Fault, Report
from kubexm.engine.attempts import LocalAttempts, Output
from kubexm.engine.base import RunOptions
from kubexm.engine.layout import HostIndex, Layout, Root, Unit
from kubexm.engine.recorder import Recorder
from kubexm.engine.rollback import roll_back
from kubexm.engine.state import RunState
from kubexm.engine.values import ValueBook
from kubexm.errors import ConnectError, JournalError
from kubexm.events import EventKind
from kubexm.plan import (
    ErrorInfo,
    ExecutionGraph,
    ExecutionNode,
    GraphExecutionResult,
    HostResult,
    NodeResult,
    Prediction,
    RunStatus,
    State,
)
from kubexm.runtime import Context
from kubexm.step import Check

__all__ = ["LocalEngine"]

_NOW, _ABANDONED = 2, 3  # of Cancellation.level


_RUN_TIMEOUT = 1800.0
_RUNNING = EventKind.UNIT_RUNNING


class LocalEngine:
    """Executes graphs on asyncio, at most `parallel` units at a time."""

    def __init__(
        self,
        *,
        parallel: int = 100,
        read_ahead: bool = True,
        attempts: Callable[[Context, Output], Attempts] = LocalAttempts,
    ) -> None:
        """`attempts`: who carries them out, given the context of a run and where output goes."""
        self._parallel = parallel
        self._read_ahead = read_ahead
        self._attempts = attempts

    async def execute(self, ctx: Context, graph: ExecutionGraph, options: RunOptions) -> GraphExecutionResult:
        """Runs the graph to its end, whatever happens on the hosts; every (node, host) has one final state."""
        if ctx.ignore_errors:
            graph = graph.all_optional()
        with _fewer_collections():
            run = _Run(ctx, graph, options, self._parallel, self._attempts, read_ahead=self._read_ahead)
            return await run.execute()


@contextmanager
def _fewer_collections() -> Iterator[None]:
    """A large run makes many objects that stay and few cycles: looking for these seldom saves a sixth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Work:
    """One unit from when it is taken until it ends or is put off: what was asked, and what its reports add up to."""

    __slots__ = ("actor", "asked", "busy", "host", "movable", "node", "started", "stderr", "stdout", "unit", "warnings")

    def __init__(self, unit: Unit, asked: Asked) -> None:
        self.unit = unit
        self.asked = asked
        self.node: ExecutionNode = asked.node
        self.host = asked.host
        self.actor = asked.actor
        self.started = time.time()
        self.movable = True
        """Whether another host may take over: not once something has begun that cannot be read back."""
        self.busy = 0.0
        self.stdout = ""
        self.stderr = ""
        self.warnings: tuple[str, ...] = ()


class _Run:
    """One execution."""

    def __init__(
        self,
        ctx: Context,
        graph: ExecutionGraph,
        options: RunOptions,
        parallel: int,
        attempts: Callable[[Context, Output], Attempts],
        *,
        read_ahead: bool,
    ) -> None:
        self._ctx = ctx
        self._graph = graph
        self._options = options
        self._layout = Layout(graph)
        self._prior = options.prior
        opened = self._prior.opened(self._layout) if self._prior is not None else ()
        self._state = RunState(self._layout, dry_run=options.dry_run, lost=ctx.unreached, opened=opened)
        self._recorder = Recorder(options.journal, options.observers, ctx.redactor, ctx.logger, options.logs)
        self._values = ValueBook(ctx, options.run)
        self._attempts = attempts(ctx, self._recorder.output)
        self._trips = self._round_trips()
        self._parallel = parallel
        self._workers: dict[asyncio.Task[None], Unit | None] = {}
        """Each with the unit it works on, if it is not idle."""
        self._idle: list[asyncio.Future[Unit | None]] = []
        self._timers = 0
        self._postponed: dict[Unit, ErrorInfo] = {}
        """Why the last attempt failed of units that are to have another."""
        self._stopping = 0
        """As `Cancellation.level`."""
        self._bug: BaseException | None = None
        self._lost_told: set[HostIndex] = set()
        self._gone: dict[str, str] = {}
        """Hosts that others acted from and that cannot be reached any more, and why."""
        self._ahead = ReadAhead(ctx, self._state, self._values, self._attempts) if read_ahead else None
        if self._prior is not None:
            self._values.restore(graph, self._prior)
            for name in (*self._prior.done, *self._prior.under_way):
                if self._prior.changed(name) and (unit := self._layout.unit(*name)) is not None:
                    self._note_change(unit)
            for name, attempt in self._prior.under_way.items():
                if attempt.actor and (unit := self._layout.unit(*name)) is not None:
                    self._state.act_from(unit, attempt.actor)

    async def execute(self) -> GraphExecutionResult:
        started = time.time()
        self._announce()
        self._options.cancellation.listen(self._stop)
        self._told()
        if self._ahead is not None and not self._state.over:
            self._ahead.start(self._prior)
        self._dispatch()
        await self._until_idle()
        if self._ahead is not None:
            await self._finished(self._ahead.stop())
        if self._bug is not None:
            raise self._bug
        self._state.conclude()
        self._told()
        status = self._state.status()
        if self._options.rollback and status in (RunStatus.FAILED, RunStatus.INTERRUPTED) and not self._options.dry_run:
            await roll_back(
                self._attempts,
                self._values,
                self._state,
                self._recorder,
                self._options.run,
                self._changed(),
                self._ctx.host_runtimes,
                self._prior,
            )
        self._recorder.emit(EventKind.RUN_ENDED, data={"status": status.value, "round_trips": self._trips})
        await self._options.journal.durable()
        return self._result(status, started)

    async def _until_idle(self) -> None:
        """Waits for the workers. However often this task is cancelled meanwhile, each unit gets its final state."""
        while self._workers:
            try:
                await asyncio.wait(self._workers, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                self._stop(self._stopping + 1 if self._stopping >= _NOW else _NOW)

    async def _finished(self, work: Coroutine[None, None, None]) -> None:
        """Waits for work that must not be left half done, cancelled or not."""
        task = asyncio.create_task(work)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if not task.done():
                    self._stop(_ABANDONED)
        await task

    # Workers

    def _dispatch(self) -> None:
        """Hands out whatever may start, to idle workers first."""
        while self._idle or len(self._workers) < self._parallel:
            unit = self._state.take()
            if unit is None:
                break
            if self._idle:
                self._idle.pop().set_result(unit)
            else:
                task = asyncio.create_task(self._work(unit))
                self._workers[task] = None  # until it has begun: it could not be told of a stop before
                task.add_done_callback(self._worker_ended)
        self._told()
        if self._state.over:
            for waiting in self._idle:
                waiting.set_result(None)
            self._idle.clear()
        elif not self._state.active and not self._timers:
            raise AssertionError("units are left, nothing is active and nothing can start")

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        del self._workers[task]
        if not task.cancelled() and (bug := task.exception()) is not None and self._bug is None:
            self._bug = bug
            self._stop(_ABANDONED)

    async def _work(self, unit: Unit) -> None:
        taken: Unit | None = unit
        me = asyncio.current_task()
        assert me is not None
        while taken is not None:
            self._workers[me] = taken
            await self._unit(taken)
            self._workers[me] = None
            if self._stopping == _ABANDONED:
                return
            taken = self._state.take()
            if taken is None:
                waiting: asyncio.Future[Unit | None] = asyncio.get_running_loop().create_future()
                self._idle.append(waiting)
                self._dispatch()
                taken = await waiting
            elif self._idle:
                self._dispatch()
            elif self._state.has_ended:
                self._told()

    def _told(self) -> None:
        """Tells of units that ended without being started, and of hosts that dropped out."""
        layout, state = self._layout, self._state
        for host, first in (*state.lost.items(), *state.unreached.items()):
            if host not in self._lost_told:
                self._lost_told.add(host)
                data: dict[str, object] = {"reason": self._why(first)}
                data |= {"unreached": True} if host in state.unreached else {}
                data |= {"hint": hint} if (hint := self._hint(first)) else {}
                self._recorder.emit(EventKind.HOST_LOST, host=layout.hosts[host], data=data)
        for unit in state.take_ended():
            node = layout.node_of(unit)
            final = state.final(unit)
            root = state.root.get(unit)
            reason = (node.excluded or "not demanded") if final is State.EXCLUDED else ""
            result = HostResult(
                host=layout.host_of(unit),
                state=final,
                attempts=state.attempts.get(unit, 0),
                error=self._postponed.get(unit) if final is State.FAILED else None,
                root_cause=None if root is None else self._cause(root),
                reason=reason if root is None else self._why(root),
                waited=self._waited(unit, final),
            )
            self._recorder.done(unit, node.id, result)

    def _cause(self, root: Root) -> tuple[str, str]:
        if root < 0:
            return "", self._layout.hosts[HostIndex(-1 - root)]
        return self._layout.name(Unit(root))

    def _why(self, root: Root) -> str:
        node, host = self._cause(root)
        if not node:
            error = self._ctx.unreached.get(host)
            why = error.message if error is not None else self._gone.get(host, "")
            return f"{host} could not be reached" + (f": {why}" if why else "")
        return f"{node} failed on {host}"

    def _hint(self, root: Root) -> str:
        """What to do about a host that could not be reached."""
        node, host = self._cause(root)
        error = self._ctx.unreached.get(host)
        return error.hint if not node and error is not None else ""

    # One unit

    async def _unit(self, unit: Unit) -> None:
        layout = self._layout
        node, host, actor = layout.node_of(unit), layout.host_of(unit), layout.hosts[self._state.place[unit]]
        if actor not in self._ctx.host_runtimes:
            self._unreachable(unit, actor, time.time())
            return
        work = _Work(unit, self._values.asked(node, host, actor, layout.rank[layout.unit_node[unit]]))
        try:
            changed, report = await self._carry_out(work)
        except asyncio.CancelledError:
            self._end(work, State.INTERRUPTED)
        except AttemptFailed as failed:
            self._fail(work, failed.fault)
        except Exception as error:  # noqa: BLE001 - what the driver itself finds wrong ends the unit and not the run
            if isinstance(error, JournalError):
                self._state.halt()  # without a journal nothing new may start
            self._fail(work, Fault.of(error, self._ctx.redactor), final=isinstance(error, JournalError))
        else:
            if report is not None:
                self._succeed(work, changed, report)

    def _stop_before(self, unit: Unit) -> None:
        """Between two calls the run may have been stopped."""
        if self._stopping >= _NOW and not self._state.closes(unit):
            raise asyncio.CancelledError

    async def _look(self, work: _Work) -> Report:
        self._stop_before(work.unit)
        report = await self._attempts.look(work.asked)
        if report.notes or report.kept:
            await self._values.take_in(work.node, report)
        return self._taken(work, report)

    def _taken(self, work: _Work, report: Report) -> Report:
        """Adds up what came along with a report; raises for one that is not of a call that went through."""
        work.busy += report.busy
        if report.warnings:
            work.warnings += report.warnings
        if report.stdout or report.stderr:
            work.stdout += report.stdout
            work.stderr += report.stderr
            self._recorder.flush(work.node.id, work.host)
        if report.round_trips is not None and work.actor in self._trips:
            self._trips[work.actor] = report.round_trips
        if report.interrupted:
            raise asyncio.CancelledError
        if report.fault is not None:
            raise AttemptFailed(report.fault)
        return report

    def _unreachable(self, unit: Unit, actor: str, started: float) -> None:
        """It is to run in any case, and nothing can be reached that it could act from."""
        node, host = self._layout.name(unit)
        error = ConnectError(self._why(Root(-1 - self._layout.host_index[actor])), host=actor)
        ended = HostResult(host, State.FAILED, started, time.time(), error=self._recorder.error(error))
        self._recorder.done(unit, node, ended)
        self._state.finish(unit, State.FAILED, host_gone=True)

    async def _carry_out(self, work: _Work) -> tuple[bool, Report | None]:
        """Whether it changed anything, and the last report: None if the unit goes on later, or was predicted."""
        unit = work.unit
        if self._prior is not None and (settled := await self._settle(work)) is not None:
            return settled
        if self._options.dry_run and self._predict_unread(work):
            return False, None
        report: Report | None = None
        if self._ahead is not None and self._ahead.has_read(unit):
            report = await self._ahead.verdict(unit)
            if report is not None:
                self._taken(work, report)
        if report is None:
            report = await self._look(work)
        if report.done:
            return False, report
        if self._state.demand(unit):
            self._dispatch()
            return False, None
        check = report.check
        assert check is not None
        if self._options.dry_run:
            self._predict(work, Prediction.CHANGE if self._writes(unit) else Prediction.WAIT, check)
            return False, None
        if self._layout.consumes[self._layout.unit_node[unit]]:
            self._values.require(work.node, work.host)
        return True, await self._brought_about(work, check)

    async def _brought_about(self, work: _Work, check: Check) -> Report:
        """Changes; if nobody can tell how that ended, reads again, and repeats it once where that is safe."""
        try:
            return await self._change(work, check)
        except AttemptFailed as failed:
            if not failed.fault.unknown:
                raise
            report = await self._look(work)
            if report.done:
                return report
            assert report.check is not None
            if not self._state.repeat_unknown(work.unit, report.check.satisfied):
                raise
            check = report.check
        self._retrying(work, "its outcome was unknown and its state does not hold", 0.0)
        return await self._change(work, check)

    def _predict_unread(self, work: _Work) -> bool:
        """In a dry run: predicts what cannot be read, because it depends on changes that are not made; else False."""
        unit = work.unit
        if self._state.would_close(unit):
            self._predict(work, Prediction.CHANGE, Check(False))
            return True
        if self._state.unknown(unit) or self._lacks_values(unit):
            reason = "depends on changes of an earlier step"
            self._predict(work, Prediction.UNKNOWN, Check(False, reason=reason))
            return True
        return False

    def _lacks_values(self, unit: Unit) -> bool:
        """True if a value it consumes, and could not ask for, was not produced."""
        node, host = self._layout.name(unit)
        on_demand = bool(self._layout.demand_up[self._layout.unit_node[unit]])
        return not on_demand and bool(self._values.missing(self._graph.nodes[node], host))

    def _writes(self, unit: Unit) -> bool:
        """False if all it can do is to wait."""
        return bool(self._layout.writes[self._layout.unit_node[unit]])

    def _note_change(self, unit: Unit) -> None:
        """From now on steps that prove what others did know that something was done; waiting does nothing."""
        if self._writes(unit):
            self._ctx.caches.pipeline.set(RUN_CHANGED, True)

    async def _change(self, work: _Work, check: Check) -> Report:
        """Makes intent durable, and has the step run."""
        unit, node, host = work.unit, work.node, work.host
        self._state.begin_run(unit)
        self._note_change(unit)
        number = self._state.attempts[unit]
        if self._prior is not None:
            number += self._prior.attempts.get(self._layout.name(unit), 0)
        receipts = f"{self._options.run}.{unit}.{number}"
        seconds, readable = node.timeout or _RUN_TIMEOUT, check.satisfied is not None
        work.movable = readable
        boot = self._ctx.host_runtimes[work.actor].facts.boot_id
        intent = {"attempt": number, "receipts": receipts, "boot": boot, "deadline": time.time() + seconds}
        if work.actor != host:
            intent["actor"] = work.actor
        self._recorder.emit(_RUNNING, node.id, host, intent)
        if (pending := self._recorder.journal.pending()) is not None:
            await pending
        self._stop_before(unit)
        report = await self._attempts.run(work.asked, receipts, seconds=seconds, readable=readable)
        if report.notes or report.kept:
            await self._values.take_in(node, report)
        return self._taken(work, report)

    async def _settle(self, work: _Work) -> tuple[bool, Report] | None:
        """What an earlier process of this run left of this unit, if that decides it."""
        assert self._prior is not None
        name = self._layout.name(work.unit)
        done = self._prior.done.get(name)
        if done is not None and done.get("unreadable") and State(done["state"]) in (State.SUCCEEDED, State.SATISFIED):
            if self._values.has_all(work.node, name[1]):
                return self._prior.changed(name), Report(check=Check.unreadable(), done=True)
        elif (under_way := self._prior.under_way.get(name)) is not None and work.unit not in self._state.attempts:
            self._stop_before(work.unit)
            report = await self._attempts.settle(
                work.asked,
                under_way.receipts,
                boot_id=under_way.boot_id,
                seconds=max(0.0, under_way.deadline - time.time()),
                here=(under_way.actor or work.host) == work.actor,
            )
            await self._values.take_in(work.node, report)
            self._taken(work, report)
            return (True, report) if report.done else None
        return None

    # Ends

    def _succeed(self, work: _Work, changed: bool, report: Report) -> None:
        node, host = work.node, work.host
        extra: dict[str, object] = {}
        if report.values or self._layout.produces[self._layout.unit_node[work.unit]]:
            try:
                journalled = self._values.publish(node, host, report.values)
            except Exception as error:  # noqa: BLE001 - values that do not fit their keys fail the unit
                self._fail(work, Fault.of(error, self._ctx.redactor))
                return
            if journalled:
                extra["values"] = journalled
        if report.check is not None and report.check.satisfied is None:
            extra["unreadable"] = True
        changed = changed or (self._prior is not None and self._prior.changed((node.id, host)))
        self._end(work, State.SUCCEEDED if changed else State.SATISFIED, extra=extra)

    def _fail(self, work: _Work, fault: Fault, *, final: bool = False) -> None:
        unit = work.unit
        if fault.gone and self._moved(work, fault):
            return
        delay = None if final else self._state.retry_after(unit, worth=fault.retry)
        if delay is not None:
            self._state.postpone(unit)
            self._postponed[unit] = fault.info
            self._retrying(work, fault.info.message, delay)
            self._timers += 1
            asyncio.get_running_loop().call_later(delay, self._resume, unit)
            return
        self._end(work, State.FAILED, error=fault.info, gone=fault.gone and not work.node.via)

    def _moved(self, work: _Work, fault: Fault) -> bool:
        """True if the unit goes on from another host, or is blocked because there is none."""
        if work.actor == work.host and not work.node.via:
            return False
        self._gone[work.actor] = fault.info.message
        if not self._state.actor_lost(work.unit, movable=work.movable):
            return False
        self._retrying(work, f"{work.actor} cannot be reached any more: {fault.info.message}", 0.0)
        self._dispatch()
        return True

    def _retrying(self, work: _Work, why: str, delay: float) -> None:
        data = {"attempt": self._state.attempts.get(work.unit, 0), "delay": delay, "error": why}
        self._recorder.emit(EventKind.UNIT_RETRY, work.node.id, work.host, data)

    def _resume(self, unit: Unit) -> None:
        self._timers -= 1
        self._state.resume(unit)
        self._dispatch()

    def _predict(self, work: _Work, prediction: Prediction, check: Check) -> None:
        self._state.predict_change(work.unit)
        self._note_change(work.unit)
        work.started = time.time()
        self._end(work, State.SUCCEEDED, prediction=prediction, reason=check.reason, diff=check.diff)

    def _end(
        self,
        work: _Work,
        state: State,
        *,
        error: ErrorInfo | None = None,
        gone: bool = False,
        prediction: Prediction | None = None,
        reason: str = "",
        diff: str = "",
        extra: dict[str, object] | None = None,
    ) -> None:
        unit, mask = work.unit, self._ctx.redactor
        if prediction is None and self._options.dry_run and state is State.SATISFIED:
            prediction = Prediction.NO_CHANGE
        # By their place, and not by name: a third of the time this takes a hundred thousand times.
        result = HostResult(
            work.host,
            state,
            work.started,
            time.time(),
            round(work.busy, 3) if work.busy else 0.0,
            self._state.attempts.get(unit, 0),
            mask(work.stdout) if work.stdout else "",
            mask(work.stderr) if work.stderr else "",
            error,
            None,
            mask(reason) if reason else "",
            prediction,
            mask(diff) if diff else "",
            tuple(dict.fromkeys(work.warnings)) if work.warnings else (),
            None,
            self._waited(unit, state),
            work.actor if work.actor != work.host else "",
        )
        self._recorder.done(unit, work.node.id, result, extra)
        self._state.finish(unit, state, host_gone=gone)

    def _waited(self, unit: Unit, state: State) -> bool:
        """True if it was begun, and waiting was all it did."""
        begun = state is State.SUCCEEDED or unit in self._state.attempts
        return begun and not self._writes(unit)

    # Stopping

    def _stop(self, level: int) -> None:
        """Stops as `Cancellation` says; what closes an open bracket goes on unless the run is abandoned."""
        level = min(level, _ABANDONED)
        if level <= self._stopping:
            return
        self._stopping = level
        self._recorder.emit(EventKind.RUN_CANCELLING, data={"now": level >= _NOW})
        if level < _ABANDONED:
            self._state.cancel()
            for unit in [*self._workers.values()] if level == _NOW else ():
                if unit is not None and not self._state.closes(unit):
                    self._attempts.stop(*self._layout.name(unit))
            if self._workers:
                self._dispatch()
        else:
            self._state.abandon()
            self._idle.clear()
            for worker in self._workers:
                worker.cancel()

    # Telling

    def _announce(self) -> None:
        resumed = self._prior is not None
        data = {
            "run": self._options.run,
            "name": self._graph.name,
            "graph": self._graph.digest,
            "units": self._layout.units,
            "nodes": len(self._layout.nodes),
            "hosts": [*self._graph.hosts],
            "dry_run": self._options.dry_run,
        }
        self._recorder.emit(EventKind.RUN_RESUMED if resumed else EventKind.RUN_STARTED, data=data)

    def _round_trips(self) -> dict[str, int]:
        """How many each host took since it was connected, where they are counted."""
        counts = {name: getattr(host.connector, "round_trips", None) for name, host in self._ctx.host_runtimes.items()}
        return {name: count for name, count in counts.items() if count is not None and name in self._layout.hosts}

    def _changed(self) -> list[Unit]:
        """What this run changed, or may have."""
        changed = []
        brackets = {unit for pair in self._layout.closer_of.items() for unit in pair}
        for unit, result in self._recorder.results.items():
            if not self._writes(unit) or unit in brackets:  # a bracket is closed, not rolled back
                continue
            earlier = self._prior is not None and self._prior.changed(self._layout.name(unit))
            if earlier or result.attempts or result.state is State.SUCCEEDED:
                changed.append(unit)
        return changed

    def _result(self, status: RunStatus, started: float) -> GraphExecutionResult:
        layout, results = self._layout, self._recorder.results
        nodes = {
            node.id: NodeResult(
                node.id,
                node.step.describe(),
                {results[unit].host: results[unit] for unit in layout.units_of(index)},
                node.optional,
            )
            for index, node in layout.each_node()
        }
        return GraphExecutionResult(
            run=self._options.run,
            name=self._graph.name,
            status=status,
            started=started,
            ended=time.time(),
            nodes=nodes,
            lost_hosts={layout.hosts[host]: self._why(root) for host, root in self._state.lost.items()},
            unreached={layout.hosts[host]: self._why(root) for host, root in self._state.unreached.items()},
            hints={
                layout.hosts[host]: hint
                for host, root in (*self._state.lost.items(), *self._state.unreached.items())
                if (hint := self._hint(root))
            },
            dry_run=self._options.dry_run,
        )
