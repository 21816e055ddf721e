"""What is shown, as a table, JSON or YAML. The choices are the same for every command that shows something."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import typer

from kubexm.cli.style import paint

__all__ = ["Boxes", "Drawn", "Shown", "Streamed", "Times", "show_data", "show_table"]


class Shown(StrEnum):
    """How something is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Streamed(StrEnum):
    """How something that runs is shown while it runs."""

    TEXT = "text"
    JSON = "json"
    """One event a line."""


class Drawn(StrEnum):
    """How a plan is shown: `kubexm.plan.render.PlanFormat`, here again so that help need not load it."""

    TREE = "tree"
    TABLE = "table"
    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"


class Times(StrEnum):
    """How a timeline is shown."""

    TEXT = "text"
    HTML = "html"
    TRACE = "trace"


class Boxes(StrEnum):
    """What becomes one box of a picture: `kubexm.plan.render.Collapse`, here again for the same reason."""

    NODE = "node"
    TASK = "task"
    MODULE = "module"


def show_data(data: Any, how: Shown) -> None:
    """Prints plain data as JSON or YAML."""
    if how is Shown.JSON:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    from ruamel.yaml import YAML

    yaml = YAML(pure=True)
    yaml.default_flow_style = False
    yaml.width = 120
    yaml.dump(data, sys.stdout)


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints aligned columns; nothing is cut off, so that it can be piped into other tools. On a terminal too narrow
    for them, each row becomes a block with a line for each column."""
    from kubexm.plan.render import columns
    from kubexm.plan.render.text import width

    first, *rest = columns([[name.upper() for name in head], *rows])
    if sys.stdout.isatty() and max(map(width, (first, *rest))) > shutil.get_terminal_size().columns:
        labels = max(map(len, head))
        for index, row in enumerate(rows):
            lines = [
                f"{paint(f'{name.upper():<{labels}}', 'bold')}  {cell}" for name, cell in zip(head, row, strict=True)
            ]
            typer.echo("\n".join(["", *lines] if index else lines))
        return
    typer.echo("\n".join([paint(first, "bold"), *rest]))
