"""Typed values in four scopes. Knows nothing of steps or hosts beyond their names."""

from kubexm.cache.keys import RUN_CHANGED, Key, Scope
from kubexm.cache.scoped import Caches, Given, ModuleCache, PipelineCache, StepCache, TaskCache

__all__ = ["RUN_CHANGED", "Caches", "Given", "Key", "ModuleCache", "PipelineCache", "Scope", "StepCache", "TaskCache"]
