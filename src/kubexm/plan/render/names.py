"""Short forms of names for people: hosts as ranges, node ids relative to where they are read."""

from __future__ import annotations

from kubexm.apis.v1alpha1.ranges import short_hosts
from kubexm.plan.node import ExecutionNode

__all__ = ["id_parts", "relative", "short_hosts", "shorten"]


def id_parts(node_id: str) -> tuple[str, str, str]:
    """Module, task and own name of a node. The name of a rolled node ends with its batch of hosts, dots and all."""
    module, task, name = node_id.split(".", 2)
    return module, task, name


def relative(other: str, seen_from: ExecutionNode) -> str:
    """The other node's id without what it shares with this one."""
    module, task, name = id_parts(other)
    own_module, own_task, _ = id_parts(seen_from.id)
    if module != own_module:
        return other
    return name if task == own_task else f"{task}.{name}"


def shorten(text: str, limit: int) -> str:
    """The text on one line, cut to so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
