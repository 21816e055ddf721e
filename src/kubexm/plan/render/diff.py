"""What changed between two plans: nodes that came, went or differ, down to lines of contents."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubexm.plan.codec import encode
from kubexm.plan.graph import ExecutionGraph
from kubexm.plan.node import ExecutionNode
from kubexm.plan.render.names import short_hosts
from kubexm.plan.render.picture import Collapse, Picture, draw, fitting, place_of

__all__ = ["FieldChange", "NodeChange", "PlanDiff", "diff_to_data", "diff_to_text", "draw_diff"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a node or of its step, before and after; None where it was not there."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that both plans have, and what differs."""

    id: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """What the new plan does that the old one did not, and the other way round."""

    old: ExecutionGraph
    new: ExecutionGraph
    added: tuple[ExecutionNode, ...]
    removed: tuple[ExecutionNode, ...]
    changed: tuple[NodeChange, ...]
    policy: tuple[FieldChange, ...] = ()

    @classmethod
    def between(cls, old: ExecutionGraph, new: ExecutionGraph) -> PlanDiff:
        """Nodes are the same if their ids are."""
        changed = []
        for node in new.nodes.values():
            before = old.nodes.get(node.id)
            if before is not None and before != node:
                fields = tuple(_differences(encode(before), encode(node)))
                changed.append(NodeChange(node.id, fields))
        return cls(
            old,
            new,
            added=tuple(node for node in new.nodes.values() if node.id not in old.nodes),
            removed=tuple(node for node in old.nodes.values() if node.id not in new.nodes),
            changed=tuple(changed),
            policy=tuple(_differences(encode(old.policy), encode(new.policy))),
        )

    def __bool__(self) -> bool:
        """True if anything differs."""
        return bool(self.added or self.removed or self.changed or self.policy)

    @property
    def headline(self) -> str:
        """How much differs."""
        same = len(self.new.nodes) - len(self.added) - len(self.changed)
        if not self:
            return f"the plans are the same, {same} nodes"
        return f"{len(self.added)} added, {len(self.removed)} removed, {len(self.changed)} changed, {same} the same"


def _differences(old: Any, new: Any, path: str = "") -> Iterator[FieldChange]:
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old.get("$") == new.get("$"):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = path if key == "$map" else f"{path}.{key}" if path else key
            yield from _differences(old.get(key), new.get(key), inner)
    elif old != new:
        yield FieldChange(path, old, new)


def diff_to_data(diff: PlanDiff) -> dict[str, Any]:
    """The difference as plain data, for programs."""
    return {
        "old": {"name": diff.old.name, "digest": diff.old.digest},
        "new": {"name": diff.new.name, "digest": diff.new.digest},
        "added": [node.id for node in diff.added],
        "removed": [node.id for node in diff.removed],
        "changed": [{"id": change.id, "fields": [_field(each) for each in change.fields]} for change in diff.changed],
        "policy": [_field(each) for each in diff.policy],
    }


def _field(change: FieldChange) -> dict[str, Any]:
    return {"path": change.path, "old": change.old, "new": change.new}


def diff_to_text(diff: PlanDiff) -> str:
    """The difference for people, in the new plan's order; contents as unified diffs."""
    changes = {change.id: change for change in diff.changed}
    lines: list[str] = []
    for each in diff.policy:
        lines += [f"~ policy.{each.path}", *_written(each)]
    lines += [f"- {node.id}  {node.step.describe()}  on {_hosts(node)}" for node in diff.removed]
    added = {node.id for node in diff.added}
    for node in diff.new.nodes.values():
        if node.id in added:
            lines.append(f"+ {node.id}  {node.step.describe()}  on {_hosts(node)}")
        elif node.id in changes:
            lines.append(f"~ {node.id}  {node.step.describe()}")
            for each in changes[node.id].fields:
                lines += _written(each)
    return "\n".join([*lines, *([""] if lines else []), diff.headline, ""])


def _hosts(node: ExecutionNode) -> str:
    return short_hosts(node.hosts) or "no host"


def _written(change: FieldChange) -> list[str]:
    old, new = change.old, change.new
    if isinstance(old, list | None) and isinstance(new, list | None):
        before, after = [_value(item) for item in old or ()], [_value(item) for item in new or ()]
        gone = [item for item in before if item not in after]
        came = [item for item in after if item not in before]
        if not gone and not came:
            return [f"    {change.path}: in another order"]
        return [f"    {change.path}: {' '.join([*(f'+{item}' for item in came), *(f'-{item}' for item in gone)])}"]
    if isinstance(old, str) and isinstance(new, str) and ("\n" in old or "\n" in new):
        hunks = difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="", n=2)
        return [f"    {change.path}:", *(f"      {line}" for line in hunks)]
    return [f"    {change.path}: {_value(old)} → {_value(new)}"]


def _value(value: Any) -> str:
    match value:
        case None:
            return "(default)"
        case {"$bytes": str(text)}:
            return f"{len(text) * 3 // 4} bytes, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}"
        case {"$path": str(text)}:
            return text
        case {"$enum": str(), "name": str(name)}:
            return name.lower()
        case {"$": str(kind), **rest}:
            return str(rest["name"]) if "name" in rest else f"{kind.rpartition(':')[2]}({rest})"
        case str():
            return value if value and "\n" not in value else repr(value)
    return str(value)


def draw_diff(diff: PlanDiff, *, collapse: Collapse | None = None) -> Picture:
    """Both plans in one picture: what came, what went and what differs is marked."""
    level = collapse or max(fitting(diff.old), fitting(diff.new), key=list(Collapse).index)
    old, new = draw(diff.old, collapse=level), draw(diff.new, collapse=level)
    before, after = {box.id for box in old.boxes}, {box.id for box in new.boxes}
    touched = {place_of(name, level) for name in (*_ids(diff.added), *_ids(diff.removed), *_ids(diff.changed))}
    boxes = [
        replace(box, mark="added" if box.id not in before else "changed" if box.id in touched else "")
        for box in new.boxes
    ]
    boxes += [replace(box, mark="removed") for box in old.boxes if box.id not in after]
    old_pairs = {(link.source, link.target) for link in old.links}
    new_pairs = {(link.source, link.target) for link in new.links}
    links = [link if (link.source, link.target) in old_pairs else replace(link, mark="added") for link in new.links]
    links += [replace(link, mark="removed") for link in old.links if (link.source, link.target) not in new_pairs]
    return Picture(diff.new.name, diff.headline, tuple(boxes), tuple(links))


def _ids(items: Iterable[ExecutionNode | NodeChange]) -> list[str]:
    return [item.id for item in items]
