"""What can be wrong with a bundle, said so that one knows which file it is and what to do."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Finding", "Kind"]


class Kind(enum.StrEnum):
    """What sort of fault it is."""

    DAMAGED = "damaged"
    MISSING = "missing"
    EXTRA = "extra"
    REFUSED = "refused"
    """A name or a kind of file that must not be in a bundle."""
    CUT_SHORT = "cut short"
    MANIFEST = "manifest"
    SIGNATURE = "signature"
    ARCHITECTURE = "architecture"
    FORMAT = "format"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault: what sort, which file, and the particulars."""

    kind: Kind
    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"
