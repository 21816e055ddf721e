"""What a rule is and what it finds. Must not know any particular rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from kubexm.apis.v1alpha1.cluster import Cluster

__all__ = ["Finding", "Path", "Rule", "dotted", "listed", "nearest"]

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about the whole file that is wrong, or only doubtful."""

    path: Path
    message: str
    hint: str = ""
    warning: bool = False
    also: tuple[Path, ...] = ()
    """Other places that are part of it, best first; shown instead of `path` if that is not written in the file."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check, and the parts of the file without which it would find what is not there."""

    check: Callable[[Cluster], Iterator[Finding]]
    needs: tuple[Path, ...] = ()

    def can_run(self, damaged: Iterable[Path]) -> bool:
        """Whether nothing it needs is missing or wrong."""
        return not any(_touches(path, need) for path in damaged for need in self.needs)


def _touches(path: Path, need: Path) -> bool:
    """Whether one of the places lies in the other; `*` in a need stands for any member."""
    return all(there in (part, "*") for part, there in zip(path, need, strict=False))


def dotted(path: Path) -> str:
    """`spec.hosts[2].address`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "").replace("_", "").isalnum():
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def listed(names: Iterable[str], most: int = 4) -> str:
    """A few names, and how many more there are."""
    every = list(names)
    head = ", ".join(every[:most])
    return head if len(every) <= most else f"{head} and {len(every) - most} more"


def nearest(name: str, choices: Iterable[str], what: str) -> str:
    """A hint that names the choice most like the name, or else some of them."""
    every = list(choices)
    near = get_close_matches(name, every, 1)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"{what}: {listed(every, 8)}" if every else ""
