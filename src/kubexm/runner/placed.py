"""Files of an asset (a program, or an archive of them) on the host, and a cheap way to tell that they still are so.

A stamp remembers what was put there, so that a second look costs one `stat` and not reading hundreds of megabytes; what
was touched since is read. Must not know what an asset is for or where its bytes come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kubexm.connector.base import Upload, shell
from kubexm.runner.archives import archive_options
from kubexm.runner.base import Operations, library, posix
from kubexm.runner.files import Files

__all__ = ["Placed"]

_TIMEOUT = 900.0


@dataclass(frozen=True, slots=True)
class Placed(Operations):
    """Assets on the host, by name."""

    def stamp(self, name: str) -> PurePosixPath:
        """Where it is remembered what the asset put on the host. Changes only if the asset does."""
        return self.state / "assets" / name

    async def why_not(self, name: str, sha256: str) -> str:
        """Nothing if everything the asset with this sha256 put there is as it was, else the reason in a few words."""
        script = f"{library('sum')}{library('placed')}kx_placed {shell(self.stamp(name), sha256)}"
        return self._checked(await self._read(script, f"look for {name}", within=120)).text.replace("\n", "; ")

    async def put(
        self, name: str, source: Path, path: PurePosixPath, *, sha256: str, mode: int, snapshot: PurePosixPath | None
    ) -> None:
        """The file is at this path, and remembered."""
        files = Files(self.connector, self.facts, state=self.state)
        await files.upload(source, path, mode=mode, sha256=sha256, snapshot=snapshot)
        noted = f"printf '%s %s\\n' {shell(sha256, posix(path))} | kx_stamp_files {shell(self.stamp(name), sha256)}"
        self._checked(await self._change(library("placed") + noted, f"remember {name}"))

    async def unpack(
        self,
        name: str,
        source: Path,
        into: PurePosixPath,
        *,
        sha256: str,
        strip_components: int = 0,
        members: Sequence[str] = (),
        snapshot: PurePosixPath | None,
    ) -> None:
        """The archive's members (all, if none are named) are in the directory, and remembered. Leaves no archive."""
        archive = self.state / "incoming" / f"{name}-{sha256[:16]}{''.join(source.suffixes[-2:])}"
        options = archive_options(source.name, self.facts, self.connector.host)
        prepared = await self._change(f"umask 077; mkdir -p -- {shell(archive.parent)}", f"make room for {name}")
        self._checked(prepared)
        await self.connector.upload(Upload(source=source, path=archive, mode=0o600, sha256=sha256))
        listed = self.state / "incoming" / f"{name}-{hashlib.sha256(str(into).encode()).hexdigest()[:8]}"
        wanted = "\n".join(members)
        script = (
            f"{self._keeping(True, snapshot)}{library('archive')}{library('placed')}"
            f"x_members={shell(wanted)}\n"
            f"( kx_extract {shell(archive, posix(into), strip_components, sha256, listed, *options)} ) >&2 || exit 1\n"
            f"cat -- {shell(f'{listed}.big', f'{listed}.small')} | sort -k 2 | "
            f"kx_stamp_files {shell(self.stamp(name), sha256)} || exit 1\n"
            f"rm -f -- {shell(f'{listed}.big', f'{listed}.small', archive)}"
        )
        result = await self._change(script, f"unpack {name} into {into}", within=_TIMEOUT, long=True)
        self._checked(result)

    async def forget(self, name: str) -> None:
        """It is not remembered any more; its files stay."""
        stamp = self.stamp(name)
        self._checked(await self._change(shell("rm", "-f", "--", stamp, f"{stamp}.stat"), f"forget {name}"))
