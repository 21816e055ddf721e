"""Files of an asset (a program, or an archive of them) on the host, and a cheap way to tell that they still are so.

A stamp remembers what was put there, so that a second look costs one `stat` and not reading hundreds of megabytes. What
was touched since is read, and after a reboot everything: assets can be had again, so that nobody waits for the disk.
Must not know what an asset is for or where its bytes come from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from kubexm.connector.base import Upload, shell
from kubexm.runner.archives import archive_options
from kubexm.runner.base import Operations, library, posix

__all__ = ["Placed"]

_TIMEOUT = 900.0


@dataclass(frozen=True, slots=True)
class Placed(Operations):
    """Assets on the host, by name."""

    def stamp(self, name: str) -> PurePosixPath:
        """Where it is remembered what the asset put on the host, unless a stamp of its own is named."""
        return self.state / "assets" / name

    async def why_not(self, name: str, sha256: str, *, stamp: PurePosixPath | None = None) -> str:
        """Nothing if everything the asset with this sha256 put there is as it was, else the reason in a few words."""
        script = f"{library('sum')}{library('placed')}kx_placed {shell(stamp or self.stamp(name), sha256)}"
        return self._checked(await self._read(script, f"look for {name}", within=120)).text.replace("\n", "; ")

    async def put(
        self,
        name: str,
        source: Path,
        path: PurePosixPath,
        *,
        sha256: str,
        packed: str = "",
        mode: int,
        stamp: PurePosixPath | None = None,
        keep: bool = True,
        snapshot: PurePosixPath | None,
    ) -> None:
        """The file is at this path, and remembered. Without `keep`, the place is kubexm's own and has no original.

        `packed`: the source is the file packed with zstd, of this sha256.
        """
        target, stamp = posix(path), stamp or self.stamp(name)
        prepare = f"{self._keeping(keep, snapshot)}kx_prepare {shell(target, f'{mode:o}', 'root', 'root', sha256)}"
        if packed:
            archive = await self._arrived(name, source, sha256, packed)
            words = shell(stamp, sha256, archive, target, f"{mode:o}")
            script = f"{library('placed')}( {prepare} ) && kx_unwrap {words}"
            self._checked(await self._change(script, f"unpack {name}", within=_TIMEOUT, long=True))
            return
        self._checked(await self._change(prepare, f"prepare {path}"))
        await self.connector.upload(Upload(source=source, path=target, mode=mode, sha256=sha256, durable=False))
        line = shell(f"{sha256} {mode:o} {target}")
        script = f"{library('placed')}printf '%s\\n' {line} | kx_remember {shell(stamp, sha256)}"
        self._checked(await self._change(script, f"remember {name}"))

    async def unpack(
        self,
        name: str,
        source: Path,
        into: PurePosixPath,
        *,
        sha256: str,
        packed: str = "",
        strip_components: int = 0,
        members: Sequence[str] = (),
        stamp: PurePosixPath | None = None,
        keep: bool = True,
        snapshot: PurePosixPath | None,
    ) -> None:
        """The archive's members (all, if none are named) are in the directory, and remembered. Leaves no archive.

        Without `keep`, the directory is kubexm's own and what is in it has no original.

        `packed`: the source is the archive repacked, of this sha256.
        """
        options = archive_options(source.name, self.facts, self.connector.host)
        archive = await self._arrived(name, source, sha256, packed)
        stamp = stamp or self.stamp(name)
        words = shell(stamp, sha256, archive, posix(into), strip_components, "\n".join(members), *options)
        script = f"{self._keeping(keep, snapshot)}{library('archive')}{library('placed')}kx_unpack {words}"
        result = await self._change(script, f"unpack {name} into {into}", within=_TIMEOUT, long=True)
        hint = ""
        if re.search(r"unsafe path|(in|of) the archive: |Member name contains '..'", result.error_text):
            hint = "Do not trust this archive: get it again from its origin and compare its checksum."
        self._checked(result, hint=hint)

    async def _arrived(self, name: str, source: Path, sha256: str, packed: str) -> PurePosixPath:
        """Where the asset is on the host, as it was sent: a file that goes when it is unpacked."""
        archive = self.place / f"{name}-{sha256[:16]}{''.join(source.suffixes[-2:])}"
        await self.incoming(name)
        whole = Upload(source=source, path=archive, mode=0o600, sha256=packed or sha256, durable=False)
        await self.connector.upload(replace(whole, proven=bool(packed)))
        return archive

    @property
    def place(self) -> PurePosixPath:
        """The directory for what is sent to the host and does not stay."""
        return self.state / "incoming"

    async def incoming(self, what: str) -> PurePosixPath:
        """The same, made if need be."""
        self._checked(await self._change(f"umask 077; mkdir -p -- {shell(self.place)}", f"make room for {what}"))
        return self.place
