"""What a module is: a noun, some tasks, and hooks around them. Tasks join by milestones unless it says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.plan import EMPTY, ExecutionFragment, join_after, resolve_milestones
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Module"]


class Module:
    """Plans the fragment of its tasks."""

    def is_required(self, ctx: ModuleContext) -> bool:
        """False if this cluster does not need it."""
        return True

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """Its tasks, in reading order."""
        return ()

    def before(self, ctx: ModuleContext) -> Sequence[Task]:
        """Hooks: done, all of them, before anything else of this module starts."""
        return ()

    def after(self, ctx: ModuleContext) -> Sequence[Task]:
        """Hooks: started when everything else of this module is done."""
        return ()

    def plan(self, ctx: ModuleContext) -> ExecutionFragment:
        """Its tasks joined by milestones; override to join them otherwise."""
        return _linked(self.tasks(ctx), ctx)

    def fragment(self, ctx: ModuleContext) -> ExecutionFragment:
        """Hooks and plan, or the tasks' checks where the module is not required."""
        if not self.is_required(ctx):
            return resolve_milestones(task.plan_check(ctx.for_task()) for task in self.tasks(ctx))
        hooked = join_after(_linked(self.before(ctx), ctx), self.plan(ctx))
        return join_after(hooked, _linked(self.after(ctx), ctx))


def _linked(tasks: Sequence[Task], ctx: ModuleContext) -> ExecutionFragment:
    return resolve_milestones(task.fragment(ctx.for_task()) for task in tasks) if tasks else EMPTY
