"""Plans as plain data, for programs. To save a plan so that it can be applied, use its own format instead."""

from __future__ import annotations

from typing import Any

from kubexm.plan.codec import encode
from kubexm.plan.graph import ExecutionGraph
from kubexm.plan.node import ExecutionNode
from kubexm.step import Reversible

__all__ = ["to_data"]


def to_data(graph: ExecutionGraph) -> dict[str, Any]:
    """Everything about the plan that means something outside kubexm."""
    return {
        "name": graph.name,
        "digest": graph.digest,
        "units": graph.units,
        "hosts": list(graph.hosts),
        "policy": {
            "mode": graph.policy.mode.value,
            "budgets": [
                {"name": budget.name, "hosts": list(budget.hosts), "allowed": budget.allowed}
                for budget in graph.policy.budgets
            ],
        },
        "nodes": [_node(node) for node in graph.nodes.values()],
    }


def _node(node: ExecutionNode) -> dict[str, Any]:
    fields = encode(node.step)
    kind = fields.pop("$")
    return {
        "id": node.id,
        "step": {"kind": kind.replace(":", "."), "state": node.step.describe(), "fields": fields},
        "hosts": list(node.hosts),
        "via": list(node.via),
        "after": list(node.after),
        "after_same_host": list(node.after_same_host),
        "provides": [milestone.name for milestone in node.provides],
        "needs": [milestone.name for milestone in node.needs],
        "reads": sorted(node.step.reads()),
        "writes": sorted(node.step.writes()),
        "optional": node.optional,
        "on_demand": node.on_demand,
        "closes": node.closes or None,
        "reversible": isinstance(node.step, Reversible),
        "retries": node.retry.times,
        "timeout": node.timeout,
        "max_parallel": node.max_parallel,
        "weight": node.weight,
        "excluded": node.excluded or None,
    }
