"""Builds fragments: nodes with ids, hosts and edges. Edges take only handles given out earlier, so no cycle fits in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubexm.connector import Host
from kubexm.errors import GraphError
from kubexm.plan import ExecutionFragment, ExecutionNode, Milestone, Retry
from kubexm.step import Step

__all__ = ["Batch", "FragmentBuilder", "NodeHandle"]

_WORD = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class NodeHandle:
    """A node that was added; what later nodes of the same builder wait for."""

    id: str
    builder: FragmentBuilder


@dataclass(frozen=True, slots=True)
class Batch:
    """Hosts that are changed together, one batch after the other."""

    hosts: tuple[Host, ...]

    @property
    def name(self) -> str:
        """What ids of its nodes end with: the first host, and how many more."""
        return self.hosts[0].name + (f"+{len(self.hosts) - 1}" if len(self.hosts) > 1 else "")


class FragmentBuilder:
    """Collects the nodes of one task."""

    def __init__(self, task: str, batch: Batch | None = None) -> None:
        """`task` reads `module.task`; node ids are made from it, and from the batch of hosts if the task is rolled."""
        module, _, rest = task.partition(".")
        if _WORD.fullmatch(module) is None or _WORD.fullmatch(rest) is None:
            raise GraphError(f"{task!r} reads module.task, in letters, digits, `-` and `_`")
        self._task = task
        self._suffix = f".{batch.name}" if batch is not None else ""
        self._nodes: list[ExecutionNode] = []
        self._names: set[str] = set()

    def add(
        self,
        name: str,
        step: Step,
        *,
        on: Host | Iterable[Host],
        via: Iterable[Host] = (),
        after: Sequence[NodeHandle] = (),
        after_same_host: Sequence[NodeHandle] = (),
        provides: Milestone | Sequence[Milestone] = (),
        needs: Milestone | Sequence[Milestone] = (),
        optional: bool = False,
        on_demand: bool = False,
        closes: NodeHandle | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        max_parallel: int | None = None,
        weight: float = 1.0,
    ) -> NodeHandle:
        """Adds a node about these hosts, which acts from them or, if given, from one of `via`.

        One without hosts does nothing, and waits and is waited for like any other.
        """
        if _WORD.fullmatch(name) is None:
            raise GraphError(
                f"{self._task}.{name}: a node's id reads module.task.node, in letters, digits, `-` and `_`"
            )
        if name in self._names:
            raise GraphError(f"{self._task}.{name}: two nodes have this id")
        self._names.add(name)
        hosts = (on,) if isinstance(on, Host) else tuple(on)
        node = ExecutionNode(
            id=f"{self._task}.{name}{self._suffix}",
            step=step,
            hosts=tuple(host.name for host in hosts),
            via=tuple(host.name for host in via),
            after=self._ids(after),
            after_same_host=self._ids(after_same_host),
            provides=_several(provides),
            needs=_several(needs),
            optional=optional,
            on_demand=on_demand,
            closes=self._ids([closes])[0] if closes is not None else "",
            retry=retry or Retry(),
            timeout=timeout,
            max_parallel=max_parallel,
            weight=weight,
        )
        self._nodes.append(node)
        return NodeHandle(node.id, self)

    def build(self) -> ExecutionFragment:
        """The fragment of all nodes added so far."""
        return ExecutionFragment(tuple(self._nodes))

    def _ids(self, handles: Sequence[NodeHandle]) -> tuple[str, ...]:
        for handle in handles:
            if handle.builder is not self:
                raise GraphError(
                    f"{handle.id} was added to another builder", hint="join fragments by milestones or by sequence()"
                )
        return tuple(dict.fromkeys(handle.id for handle in handles))


def _several(value: Milestone | Sequence[Milestone]) -> tuple[Milestone, ...]:
    return (value,) if isinstance(value, Milestone) else tuple(value)
