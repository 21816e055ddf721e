"""Lists of sha256 sums, as upstreams publish them and as users pin them. Knows no network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import AssetError

__all__ = ["MAX_SUMS", "PinnedSums", "find_sum"]

MAX_SUMS = 4 * 1024 * 1024

_LINE = re.compile(r"([0-9a-fA-F]{64})(?:[ \t]+[*]?(\S.*?))?\s*")


def find_sum(text: str, name: str, *, where: str) -> str:
    """The sha256 of the file `name` in a list of sums, or the only one in a file that holds a bare sum."""
    bare: list[str] = []
    named: set[str] = set()
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue  # signatures around a list, comments
        if match[2] is None:
            bare.append(match[1].lower())
        elif match[2].rpartition("/")[2] == name:
            named.add(match[1].lower())
    if len(named) == 1:
        return named.pop()
    if not named and len(bare) == 1:
        return bare[0]
    what = "several sums" if named or bare else "no sum"
    raise AssetError(f"{where} holds {what} for {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedSums:
    """A user's own list: the only sums that count, for everything that is in a release."""

    path: Path
    sums: dict[str, str]

    @classmethod
    def load(cls, path: Path) -> PinnedSums:
        """The list in a file of lines as sha256sum writes them, with paths as in a bundle or on a mirror."""
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AssetError(f"the list of sums {path} cannot be read: {error}") from error
        sums: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            match = _LINE.fullmatch(line)
            if match is None or match[2] is None:
                raise AssetError(
                    f"{path}, line {number}: not a sum and a path", hint="Lines are as `sha256sum` writes them."
                )
            name, value = match[2].removeprefix("./").removeprefix("files/"), match[1].lower()
            if sums.setdefault(name, value) != value:
                raise AssetError(f"{path}, line {number}: {name} is there with another sum as well")
        return cls(path=path, sums=sums)

    def find(self, path: str) -> str:
        """The sum of what has this upstream path, given in full or by its last parts; AssetError if there is none."""
        parts = path.split("/")
        for cut in range(len(parts)):
            if (found := self.sums.get("/".join(parts[cut:]))) is not None:
                return found
        raise AssetError(
            f"{self.path} has no sum for {path}",
            hint="A pinned list must name everything that is downloaded; add a line for it.",
        )
