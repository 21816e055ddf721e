"""Undoing what this run changed, in reverse order: only steps that say how, each journalled like any change."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Container, Iterable

from kubexm.engine.asked import Attempts
from kubexm.engine.layout import NodeIndex, Unit
from kubexm.engine.prior import Prior
from kubexm.engine.recorder import Recorder
from kubexm.engine.state import RunState
from kubexm.engine.values import ValueBook
from kubexm.events import EventKind
from kubexm.step import Reversible

__all__ = ["roll_back"]

_TIMEOUT = 1800.0


async def roll_back(
    attempts: Attempts,
    values: ValueBook,
    state: RunState,
    recorder: Recorder,
    run: str,
    units: Iterable[Unit],
    reached: Container[str],
    prior: Prior | None = None,
) -> None:
    """Rolls the units back, the last node first, all hosts of a node at once. What fails is told; the rest goes on."""
    layout, before = state.layout, prior or Prior()
    by_node: dict[NodeIndex, list[Unit]] = defaultdict(list)
    for unit in units:
        by_node[layout.unit_node[unit]].append(unit)

    async def undo(unit: Unit) -> None:
        node, host, actor = layout.node_of(unit), layout.host_of(unit), layout.hosts[state.place[unit]]
        if actor not in reached:  # it changed before a resume, and cannot be reached now
            recorder.rolled_back(unit, ok=False)
            return
        receipts = f"{run}.{unit}.rollback{before.rollbacks.get((node.id, host), 0) + 1}"
        recorder.emit(EventKind.ROLLBACK_RUNNING, node.id, host, {"receipts": receipts})
        await recorder.journal.durable()
        started = time.time()
        report = await attempts.undo(values.asked(node, host, actor), receipts, seconds=_TIMEOUT)
        await values.take_in(node, report)
        recorder.flush(node.id, host)
        data: dict[str, object] = {"ok": report.done}
        if report.fault is not None:
            data["error"] = report.fault.info.to_dict()
        recorder.rolled_back(unit, ok=report.done)
        recorder.emit(EventKind.ROLLBACK_DONE, node.id, host, {**data, "started": started})

    for index in sorted(by_node, reverse=True):
        if isinstance(layout.nodes[index].step, Reversible):
            await asyncio.gather(*map(undo, by_node[index]))
        else:
            for unit in by_node[index]:
                recorder.rolled_back(unit, ok=False)
