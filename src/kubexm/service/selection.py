"""Choosing parts of a plan (`--only`, `--skip`) and of the hosts (`--role`, `--limit`) by what users write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kubexm.errors import UsageError

if TYPE_CHECKING:
    from kubexm.apis.v1alpha1 import Cluster
    from kubexm.plan import ExecutionGraph, ExecutionNode

__all__ = ["choose_hosts", "choose_nodes"]


def choose_nodes(graph: ExecutionGraph, only: Sequence[str], skip: Sequence[str]) -> ExecutionGraph:
    """The graph without what `only` does not name or `skip` does: by node id, the start of one, or a pattern."""
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

    def excluded(node: ExecutionNode) -> str:
        if any(_selects(selector, node) for selector in skip):
            return "left out by --skip"
        if only and not any(_selects(selector, node) for selector in only):
            return "not named by --only"
        return ""

    return graph.without(excluded)


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
    return node.id == selector or node.id.startswith(f"{selector}.") or fnmatchcase(node.id, selector)


def _names(graph: ExecutionGraph) -> list[str]:
    return sorted({part for node in graph.nodes.values() for part in (node.id, node.task, node.module)})


def _modules(graph: ExecutionGraph) -> set[str]:
    return {node.module for node in graph.nodes.values()}
