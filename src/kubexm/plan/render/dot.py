"""Plans for Graphviz."""

from __future__ import annotations

from kubexm.plan.render.picture import Box, Link, Picture

__all__ = ["to_dot"]

_COLOURS = {
    "succeeded": "#d7f0dd",
    "satisfied": "#eef6f0",
    "failed": "#f8d0d0",
    "interrupted": "#f8d0d0",
    "blocked": "#f7e4c4",
    "cancelled": "#e6e6ea",
    "excluded": "#f4f4f6",
    "added": "#d7f0dd",
    "removed": "#f8d0d0",
    "changed": "#f7e4c4",
}


def to_dot(picture: Picture) -> str:
    """A digraph: solid edges wait for all hosts, dashed ones for the same host, dotted ones only on demand."""
    lines = [
        f"digraph {_quoted(picture.title)} {{",
        "  rankdir=LR;",
        f"  label={_quoted(picture.title + ': ' + picture.subtitle)};",
        "  labelloc=t;",
        '  fontname="sans-serif";',
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="sans-serif", fontsize=10];',
        '  edge [color="#5b6475"];',
    ]
    for number, (group, boxes) in enumerate(picture.groups.items()):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(group)};", '    color="#c9ced8";']
        lines += [f"    {_box(box)}" for box in boxes]
        lines.append("  }")
    lines += [f"  {_link(link)}" for link in picture.links]
    return "\n".join([*lines, "}", ""])


def _box(box: Box) -> str:
    attributes = [f"label={_quoted(chr(10).join((box.title, *box.lines)))}", f"tooltip={_quoted(box.tooltip)}"]
    if box.mark in _COLOURS:
        attributes.append(f'fillcolor="{_COLOURS[box.mark]}"')
    if box.optional or box.on_demand:
        attributes.append(f'style="rounded,filled,{"dotted" if box.on_demand else "dashed"}"')
    return f"{_quoted(box.id)} [{', '.join(attributes)}];"


def _link(link: Link) -> str:
    style = "dotted" if link.on_demand else "dashed" if link.same_host else ""
    attributes = [f"style={style}"] if style else []
    if link.mark in ("added", "removed"):
        attributes.append('color="#2e8b57"' if link.mark == "added" else 'color="#c0392b"')
    tail = f" [{', '.join(attributes)}]" if attributes else ""
    return f"{_quoted(link.source)} -> {_quoted(link.target)}{tail};"


def _quoted(text: str) -> str:
    """A DOT string: backslashes and quotes escaped, line breaks as Graphviz writes them."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{escaped}"'
