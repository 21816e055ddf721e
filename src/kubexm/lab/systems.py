"""The operating systems a lab host can run. Must not know how an image is built or a host is started."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from kubexm.errors import UsageError

__all__ = ["DEFAULT_SYSTEM", "SYSTEMS", "System", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A release of Debian: its name here, its name in messages, and that of its suite in the archive."""

    name: str
    title: str
    suite: str


SYSTEMS: Mapping[str, System] = {
    each.name: each
    for each in (
        System(name="debian11", title="Debian 11", suite="bullseye"),
        System(name="debian12", title="Debian 12", suite="bookworm"),
        System(name="debian13", title="Debian 13", suite="trixie"),
    )
}
DEFAULT_SYSTEM = "debian12"


def system(name: str) -> System:
    """The system of that name."""
    try:
        return SYSTEMS[name]
    except KeyError:
        near = difflib.get_close_matches(name, SYSTEMS, n=1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"Lab hosts cannot run {name!r}.", hint=f"{meant}The systems are {', '.join(SYSTEMS)}."
        ) from None
