"""What a run is asked to do, in one shape from the command line or REST to the engine.

A RunSpec is data: it is kept with saved plans, runs and the queue of a server, and sent to servers. It carries a format
number, so that another version of kubexm refuses it instead of misreading it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Final

from kubexm.errors import FormatError

__all__ = ["RunSpec"]

FORMAT: Final = 1
_MANNER: Final = ("dry_run", "rollback", "parallel", "ignore_errors", "accept_new_host_keys")
_NAMES: Final = ("only", "skip")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A pipeline, its options, and how it is run."""

    pipeline: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The pipeline's own options, as far as they were given; the others have their defaults."""
    _: KW_ONLY
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    dry_run: bool = False
    rollback: bool = False
    parallel: int | None = None
    """How many steps run at once; None for what the cluster file says."""
    ignore_errors: bool = False
    accept_new_host_keys: bool = False

    @classmethod
    def of(cls, pipeline: str, **given: Any) -> RunSpec:
        """The spec of what was given by name: what is no field of a spec is an option of the pipeline."""
        known = {each.name for each in fields(cls)} - {"pipeline", "options"}
        own = {name: value for name, value in given.items() if name not in known}
        shared = _typed({name: value for name, value in given.items() if name in known})
        return cls(pipeline, own, **shared)

    def in_the_manner_of(self, other: RunSpec) -> RunSpec:
        """The same work, run the way the other one says: a saved plan is applied as its user asks, not its author."""
        return replace(self, **{name: getattr(other, name) for name in _MANNER})

    def to_json(self) -> dict[str, Any]:
        """As JSON, without what has its default."""
        data: dict[str, Any] = {"format": FORMAT, "pipeline": self.pipeline}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "pipeline" and value:
                data[each.name] = list(value) if each.name in _NAMES else _plain(value)
        return data

    @classmethod
    def from_json(cls, data: Any) -> RunSpec:
        """Reads it back. FormatError if it was written by another version, or is damaged."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            found = data.get("format", "none") if isinstance(data, Mapping) else "none"
            raise FormatError(
                f"this request has the format {found}, and this version of kubexm reads format {FORMAT}",
                hint="use the version of kubexm that wrote it, or make the request again with this one",
            )
        given = {name: value for name, value in data.items() if name != "format"}
        types: dict[str, tuple[type, ...]] = {
            "pipeline": (str,),
            "options": (dict,),
            "only": (list, tuple),
            "skip": (list, tuple),
            "parallel": (int, type(None)),
        }
        wrong = [name for name, value in given.items() if not isinstance(value, types.get(name, (bool,)))]
        unknown = sorted(given.keys() - {each.name for each in fields(cls)})
        if wrong or unknown or "pipeline" not in given:
            raise FormatError(
                f"this request is damaged: {', '.join(unknown or wrong) or 'it names no pipeline'}",
                hint="make the request again",
            )
        return cls(**_typed(given))


def _typed(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if name in _NAMES else value for name, value in given.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return list(value) if isinstance(value, tuple) else value
