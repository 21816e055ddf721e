"""Programs of past versions that hosts no longer need."""

from kubexm.components.programs.module import Programs

__all__ = ["Programs"]
