"""Graphs as responses: JSON for programs, pictures for people."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from fastapi import Response

from kubexm.plan import ExecutionGraph, NodeResult
from kubexm.plan.render import Collapse, PlanDiff, PlanFormat, render, render_diff

__all__ = ["DRAWINGS", "Boxes", "Drawing", "diff_response", "draw_response"]


class Drawing(StrEnum):
    """How a graph is shown."""

    JSON = "json"
    DOT = "dot"
    SVG = "svg"
    MERMAID = "mermaid"
    TREE = "tree"
    TABLE = "table"


class Boxes(StrEnum):
    """What becomes one box of a picture."""

    NODE = "node"
    TASK = "task"
    MODULE = "module"


_MEDIA = {Drawing.JSON: "application/json", Drawing.SVG: "image/svg+xml", Drawing.DOT: "text/vnd.graphviz"}
_TEXT = {"schema": {"type": "string"}}
DRAWINGS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/json": {"schema": {"type": "object", "required": ["nodes"]}},
            "image/svg+xml": _TEXT,
            "text/vnd.graphviz": _TEXT,
            "text/plain": _TEXT,
        }
    }
}


async def draw_response(
    graph: ExecutionGraph,
    how: Drawing,
    collapse: Boxes | None,
    results: Mapping[str, NodeResult] | None = None,
    outcome: str = "",
) -> Response:
    """The graph, drawn in a thread: a large one takes its time."""
    level = None if collapse is None else Collapse(collapse.value)
    text = await asyncio.to_thread(
        lambda: render(graph, PlanFormat(how.value), collapse=level, results=results, outcome=outcome)
    )
    return Response(text, media_type=_MEDIA.get(how, "text/plain"))


async def diff_response(old: ExecutionGraph, new: ExecutionGraph, how: Drawing, collapse: Boxes | None) -> Response:
    """What differs between two graphs."""
    level = None if collapse is None else Collapse(collapse.value)
    text = await asyncio.to_thread(
        lambda: render_diff(PlanDiff.between(old, new), PlanFormat(how.value), collapse=level)
    )
    return Response(text, media_type=_MEDIA.get(how, "text/plain"))
