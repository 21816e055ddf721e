"""A run as a stream of JSON: one event a line, and last of all a line of kind `result`."""

from __future__ import annotations

import json
from typing import Any

from kubexm.cli.display.writer import LineWriter
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph

__all__ = ["EventLines"]


class EventLines:
    """Writes each event as it comes; pieces of output only if asked for."""

    def __init__(self, writer: LineWriter, *, with_output: bool = False) -> None:
        self._writer = writer
        self._with_output = with_output

    def planned(self, graph: ExecutionGraph) -> None:
        """The plan, in short; `kubexm plan -o json` has it all."""
        data = {"name": graph.name, "digest": graph.digest, "units": graph.units, "nodes": list(graph.nodes)}
        self.line({"kind": "plan", "data": data})

    def on_event(self, event: Event) -> None:
        """One line of JSON."""
        if event.kind is EventKind.UNIT_OUTPUT and not self._with_output:
            return
        line: dict[str, Any] = {"seq": event.seq, "time": event.time, "kind": event.kind.value}
        if event.node:
            line |= {"node": event.node, "host": event.host}
        elif event.host:
            line["host"] = event.host
        if event.data:
            line["data"] = event.data
        self.line(line)

    def line(self, data: dict[str, Any]) -> None:
        """Any other line of the stream."""
        self._writer.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
