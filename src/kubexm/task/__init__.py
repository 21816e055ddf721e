"""Tasks: where planning decides. Knows config, facts and steps; nothing of modules, pipelines or engines."""

from kubexm.task.base import Task
from kubexm.task.builder import Batch, FragmentBuilder, NodeHandle

__all__ = ["Batch", "FragmentBuilder", "NodeHandle", "Task"]
