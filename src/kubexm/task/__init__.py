"""Tasks: where planning decides. Knows config, facts and steps; nothing of modules, pipelines or engines."""

from kubexm.task.base import Task
from kubexm.task.builder import FragmentBuilder, NodeHandle

__all__ = ["FragmentBuilder", "NodeHandle", "Task"]
