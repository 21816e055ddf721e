"""Proof that a graph is well formed: ids, hosts, edges, cycles, milestones and values. Everything wrong at once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from kubexm.cache import Key, Scope
from kubexm.errors import GraphError
from kubexm.plan.brackets import bad_brackets
from kubexm.plan.node import ExecutionNode
from kubexm.plan.order import Precedence

__all__ = ["find_cycle", "is_visible", "validate"]

_WORD = "[A-Za-z0-9][A-Za-z0-9_-]*"
_ID = re.compile(rf"{_WORD}\.{_WORD}\.{_WORD}(\.[A-Za-z0-9.+-]+)?")  # names of log files too, so no slashes


def validate(nodes: Sequence[ExecutionNode], *, known_hosts: Iterable[str] | None = None) -> None:
    """Raises one GraphError that lists every problem, or returns."""
    problems = [*_bad_ids(nodes), *_bad_hosts(nodes, known_hosts), *_bad_edges(nodes)]
    if not problems and (cycle := find_cycle(nodes)):
        problems.append("cycle: " + " → ".join(cycle))
    if not problems:
        problems += [*_open_needs(nodes), *_missing_values(nodes), *_bad_demand(nodes), *bad_brackets(nodes)]
    if problems:
        raise GraphError("the plan is not well formed:\n" + "\n".join(f"  {problem}" for problem in problems))


def find_cycle(nodes: Iterable[ExecutionNode]) -> list[str]:
    """A cycle as the ids along it, first one repeated at the end, or nothing. The same graph prints the same cycle."""
    up = {node.id: sorted({*node.after, *node.after_same_host}) for node in nodes}
    done: set[str] = set()
    for start in sorted(up):
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(node)
                done.add(node)
            elif node in on_path:
                loop = [*path[path.index(node) :], node]
                return loop[::-1]
            elif node not in done:
                path.append(node)
                on_path.add(node)
                stack.append((node, True))
                stack.extend((other, False) for other in reversed(up.get(node, [])))
    return []


def _bad_ids(nodes: Sequence[ExecutionNode]) -> list[str]:
    seen: set[str] = set()
    problems = []
    for node in nodes:
        if node.id in seen:
            problems.append(f"{node.id}: two nodes have this id")
        seen.add(node.id)
        if _ID.fullmatch(node.id) is None:
            problems.append(f"{node.id}: an id reads module.task.node, in letters, digits, `-` and `_`")
    return problems


def _bad_hosts(nodes: Sequence[ExecutionNode], known: Iterable[str] | None) -> list[str]:
    problems = []
    names = None if known is None else set(known)
    for node in nodes:
        if len(set(node.hosts)) != len(node.hosts) or len(set(node.via)) != len(node.via):
            problems.append(f"{node.id}: names a host twice")
        unknown = [] if names is None else [host for host in (*node.hosts, *node.via) if host not in names]
        if unknown:
            problems.append(f"{node.id}: unknown hosts {', '.join(unknown)}")
    return problems


def _bad_edges(nodes: Sequence[ExecutionNode]) -> list[str]:
    by_id = {node.id: node for node in nodes}
    problems = []
    for node in nodes:
        problems += [
            f"{node.id}: waits for {other}, which is not in the plan"
            for other in {**dict.fromkeys(node.after), **dict.fromkeys(node.after_same_host)}
            if other not in by_id
        ]
        problems += [
            f"{node.id}: waits for {other} on the same host, but they share none"
            for other in node.after_same_host
            if other in by_id and node.hosts and set(by_id[other].hosts).isdisjoint(node.hosts)
        ]
    return problems


def _open_needs(nodes: Sequence[ExecutionNode]) -> list[str]:
    by_id = {node.id: node for node in nodes}
    problems = []
    for node in nodes:
        for milestone in node.needs:
            edges = node.after_same_host if milestone.per_host else node.after
            providers = [by_id[other] for other in edges if milestone in by_id[other].provides]
            if not milestone.per_host:
                if not providers:
                    problems.append(f"{node.id}: nothing provides {milestone}")
                continue
            covered = {host for provider in providers for host in provider.hosts}
            missing = [host for host in node.hosts if host not in covered]
            if missing:
                problems.append(f"{node.id}: nothing provides {milestone} on {', '.join(missing)}")
    return problems


def _missing_values(nodes: Sequence[ExecutionNode]) -> list[str]:
    producers: dict[str, list[ExecutionNode]] = defaultdict(list)
    for node in nodes:
        for key in node.step.produces():
            producers[key.name].append(node)
    order = Precedence(nodes)
    problems = []
    for node in nodes:
        for key in (*node.step.consumes(), *node.step.gathers()):
            makers = [maker for maker in producers[key.name] if maker is not node and is_visible(key, maker, node)]
            problems += _uncovered(node, key, makers, order, gathered=key in node.step.gathers())
    return problems


def is_visible(key: Key[Any], maker: ExecutionNode, consumer: ExecutionNode) -> bool:
    """True if a value that one node produces can be seen by the other, by the key's scope."""
    match key.scope:
        case Scope.PIPELINE:
            return True
        case Scope.MODULE:
            return maker.module == consumer.module
        case Scope.TASK:
            return maker.task == consumer.task
        case Scope.STEP:
            return False


def _uncovered(
    node: ExecutionNode, key: Key[Any], makers: list[ExecutionNode], order: Precedence, *, gathered: bool
) -> list[str]:
    if not makers:
        return [f"{node.id}: needs the value {key}, which no node produces where it could see it"]
    if gathered or not key.per_host:
        return [
            f"{node.id}: needs the value {key}, but does not wait for {maker.id} on {', '.join(missing)}"
            for maker in makers
            if (missing := order.not_before_all(maker, node))
        ]
    covered = {host for maker in makers for host in order.before_same_host(maker, node)}
    missing = [host for host in node.hosts if host not in covered]
    if not missing:
        return []
    return [f"{node.id}: needs the value {key} on {', '.join(missing)}, where no node produces it earlier"]


def _bad_demand(nodes: Sequence[ExecutionNode]) -> list[str]:
    on_demand = {node.id: {key.name for key in node.step.produces()} for node in nodes if node.on_demand}
    awaited = {other for node in nodes for other in (*node.after, *node.after_same_host)}
    idle = [name for name, keys in on_demand.items() if not keys and name not in awaited]
    problems = [f"{name}: runs on demand, but nothing waits for it" for name in idle]
    for node in nodes:
        consumed = {key.name for key in (*node.step.consumes(), *node.step.gathers())}
        problems += [
            f"{node.id}: waits for {other}, which runs on demand, without consuming its values"
            for other in (*node.after, *node.after_same_host)
            if on_demand.get(other) and consumed.isdisjoint(on_demand[other])
        ]
    return problems
