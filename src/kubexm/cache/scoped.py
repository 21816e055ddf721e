"""Four scoped caches: pipeline, module, task, step. A look-up that finds nothing falls back to the scope around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from kubexm.cache.keys import Key, Scope

__all__ = ["Caches", "ModuleCache", "PipelineCache", "StepCache", "TaskCache"]

T = TypeVar("T")
_MISSING = object()


class _ScopedCache:
    """Values by key and host; knows the scope around it."""

    __slots__ = ("_outer", "_values")

    def __init__(self, outer: _ScopedCache | None = None) -> None:
        self._outer = outer
        self._values: dict[tuple[str, str], Any] = {}

    def set(self, key: Key[T], value: T, host: str = "") -> None:
        """Keeps the value here."""
        self._values[key.name, host if key.per_host else ""] = value

    def get(self, key: Key[T], host: str = "") -> T:
        """The value, from here or the nearest scope around; KeyError if none has it."""
        found = self._values.get((key.name, host if key.per_host else ""), _MISSING)
        if found is not _MISSING:
            return cast("T", found)
        if self._outer is None:
            raise KeyError(key.name)
        return self._outer.get(key, host)

    def __contains__(self, item: tuple[Key[Any], str]) -> bool:
        try:
            self.get(*item)
        except KeyError:
            return False
        return True

    def by_host(self, key: Key[T]) -> dict[str, T]:
        """Every host's value of a per-host key, inner scopes over outer ones."""
        found = self._outer.by_host(key) if self._outer is not None else {}
        found.update({host: value for (name, host), value in self._values.items() if name == key.name})
        return found

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._values)


class PipelineCache(_ScopedCache):
    """What the whole run can see."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()


class ModuleCache(_ScopedCache):
    """What one module can see."""

    __slots__ = ()

    def __init__(self, pipeline: PipelineCache) -> None:
        super().__init__(pipeline)


class TaskCache(_ScopedCache):
    """What one task can see."""

    __slots__ = ()

    def __init__(self, module: ModuleCache) -> None:
        super().__init__(module)


class StepCache(_ScopedCache):
    """What one node's step can see."""

    __slots__ = ()

    def __init__(self, task: TaskCache) -> None:
        super().__init__(task)


class Caches:
    """The caches of one run, each made when first asked for."""

    __slots__ = ("_modules", "_steps", "_tasks", "pipeline")

    def __init__(self) -> None:
        self.pipeline = PipelineCache()
        self._modules: dict[str, ModuleCache] = {}
        self._tasks: dict[str, TaskCache] = {}
        self._steps: dict[str, StepCache] = {}

    def step(self, node_id: str) -> StepCache:
        """The cache of this node (`module.task.node…`), inside its task's, its module's and the pipeline's."""
        found = self._steps.get(node_id)
        if found is None:
            module_id, task_name, _ = node_id.split(".", 2)
            task_id = f"{module_id}.{task_name}"
            module = self._modules.setdefault(module_id, ModuleCache(self.pipeline))
            task = self._tasks.setdefault(task_id, TaskCache(module))
            found = self._steps[node_id] = StepCache(task)
        return found

    def publish(self, node_id: str, key: Key[T], value: T, host: str) -> None:
        """Keeps a value that this node produced in the scope its key asks for."""
        if key.scope is Scope.PIPELINE:
            self.pipeline.set(key, value, host)
            return
        inner: _ScopedCache = self.step(node_id)
        for _ in range(key.scope - Scope.STEP):
            assert inner._outer is not None
            inner = inner._outer
        inner.set(key, value, host)
