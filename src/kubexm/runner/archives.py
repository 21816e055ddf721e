"""Archives on the host: what is in them, and unpacking. Must not know what the files are for.

Nothing lands outside the target (absolute names, `..` and links that lead out are refused) and nothing is half-written:
all is unpacked beside its place first, then each file is renamed into it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runner.base import Operations, library, posix
from kubexm.runner.facts import Facts

__all__ = ["Archives", "archive_options"]

_TIMEOUT = 900.0
_FORMATS: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = (
    ((".tar.gz", ".tgz"), "gzip", ("-z",)),
    ((".tar.xz", ".txz"), "xz", ("-J",)),
    ((".tar.zst", ".tzst"), "zstd", ("-I", "zstd")),
    ((".tar",), "tar", ()),
)


@dataclass(frozen=True, slots=True)
class Archives(Operations):
    """Archives (tar, tar.gz, tar.xz, tar.zst) that are on the host."""

    async def members(self, archive: PurePosixPath | str) -> tuple[str, ...]:
        """The names in the archive."""
        options = archive_options(str(archive), self.facts, self.connector.host)
        script = shell("tar", "-t", *options, "-f", posix(archive))
        result = await self._read(script, f"list {archive}", within=_TIMEOUT, long=True)
        return tuple(line for line in self._checked(result).text.split("\n") if line)

    async def extracted(self, sha256: str, into: PurePosixPath | str, *, strip_components: int = 0) -> bool:
        """True if the archive with this sha256 was unpacked there and all its files are as they were in it."""
        m = shell(self._manifest(sha256, into, strip_components))
        script = f"{library('sum')}{library('archive')}kx_extracted {m}"
        return (await self._read(script, f"compare {into} with its archive", within=300, long=True)).ok

    async def extract(
        self,
        archive: PurePosixPath | str,
        into: PurePosixPath | str,
        *,
        strip_components: int = 0,
        sha256: str = "",
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """The archive's files are in the directory, owned by root. False if they were already.

        With `sha256` the archive is verified first, and `extracted` can tell later.
        """
        manifest = self._manifest(sha256, into, strip_components)
        options = archive_options(str(archive), self.facts, self.connector.host)
        words = shell(posix(archive), posix(into), strip_components, sha256, manifest, *options)
        script = self._keeping(keep, snapshot) + library("archive") + "kx_extract " + words
        result = await self._change(script, f"unpack {archive} into {into}", within=_TIMEOUT, long=True)
        hint = ""
        if re.search(r"unsafe path|(in|of) the archive: |Member name contains '..'", result.error_text):
            hint = "Do not trust this archive: get it again from its origin and compare its checksum."
        elif "is damaged" in result.error_text or "unexpected end of file" in result.error_text.lower():
            hint = "The archive did not arrive whole: remove it there and run again."
        return self._checked(result, hint=hint).text == "changed"

    def _manifest(self, sha256: str, into: PurePosixPath | str, strip_components: int) -> PurePosixPath:
        name = hashlib.sha256(f"{sha256} {posix(into)} {strip_components}".encode()).hexdigest()[:32]
        return self.state / "archives" / name


def archive_options(name: str, facts: Facts, host: str) -> tuple[str, ...]:
    """What tar needs to be told to read an archive of this name; StepError if the host lacks the program for it."""
    for suffixes, program, options in _FORMATS:
        if name.endswith(suffixes):
            if program in ("xz", "zstd") and not facts.is_assumed and not facts.has_command(program):
                raise StepError(
                    f"{name} needs {program} to be unpacked, which is not on this host",
                    host=host,
                    hint=f"Install {program} there, or bring the archive as .tar.gz.",
                )
            return options
    raise ValueError(f"not an archive kubexm can unpack: {name}")
