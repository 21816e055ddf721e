"""Saved plans: a file people can review, which is executed exactly as it is or refused.

A plan is refused if the config, kubexm's version or a fact that planning read has changed, and the refusal says which.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubexm import __version__
from kubexm.errors import FormatError, GraphError, PlanError, StalePlanError
from kubexm.plan.graph import ExecutionGraph
from kubexm.plan.spec import RunSpec
from kubexm.runner import Facts
from kubexm.runtime import FactRead

__all__ = ["SavedPlan", "changed_paths"]

_FORMAT = "kubexm-plan/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """A graph and everything it was made from."""

    spec: RunSpec
    """What was asked for."""
    cluster: str
    file: str
    """The cluster.yaml it was made from."""
    config: Mapping[str, Any]
    """What the file said, without connection settings, secrets and asset sources."""
    reads: tuple[FactRead, ...]
    graph: ExecutionGraph
    version: str = __version__
    offline: bool = False
    changes: bool = True

    @property
    def pipeline(self) -> str:
        """The name of its pipeline."""
        return self.spec.pipeline

    def save(self, path: Path) -> None:
        """Writes it, whole or not at all."""
        data = {
            "format": _FORMAT,
            "kubexm": self.version,
            "spec": self.spec.to_json(),
            "cluster": self.cluster,
            "file": self.file,
            "offline": self.offline,
            "changes": self.changes,
            "config": self.config,
            "facts": [[read.host, read.path, read.arguments, read.value] for read in self.reads],
            "graph": self.graph.to_dict(),
        }
        data["sha256"] = _digest(data)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
            temporary.rename(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise PlanError(f"{path}: the plan cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path) -> SavedPlan:
        """Reads it back; PlanError if it is not a plan of this version's format."""
        try:
            data = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise PlanError(f"{path}: the plan cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise PlanError(f"{path}: this is not a saved plan: {error}", hint=_AGAIN) from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            found = data.get("format") if isinstance(data, dict) else None
            if isinstance(found, str) and found.startswith(_FORMAT.partition("/")[0] + "/"):
                raise PlanError(f"{path}: a plan of format {found}, and this version reads {_FORMAT}", hint=_AGAIN)
            raise PlanError(f"{path}: this is not a saved plan of format {_FORMAT}", hint=_AGAIN)
        if data.get("sha256") != _digest(data):
            raise PlanError(f"{path}: the plan was edited or damaged since it was saved", hint=_AGAIN)
        if data["kubexm"] != __version__:
            raise StalePlanError(f"{path}: made by kubexm {data['kubexm']}, and this is {__version__}", hint=_AGAIN)
        try:
            return cls(
                spec=RunSpec.from_json(data["spec"]),
                cluster=data["cluster"],
                file=data["file"],
                offline=data["offline"],
                changes=data["changes"],
                config=data["config"],
                reads=tuple(
                    FactRead(host, name, None if arguments is None else tuple(arguments), value)
                    for host, name, arguments, value in data["facts"]
                ),
                graph=ExecutionGraph.from_dict(data["graph"]),
                version=data["kubexm"],
            )
        except (GraphError, FormatError) as error:
            raise PlanError(f"{path}: {error.message}", hint=error.hint or _AGAIN) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(f"{path}: the plan is damaged: {error!r}", hint=_AGAIN) from error

    def check(self, config: Mapping[str, Any], facts: Mapping[str, Facts]) -> None:
        """Raises StalePlanError that names every difference, or returns."""
        differences = changed_paths(self.config, config)
        for read in self.reads:
            now = facts.get(read.host)
            if now is None:
                differences.append(f"{read.host}: could not be reached, and planning read its {read}")
                continue
            value = read.again(now)
            if value != read.value:
                differences.append(f"{read.host}: {read} was {_short(read.value)}, is {_short(value)}")
        if differences:
            raise StalePlanError(
                "this plan no longer fits:\n" + "\n".join(f"  {line}" for line in differences), hint=_AGAIN
            )


_AGAIN = "make it again with `kubexm plan --save`"


def _digest(data: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in data.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


def changed_paths(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two JSON values differ, as lines for people."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines: list[str] = []
        for key in sorted({*old, *new}):
            lines += changed_paths(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
        return lines
    if isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for index, (a, b) in pairs for line in changed_paths(a, b, f"{path}[{index}]")]
    return [] if old == new else [f"{path or 'the file'}: was {_short(old)}, is {_short(new)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:79] + "…"
