"""Programs staged by version side by side, and which version of each is active. Must not know what they are for.

Placing a version changes nothing that runs or would be started: what is active changes with one rename. So a reboot
between the two starts what ran before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, library, posix

__all__ = ["Staged"]


@dataclass(frozen=True, slots=True)
class Staged(Operations):
    """Programs below one directory, by name and version."""

    async def why_not(
        self, root: PurePosixPath, name: str, version: str, into: PurePosixPath, members: Sequence[str] = ()
    ) -> str:
        """Nothing if this version is active and the links in `into` lead to it, else the reason in a few words."""
        call = f"kx_inactive {shell(posix(root), name, version, posix(into), *members)}"
        result = await self._read(library("programs") + call, f"look at the active {name}")
        return self._checked(result).text.replace("\n", "; ")

    async def activate(
        self,
        root: PurePosixPath,
        name: str,
        version: str,
        into: PurePosixPath,
        members: Sequence[str] = (),
        *,
        snapshot: PurePosixPath | None,
    ) -> None:
        """This version is active: every member (all, if none are named) switches at once.

        The first time, links replace what is in `into`; how that was is kept.
        """
        call = f"kx_activate {shell(posix(root), name, version, posix(into), *members)}"
        script = f"{self._keeping(True, snapshot)}{library('programs')}{call}"
        self._checked(await self._change(script, f"activate {name} {version}"))

    async def prunable(self, root: PurePosixPath, keep: Iterable[str] = ()) -> tuple[str, ...]:
        """Directories of versions that are not active, were not before, and that no process and no shim refers to.

        `keep` names further ones to leave, as NAME/VERSION.
        """
        script = library("programs") + f"kx_prunable {shell(posix(root), chr(10).join(keep))}"
        found = self._checked(await self._read(script, "look for programs that nothing uses")).text
        return tuple(line for line in found.split("\n") if line)

    async def prune(self, root: PurePosixPath, keep: Iterable[str] = ()) -> None:
        """Those directories are gone."""
        script = library("programs") + f"kx_prune {shell(posix(root), chr(10).join(keep))}"
        self._checked(await self._change(script, "remove programs that nothing uses", long=True))
