"""Plans as text: a tree of modules, tasks and nodes, or a table with what each node waits for."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from kubexm.plan.graph import ExecutionGraph, FailureMode
from kubexm.plan.node import ExecutionNode
from kubexm.plan.render.names import id_parts, relative, short_hosts, shorten
from kubexm.plan.render.picture import headline
from kubexm.step import Reversible

__all__ = ["columns", "notes", "summary", "to_table", "to_tree"]

_WIDEST = 60


def summary(graph: ExecutionGraph) -> list[str]:
    """What is true of the plan as a whole: its size, what a failure does, what cannot be undone."""
    lines = [f"{graph.name}: {headline(graph)}"]
    fails_fast = graph.policy.mode is FailureMode.FAIL_FAST
    policy = [f"on failure: {'start nothing new' if fails_fast else 'go on with what does not depend on it'}"]
    policy += [
        f"up to {budget.allowed} of {len(budget.hosts)} {budget.name} hosts may be lost"
        for budget in graph.policy.budgets
    ]
    lines.append("; ".join(policy))
    changing = [node for node in graph.nodes.values() if node.step.writes() and node.hosts and not node.excluded]
    final = [node for node in changing if not isinstance(node.step, Reversible)]
    if final:
        lines.append(f"{len(final)} of {len(changing)} nodes that may change something cannot be undone by --rollback")
    elif not changing:
        lines.append("only reads, changes nothing")
    if turns := _out_of_service(graph):
        lines.append(f"taken out of service where something changes there, in this order: {' → '.join(turns)}")
    left_out = sum(bool(node.excluded) for node in graph.nodes.values())
    if left_out:
        lines.append(f"{left_out} {'node is' if left_out == 1 else 'nodes are'} left out")
    return lines


def _out_of_service(graph: ExecutionGraph, most: int = 8) -> list[str]:
    """Which hosts brackets are opened on, one batch after the other."""
    openers = {one.opener for one in graph.brackets}
    turns = [short_hosts(node.hosts) for node in graph.nodes.values() if node.id in openers and not node.excluded]
    return turns if len(turns) <= most else [*turns[: most - 2], f"{len(turns) - most + 1} more", turns[-1]]


def notes(node: ExecutionNode, *, undo: bool = True) -> list[str]:
    """What is special about a node."""
    found = [
        f"left out: {node.excluded}" if node.excluded else "",
        f"provides {', '.join(map(str, node.provides))}" if node.provides else "",
        f"needs {', '.join(map(str, node.needs))}" if node.needs else "",
        "optional" if node.optional else "",
        "on demand" if node.on_demand else "",
        f"via {_several(list(node.via))}" if node.via else "",
        f"closes {relative(node.closes, node)}" if node.closes else "",
        f"{node.retry.times} retries" if node.retry.times > 1 else "1 retry" if node.retry.times else "",
        f"timeout {node.timeout:g} s" if node.timeout is not None else "",
        f"at most {node.max_parallel} at once" if node.max_parallel is not None else "",
        "cannot be undone" if undo and node.step.writes() and not isinstance(node.step, Reversible) else "",
    ]
    return [note for note in found if note]


def to_tree(graph: ExecutionGraph) -> str:
    """Modules, their tasks, their nodes, in reading order; each node with its state, its hosts and what is special."""
    tree: dict[str, dict[str, list[ExecutionNode]]] = {}
    for node in graph.nodes.values():
        module, task, _ = id_parts(node.id)
        tree.setdefault(module, {}).setdefault(task, []).append(node)
    rows: list[Sequence[str]] = []
    for module, tasks in tree.items():
        rows.append((module,))
        for task_number, (task, nodes) in enumerate(tasks.items(), start=1):
            last_task = task_number == len(tasks)
            rows.append((f"{'└─' if last_task else '├─'} {task}",))
            for number, node in enumerate(nodes, start=1):
                stem = "   " if last_task else "│  "
                rows.append((f"{stem}{'└─' if number == len(nodes) else '├─'} {id_parts(node.id)[2]}", *_about(node)))
    return "\n".join([*summary(graph), "", *columns(rows), ""])


def _about(node: ExecutionNode) -> tuple[str, str, str]:
    extra = [_waits(node), *notes(node, undo=False)]
    return (
        shorten(node.step.describe(), _WIDEST),
        shorten(short_hosts(node.hosts) or "no host", _WIDEST),
        "; ".join(part for part in extra if part),
    )


def _waits(node: ExecutionNode) -> str:
    after = [relative(other, node) for other in node.after]
    same = [relative(other, node) for other in node.after_same_host if other not in node.after]
    parts = [f"after {_several(after)}"] if after else []
    parts += [f"after {_several(same)} on the same host"] if same else []
    return ", ".join(parts)


def _several(names: list[str], most: int = 3) -> str:
    return (
        ", ".join(names) if len(names) <= most else f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    )


def to_table(graph: ExecutionGraph) -> str:
    """One line for each node, with all it waits for."""
    rows: list[Sequence[str]] = [("NODE", "STATE", "HOSTS", "AFTER", "AFTER ON SAME HOST", "NOTES")]
    rows += [
        (
            node.id,
            shorten(node.step.describe(), _WIDEST),
            shorten(short_hosts(node.hosts) or "-", _WIDEST),
            ", ".join(relative(other, node) for other in node.after) or "-",
            ", ".join(relative(other, node) for other in node.after_same_host) or "-",
            "; ".join(notes(node)),
        )
        for node in graph.nodes.values()
    ]
    return "\n".join([*summary(graph), "", *columns(rows), ""])


def columns(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """The rows as lines of aligned columns. Rows of one cell do not widen the first column."""
    widths: list[int] = []
    for row in rows:
        if len(row) == 1:
            continue
        for index, cell in enumerate(row[:-1]):
            if index == len(widths):
                widths.append(0)
            widths[index] = max(widths[index], width(cell))
    lines = []
    for row in rows:
        padded = [cell + " " * (widths[index] - width(cell) + gap) for index, cell in enumerate(row[:-1])]
        lines.append("".join([*padded, row[-1]]).rstrip())
    return lines


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
