"""Undoing what this run changed, in reverse order: only steps that say how, each journalled like any change."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable

from kubexm.engine.layout import NodeIndex, Unit
from kubexm.engine.prior import Prior
from kubexm.engine.recorder import Recorder
from kubexm.engine.state import RunState
from kubexm.events import EventKind
from kubexm.runtime import Context, UnitConnector
from kubexm.step import Reversible

__all__ = ["roll_back"]

_TIMEOUT = 1800.0


async def roll_back(
    ctx: Context, state: RunState, recorder: Recorder, run: str, units: Iterable[Unit], prior: Prior | None = None
) -> None:
    """Rolls the units back, the last node first, all hosts of a node at once. What fails is told; the rest goes on."""
    layout = state.layout
    by_node: dict[NodeIndex, list[Unit]] = defaultdict(list)
    for unit in units:
        by_node[layout.unit_node[unit]].append(unit)
    for index in sorted(by_node, reverse=True):
        if isinstance(layout.nodes[index].step, Reversible):
            await asyncio.gather(*(_undo(ctx, state, recorder, run, unit, prior or Prior()) for unit in by_node[index]))
        else:
            for unit in by_node[index]:
                recorder.rolled_back(unit, ok=False)


async def _undo(ctx: Context, state: RunState, recorder: Recorder, run: str, unit: Unit, prior: Prior) -> None:
    layout = state.layout
    node, host, actor = layout.node_of(unit), layout.host_of(unit), layout.hosts[state.place[unit]]
    if actor not in ctx.host_runtimes:  # it changed before a resume, and cannot be reached now
        recorder.rolled_back(unit, ok=False)
        return
    receipts = f"{run}.{unit}.rollback{prior.rollbacks.get((node.id, host), 0) + 1}"
    recorder.emit(EventKind.ROLLBACK_RUNNING, node.id, host, {"receipts": receipts})
    await recorder.journal.durable()
    log = recorder.log(node.id, host)
    connector = UnitConnector(ctx.host_runtimes[actor].connector, lambda: log.transcript)
    connector.begin(receipts)
    started = time.time()
    data: dict[str, object] = {"ok": True}
    try:
        assert isinstance(node.step, Reversible)
        async with asyncio.timeout(_TIMEOUT):
            await node.step.rollback(ctx.step_context(node.id, connector, run, subject=host))
    except Exception as error:  # noqa: BLE001 - one rollback that fails must not keep the others from theirs
        data = {"ok": False, "error": recorder.error(error).to_dict()}
    log.flush()
    recorder.rolled_back(unit, ok=bool(data["ok"]))
    recorder.emit(EventKind.ROLLBACK_DONE, node.id, host, {**data, "started": started})
