"""Four scoped caches: pipeline, module, task, step. A look-up that finds nothing falls back to the scope around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from kubexm.cache.keys import Key, Scope

__all__ = ["Caches", "Given", "ModuleCache", "PipelineCache", "StepCache", "TaskCache"]

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

    def find(self, name: str, host: str) -> object:
        """The value of a key of this name, from here or the nearest scope around; KeyError if none has it."""
        cache: _ScopedCache | None = self
        while cache is not None:
            found = cache._values.get((name, host), _MISSING)
            if found is not _MISSING:
                return found
            cache = cache._outer
        raise KeyError(name)

    def hosts_with(self, name: str) -> frozenset[str]:
        """Every host that has a value of this name, here or in a scope around."""
        outer = self._outer.hosts_with(name) if self._outer is not None else frozenset()
        return outer.union(host for one, host in self._values if one == name)

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

    def __init__(self, task: _ScopedCache) -> None:
        super().__init__(task)

    @classmethod
    def over(cls, notes: Mapping[tuple[str, str], Any], given: Mapping[tuple[str, str], Any]) -> StepCache:
        """An empty cache that sees these notes of its node, and around them these values."""
        outer = PipelineCache()
        outer._values = cast("dict[tuple[str, str], Any]", given)
        middle = _ScopedCache(outer)
        middle._values = cast("dict[tuple[str, str], Any]", notes)
        return cls(middle)

    @property
    def own(self) -> Mapping[tuple[str, str], Any]:
        """What was set here, by name and host."""
        return self._values

    def note(self, notes: Mapping[tuple[str, str], Any]) -> None:
        """Keeps what a step of this node noted."""
        self._values.update(notes)


class Given(Mapping[tuple[str, str], Any]):
    """The values that one unit consumes, by name and host: nothing else of what its node could see."""

    __slots__ = ("_cache", "_consumed", "_gathered", "_host")

    def __init__(
        self, cache: _ScopedCache, consumed: frozenset[str], gathered: frozenset[str] = frozenset(), host: str = ""
    ) -> None:
        self._cache = cache
        self._consumed = consumed
        self._gathered = gathered
        self._host = host

    def __getitem__(self, item: tuple[str, str]) -> Any:
        name, host = item
        if name in self._gathered or (name in self._consumed and host in ("", self._host)):
            return self._cache.find(name, host)
        raise KeyError(name)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for name in sorted(self._consumed | self._gathered):
            for host in sorted(self._cache.hosts_with(name)):
                if name in self._gathered or host in ("", self._host):
                    yield name, host

    def __len__(self) -> int:
        return sum(1 for _ in self)


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
