"""The whole plan: every node, joined and proven well formed. Immutable; the same inputs give the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from kubexm.errors import GraphError
from kubexm.plan.brackets import Bracket, brackets
from kubexm.plan.codec import decode, encode
from kubexm.plan.fragment import ExecutionFragment
from kubexm.plan.node import ExecutionNode
from kubexm.plan.order import ordered
from kubexm.plan.validation import validate

__all__ = ["Budget", "ExecutionGraph", "FailureMode", "FailurePolicy"]


class FailureMode(StrEnum):
    """What a failure stops."""

    FAIL_FAST = "fail_fast"
    """Nothing new is started."""
    ISOLATE = "isolate"
    """Only what depends on the failure is blocked."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many of these hosts may be lost over the whole run."""

    name: str
    hosts: tuple[str, ...]
    allowed: int


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What failures mean for the rest of the graph."""

    mode: FailureMode = FailureMode.ISOLATE
    budgets: tuple[Budget, ...] = ()


@dataclass(frozen=True)
class ExecutionGraph:
    """Nodes by id, in an order in which each comes after all it waits for."""

    name: str
    nodes: Mapping[str, ExecutionNode]
    policy: FailurePolicy = field(default_factory=FailurePolicy)

    @classmethod
    def build(
        cls,
        name: str,
        fragment: ExecutionFragment,
        *,
        known_hosts: Iterable[str] | None = None,
        policy: FailurePolicy | None = None,
    ) -> ExecutionGraph:
        """The validated graph of a fragment; GraphError lists everything that is wrong with it."""
        validate(fragment.nodes, known_hosts=known_hosts)
        return cls(
            name, MappingProxyType({node.id: node for node in ordered(fragment.nodes)}), policy or FailurePolicy()
        )

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Every host some node is for, in order of first mention."""
        return tuple(dict.fromkeys(host for node in self.nodes.values() for host in node.hosts))

    @cached_property
    def actors(self) -> tuple[str, ...]:
        """Every host that some node may act from though no node is about it."""
        return tuple(dict.fromkeys(host for node in self.nodes.values() for host in node.via if host not in self.hosts))

    @cached_property
    def brackets(self) -> tuple[Bracket, ...]:
        """What is taken out of service, and put back in any case."""
        return brackets(self.nodes.values())

    @cached_property
    def units(self) -> int:
        """How many (node, host) there are."""
        return sum(len(node.hosts) for node in self.nodes.values())

    def changed(self, change: Callable[[ExecutionNode], ExecutionNode]) -> ExecutionGraph:
        """The same graph with other nodes in the same places: ids, hosts and edges must stay as they are."""
        nodes = {node.id: change(node) for node in self.nodes.values()}
        return ExecutionGraph(self.name, MappingProxyType(nodes), self.policy)

    def all_optional(self) -> ExecutionGraph:
        """The same graph in which every failure is reported, and what can go on goes on."""
        return self.changed(lambda node: replace(node, optional=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data that `from_dict` turns back into an equal graph."""
        return {
            "name": self.name,
            "policy": encode(self.policy),
            "nodes": [encode(node) for node in self.nodes.values()],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExecutionGraph:
        """The graph of `to_dict`'s data, validated anew."""
        match data:
            case {"name": str(name), "policy": dict(policy), "nodes": list(items)}:
                nodes = tuple(decode(node, ExecutionNode) for node in items)
                return cls.build(name, ExecutionFragment(nodes), policy=decode(policy, FailurePolicy))
        raise GraphError("this is not a graph: it has no name, policy and nodes")

    def to_json(self) -> str:
        """Canonical JSON: the same graph, byte for byte."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()
