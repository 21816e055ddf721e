"""What a task is: a verb phrase that decides, from config and facts, which nodes are needed. It touches no host."""

from __future__ import annotations

from kubexm.plan import EMPTY, ExecutionFragment
from kubexm.runtime import TaskContext

__all__ = ["Task"]


class Task:
    """Plans one fragment."""

    def is_required(self, ctx: TaskContext) -> bool:
        """False if this cluster does not need it."""
        return True

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """The nodes, from config and facts alone."""
        raise NotImplementedError

    def plan_check(self, ctx: TaskContext) -> ExecutionFragment:
        """What stands in for the plan where the task is not required: checks that provide its milestones."""
        return EMPTY

    def fragment(self, ctx: TaskContext) -> ExecutionFragment:
        """The plan if the task is required, else its check."""
        return self.plan(ctx) if self.is_required(ctx) else self.plan_check(ctx)
