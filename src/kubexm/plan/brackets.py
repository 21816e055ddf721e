"""Brackets: what lies between a node that takes something out of service and the node that puts it back.

The closing node names the opening one (`ExecutionNode.closes`). Everything that waits for the opening node and that the
closing node waits for is inside. Knows edges only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubexm.plan.node import ExecutionNode
from kubexm.plan.order import ordered

__all__ = ["Bracket", "bad_brackets", "brackets", "with_whole_brackets"]


@dataclass(frozen=True, slots=True)
class Bracket:
    """An opening node, its closing node, and the nodes inside, by id."""

    opener: str
    closer: str
    inside: frozenset[str]

    @property
    def members(self) -> frozenset[str]:
        """All of its nodes."""
        return self.inside | {self.opener, self.closer}


def brackets(nodes: Collection[ExecutionNode]) -> tuple[Bracket, ...]:
    """The brackets of an acyclic graph."""
    closers = [node for node in nodes if node.closes]
    if not closers:
        return ()
    place = {node.id: number for number, node in enumerate(ordered([*nodes]))}
    above = {node.id: (*node.after, *node.after_same_host) for node in nodes}
    return tuple(Bracket(one.closes, one.id, _between(one.closes, one.id, above, place)) for one in closers)


def with_whole_brackets(names: Iterable[str], found: Sequence[Bracket]) -> set[str]:
    """These nodes and every other node of the brackets they belong to, also of brackets around those."""
    chosen = set(names)
    while more := {name for one in found if one.members & chosen for name in one.members} - chosen:
        chosen |= more
    return chosen


def bad_brackets(nodes: Sequence[ExecutionNode]) -> list[str]:
    """What is wrong with the brackets of an acyclic graph."""
    by_id = {node.id: node for node in nodes}
    closed: dict[str, str] = {}
    problems: list[str] = []
    for node in nodes:
        if not node.closes:
            continue
        opener = by_id.get(node.closes)
        if opener is None:
            problems.append(f"{node.id}: closes {node.closes}, which is not in the plan")
            continue
        if (other := closed.setdefault(node.closes, node.id)) != node.id:
            problems.append(f"{node.closes}: is closed twice, by {other} and {node.id}")
        if set(opener.hosts) != set(node.hosts):
            problems.append(f"{node.id}: closes {opener.id}, which runs on other hosts")
        if node.on_demand or node.step.consumes() or node.step.gathers():
            problems.append(f"{node.id}: closes {opener.id}, so it may neither run on demand nor need values")
        if any(by_id[name].on_demand for name in (*node.after, *node.after_same_host)):
            problems.append(f"{node.id}: closes {opener.id}, so it cannot ask for something on demand")
    return problems or _misplaced(nodes)


def _misplaced(nodes: Sequence[ExecutionNode]) -> list[str]:
    found = brackets(nodes)
    waits = {node.id: {*node.after, *node.after_same_host} for node in nodes}
    problems = [
        f"{one.closer}: closes {one.opener}, but does not wait for it"
        for one in found
        if not one.inside and one.opener not in waits[one.closer]
    ]
    openers = {one.opener: one for one in found}
    on_demand = {node.id for node in nodes if node.on_demand}
    inside = {name for one in found for name in one.members} & on_demand
    problems += [
        f"{node.id}: asks for {name} on every host, but brackets are closed host by host: wait on the same host"
        for node in nodes
        for name in node.after
        if name in inside
    ]
    return problems + [
        f"{node.id}: asks for {name}, but {openers[name].closer} does not wait for it"
        for node in nodes
        for name in (*node.after, *node.after_same_host)
        if name in openers and name in on_demand and node.id not in openers[name].inside
    ]


def _between(opener: str, closer: str, above: Mapping[str, Sequence[str]], place: Mapping[str, int]) -> frozenset[str]:
    """The nodes after one node and before another. Looks no further back than the first: plans can be long."""
    seen, pending = {closer}, [closer]
    while pending:
        fresh = {name for name in above[pending.pop()] if place[name] > place[opener]} - seen
        seen |= fresh
        pending += fresh
    below = {opener}
    for name in sorted(seen, key=place.__getitem__):
        if not below.isdisjoint(above[name]):
            below.add(name)
    return frozenset(below - {opener, closer})
