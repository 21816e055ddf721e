"""One call for every way to show a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

from kubexm.plan.graph import ExecutionGraph
from kubexm.plan.render.data import to_data
from kubexm.plan.render.diff import PlanDiff, diff_to_data, diff_to_text, draw_diff
from kubexm.plan.render.dot import to_dot
from kubexm.plan.render.mermaid import to_mermaid
from kubexm.plan.render.picture import Collapse, draw
from kubexm.plan.render.svg import to_svg
from kubexm.plan.render.text import to_table, to_tree
from kubexm.plan.results import NodeResult

__all__ = ["PlanFormat", "render", "render_diff"]


class PlanFormat(StrEnum):
    """How a plan can be shown."""

    TREE = "tree"
    TABLE = "table"
    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"


_DRAWN = {PlanFormat.DOT: to_dot, PlanFormat.MERMAID: to_mermaid, PlanFormat.SVG: to_svg}


def render(
    graph: ExecutionGraph,
    how: PlanFormat,
    *,
    collapse: Collapse | None = None,
    results: Mapping[str, NodeResult] | None = None,
    outcome: str = "",
    every_edge: bool = False,
) -> str:
    """The plan as text that ends in a newline. Pictures can show how far its execution came, and collapse when big."""
    match how:
        case PlanFormat.TREE:
            return to_tree(graph)
        case PlanFormat.TABLE:
            return to_table(graph)
        case PlanFormat.JSON:
            return _json(to_data(graph))
    return _DRAWN[how](draw(graph, collapse=collapse, results=results, outcome=outcome, every_edge=every_edge))


def render_diff(diff: PlanDiff, how: PlanFormat, *, collapse: Collapse | None = None) -> str:
    """What differs between two plans, as text that ends in a newline."""
    match how:
        case PlanFormat.TREE | PlanFormat.TABLE:
            return diff_to_text(diff)
        case PlanFormat.JSON:
            return _json(diff_to_data(diff))
    return _DRAWN[how](draw_diff(diff, collapse=collapse))


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
