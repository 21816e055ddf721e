"""Choosing parts of a plan (`--only`, `--skip`) and of the hosts (`--role`, `--limit`) by what users write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kubexm.errors import UsageError
from kubexm.plan import is_visible, with_whole_brackets
from kubexm.step import OnlyRead, Resources, clash

if TYPE_CHECKING:
    from kubexm.apis.v1alpha1 import Cluster
    from kubexm.plan import ExecutionGraph, ExecutionNode

__all__ = ["choose_hosts", "choose_nodes"]


def choose_nodes(graph: ExecutionGraph, only: Sequence[str], skip: Sequence[str]) -> ExecutionGraph:
    """The graph without what `only` does not name or `skip` does: by node id, the start of one, or a pattern.

    What makes values or secrets that the chosen nodes need stays, though `only` does not name it. What `skip` names
    changes nothing, ever: if its values are needed, they are read. A bracket is chosen or left out as a whole.
    """
    if not only and not skip:
        return graph
    names = _names(graph)
    for selector in (*only, *skip):
        if not any(_selects(selector, node) for node in graph.nodes.values()):
            close = get_close_matches(selector, names, n=1)
            raise UsageError(
                f"{selector!r} selects nothing in this plan",
                hint=f"did you mean `{close[0]}`?" if close else "names: " + ", ".join(sorted(_modules(graph))),
            )

    whole = graph.brackets
    skipped = with_whole_brackets((name for name, node in graph.nodes.items() if _any_selects(skip, node)), whole)
    named = (name for name, node in graph.nodes.items() if name not in skipped and _any_selects(only, node))
    wanted = with_whole_brackets(named, whole) if only else set(graph.nodes)
    chosen = [
        name for name, node in graph.nodes.items() if name in wanted and name not in skipped and not node.excluded
    ]
    needed = _with_makers(graph, chosen, skipped)

    def left(node: ExecutionNode) -> ExecutionNode:
        if node.excluded or (node.id in needed and node.id not in skipped):
            return node
        if node.id not in skipped:
            return replace(node, excluded="not named by --only")
        if node.id not in needed:
            return replace(node, excluded="left out by --skip")
        return replace(node, step=OnlyRead(step=node.step, why="left out by --skip", needed_by=needed[node.id]))

    return graph.changed(left)


def choose_hosts(cluster: Cluster, roles: Sequence[str], limit: Sequence[str]) -> list[str] | None:
    """The hosts of these roles or groups that match a name or pattern of `limit`; None for all of them."""
    if not roles and not limit:
        return None
    for role in roles:
        if role not in cluster.groups:
            close = get_close_matches(role, cluster.groups, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "there are: " + ", ".join(cluster.groups)
            raise UsageError(f"there is no role {role!r}", hint=hint)
    names = [host.name for host in cluster.hosts]
    for pattern in limit:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = get_close_matches(pattern, names, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "hosts: " + ", ".join(names[:20])
            raise UsageError(f"no host is called {pattern!r}", hint=hint)
    of_role = {name for role in roles for name in cluster.groups[role]} if roles else set(names)
    chosen = [name for name in names if name in of_role and (not limit or _any(name, limit))]
    if not chosen:
        rest = f"is none of {', '.join(limit)}" if limit else "is no host"
        raise UsageError(f"among {', '.join(roles)} {rest}", hint="hosts: " + ", ".join(names[:20]))
    return chosen


def _any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _selects(selector: str, node: ExecutionNode) -> bool:
    """By its id, with or without the batch of hosts that a copy of it is for."""
    names = (node.id, node.path)
    return any(name == selector or name.startswith(f"{selector}.") or fnmatchcase(name, selector) for name in names)


def _any_selects(selectors: Iterable[str], node: ExecutionNode) -> bool:
    return any(_selects(selector, node) for selector in selectors)


def _with_makers(graph: ExecutionGraph, chosen: Iterable[str], skipped: Collection[str]) -> dict[str, str]:
    """These nodes and, one after the other, those that make what they need; each with a node that needs it."""
    makers: dict[str, list[ExecutionNode]] = {}
    for node in graph.nodes.values():
        for key in node.step.produces():
            makers.setdefault(key.name, []).append(node)
    place = {name: index for index, name in enumerate(graph.nodes)}
    keepers = [node for node in graph.nodes.values() if _secrets(node.step.writes()) and node.id not in skipped]
    found = dict.fromkeys(chosen, "")
    waiting = list(found)
    while waiting:
        node = graph.nodes[waiting.pop()]
        keys = (*node.step.consumes(), *node.step.gathers())
        makes = [maker for key in keys for maker in makers.get(key.name, ()) if is_visible(key, maker, node)]
        read = _secrets(node.step.reads())
        earlier = [keeper for keeper in keepers if place[keeper.id] < place[node.id]]
        makes += [keeper for keeper in earlier if clash(read, _secrets(keeper.step.writes()))]
        for maker in makes:
            if maker.id not in found and not maker.excluded:
                found[maker.id] = node.id
                waiting.append(maker.id)
    return found


def _secrets(touched: Resources) -> Resources:
    return frozenset(name for name in touched if name.startswith("secret:"))


def _names(graph: ExecutionGraph) -> list[str]:
    ids = {node.path for node in graph.nodes.values()}
    return sorted(ids.union(*((node.id, node.task, node.module) for node in graph.nodes.values())))


def _modules(graph: ExecutionGraph) -> set[str]:
    return {node.module for node in graph.nodes.values()}
