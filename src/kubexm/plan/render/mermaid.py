"""Plans for Mermaid, as Markdown pages show them."""

from __future__ import annotations

from kubexm.plan.render.picture import Box, Picture

__all__ = ["to_mermaid"]

_CLASSES = {
    "succeeded": "fill:#d7f0dd,stroke:#2e8b57,color:#1c2430",
    "satisfied": "fill:#eef6f0,stroke:#8fb79c,color:#1c2430",
    "failed": "fill:#f8d0d0,stroke:#c0392b,color:#1c2430",
    "interrupted": "fill:#f8d0d0,stroke:#c0392b,color:#1c2430",
    "blocked": "fill:#f7e4c4,stroke:#b7791f,color:#1c2430",
    "cancelled": "fill:#e6e6ea,stroke:#8a8f9c,color:#1c2430",
    "excluded": "fill:#f4f4f6,stroke:#c9ced8,color:#8a8f9c",
    "added": "fill:#d7f0dd,stroke:#2e8b57,color:#1c2430",
    "removed": "fill:#f8d0d0,stroke:#c0392b,color:#1c2430",
    "changed": "fill:#f7e4c4,stroke:#b7791f,color:#1c2430",
}
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:/_-@+=()|·…→")


def to_mermaid(picture: Picture) -> str:
    """A flowchart: solid arrows wait for all hosts, dotted ones for the same host or only on demand."""
    numbers = {box.id: f"n{index}" for index, box in enumerate(picture.boxes)}
    lines = ["---", f"title: {_title(picture)}", "---", "flowchart LR"]
    for number, (group, boxes) in enumerate(picture.groups.items()):
        lines.append(f'  subgraph g{number}["{_escaped(group)}"]')
        lines += [f"    {numbers[box.id]}{_shape(box)}" for box in boxes]
        lines.append("  end")
    for link in picture.links:
        arrow = "-. on demand .->" if link.on_demand else "-.->" if link.same_host else "-->"
        lines.append(f"  {numbers[link.source]} {arrow} {numbers[link.target]}")
    for mark in dict.fromkeys(box.mark for box in picture.boxes if box.mark in _CLASSES):
        members = ",".join(numbers[box.id] for box in picture.boxes if box.mark == mark)
        lines += [f"  classDef {mark} {_CLASSES[mark]}", f"  class {members} {mark}"]
    return "\n".join([*lines, ""])


def _shape(box: Box) -> str:
    text = "<br/>".join(_escaped(line) for line in (box.title, *box.lines))
    return f'(["{text}"])' if box.on_demand else f'["{text}"]'


def _title(picture: Picture) -> str:
    return '"' + f"{picture.title}: {picture.subtitle}".replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    """Mermaid reads entity codes; whatever could mean something to it becomes one."""
    return "".join(char if char in _PLAIN else f"#{ord(char)};" for char in text)
