"""Files, links and directories. Must not know what they are for.

Reads are one command each. Changes are atomic: a file is there whole, with its mode and owner, or as it was before.
Unless told otherwise they keep the original of what they change (see originals.py) in the same command.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from kubexm.connector.base import CHANGE_TIMEOUT, Upload, shell
from kubexm.errors import StepError
from kubexm.redact import Secret
from kubexm.runner.base import ABSENT, CONFLICT, Operations, library, posix
from kubexm.runner.lines import with_line, without_line

__all__ = ["FileKind", "FileStat", "Files", "NewFile"]

_INLINE = 512 * 1024
"""Up to this size a file travels with the command that writes it."""
_LARGE = 16 * 1024 * 1024
"""From this size on, reading a file through takes long enough to want a channel of its own."""
_ATTEMPTS = 3

_CONTENT_PATH = re.compile(r"^[0-9a-f]{64}$")


class FileKind(Enum):
    """What a path is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """How a path is; links are not followed."""

    kind: FileKind
    mode: int
    owner: str
    group: str
    uid: int
    gid: int
    size: int
    mtime: int
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A small file to be written."""

    path: PurePosixPath
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Files(Operations):
    """Files on the host."""

    async def read(self, path: PurePosixPath | str) -> bytes | None:
        """The file's content, or None if it is not there."""
        p = shell(posix(path))
        result = await self._read(f"[ -e {p} ] || exit {ABSENT}\ncat -- {p}", f"read {path}")
        if result.exit_code == ABSENT:
            return None
        self._checked(result)
        if result.truncated:
            raise StepError(f"{path} is too large to be read at once", host=result.host, hint="Use download instead.")
        return result.stdout

    async def text(self, path: PurePosixPath | str) -> str | None:
        """The file's content as text, or None if it is not there."""
        content = await self.read(path)
        return None if content is None else content.decode(errors="replace")

    async def exists(self, path: PurePosixPath | str) -> bool:
        """True if something is there, be it a broken link."""
        p = shell(posix(path))
        return (await self._read(f"[ -e {p} ] || [ -L {p} ]", f"look for {path}")).ok

    async def stat(self, path: PurePosixPath | str) -> FileStat | None:
        """How the path is, or None if it is not there."""
        p = shell(posix(path))
        script = (
            f"[ -e {p} ] || [ -L {p} ] || exit {ABSENT}\n"
            f"stat -c '%f %s %u %g %Y %U %G' -- {p} && if [ -L {p} ]; then readlink -- {p}; fi"
        )
        result = await self._read(script, f"stat {path}")
        if result.exit_code == ABSENT:
            return None
        first, _, rest = self._checked(result).text.partition("\n")
        mode, size, uid, gid, mtime, owner, group = first.split(" ", 6)
        bits = int(mode, 16)
        kinds = {0o100000: FileKind.FILE, 0o040000: FileKind.DIRECTORY, 0o120000: FileKind.LINK}
        return FileStat(
            kind=kinds.get(bits & 0o170000, FileKind.OTHER),
            mode=bits & 0o7777,
            owner=owner,
            group=group,
            uid=int(uid),
            gid=int(gid),
            size=int(size),
            mtime=int(mtime),
            target=rest,
        )

    async def matches(
        self,
        path: PurePosixPath | str,
        *,
        sha256: str = "",
        content: bytes | str | Secret | None = None,
        mode: int | None = None,
        owner: str | None = None,
        group: str | None = None,
        size: int | None = None,
    ) -> bool:
        """True if a plain file is there with this content, mode and owner; whatever is not given does not matter."""
        if content is not None:
            data = _bytes(content)
            sha256, size = hashlib.sha256(data).hexdigest(), len(data)
        if sha256 and not _CONTENT_PATH.match(sha256):
            raise ValueError(f"not a sha256: {sha256}")
        p = shell(posix(path))
        wanted = [("%a", f"{mode:o}")] if mode is not None else []
        wanted += [("%u" if owner.isdigit() else "%U", owner)] if owner is not None else []
        wanted += [("%g" if group.isdigit() else "%G", group)] if group is not None else []
        wanted += [("%s", str(size))] if size is not None else []
        tests = [f"[ -f {p} ]", f"! [ -L {p} ]"]
        if wanted:
            form, value = " ".join(f for f, _ in wanted), " ".join(v for _, v in wanted)
            tests.append(f'[ "$(stat -c {shell(form)} -- {p})" = {shell(value)} ]')
        if sha256:
            tests.append(f'kx_sum {p} {"" if size is None else size} && [ "$kx_h" = {sha256} ]')
        long = size is not None and size >= _LARGE
        script = (library("sum") if sha256 else "") + " && ".join(tests)
        result = await self._read(script, f"compare {path}", within=300 if long else 60, long=long)
        return result.ok

    async def checksum(self, path: PurePosixPath | str) -> str | None:
        """The file's sha256, or None if it is not there."""
        p = shell(posix(path))
        script = f'[ -e {p} ] || exit {ABSENT}\n{library("sum")}kx_sum {p} && echo "$kx_h"'
        result = await self._read(script, f"sha256 of {path}", within=300, long=True)
        return None if result.exit_code == ABSENT else self._checked(result).text.split()[0]

    async def links_to(self, path: PurePosixPath | str, target: PurePosixPath | str) -> bool:
        """True if the path is a symbolic link with exactly this target."""
        p = shell(posix(path))
        script = f'[ -L {p} ] && [ "$(readlink -- {p})" = {shell(str(target))} ]'
        return (await self._read(script, f"readlink {path}")).ok

    async def write(
        self,
        path: PurePosixPath | str,
        content: bytes | str | Secret,
        *,
        mode: int = 0o644,
        owner: str = "root",
        group: str = "root",
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """The file has this content, mode and owner; directories above it are made. False if it was so already."""
        data = _bytes(content)
        if len(data) > _INLINE:
            return await self._upload(
                path, data, mode=mode, owner=owner, group=group, keep=keep, snapshot=snapshot, sha256=""
            )
        return await self._put(path, data, f"{mode:o}", owner, group, "-", keep=keep, snapshot=snapshot) is True

    async def write_all(
        self,
        files: Sequence[NewFile],
        *,
        owner: str = "root",
        group: str = "root",
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
        first: str = "",
        within: float = CHANGE_TIMEOUT,
    ) -> bool:
        """As `write` for several small files, in one command; each is whole or as before. False if all were so.

        `first` is shell text that the same command runs before it writes: what must not be left undone in between.
        """
        if not files:
            return False
        data = b"".join(file.content for file in files)
        if len(data) > _INLINE:
            raise ValueError(f"{len(data)} bytes are too many for one command")
        # Each takes exactly its share of standard input and leaves the rest to the next.
        stages = [f"kx_stage {shell(posix(file.path), f'{file.mode:o}', len(file.content))}" for file in files]
        lands = [
            shell(posix(file.path), f"{file.mode:o}", owner, group, len(file.content), _digest(file.content))
            for file in files
        ]
        display = f"write {files[0].path}" + (f" and {len(files) - 1} more" if len(files) > 1 else "")
        before = [f"(\n{first}\n) </dev/null || exit 1"] if first else []
        land = "kx_land " + " ".join(lands)
        script = self._keeping(keep, snapshot) + "\n".join([*before, *stages, land])
        result = self._checked(await self._change(script, display, stdin=data, within=within, long=bool(first)))
        return "changed" in result.text.split()

    async def upload(
        self,
        source: Path,
        path: PurePosixPath | str,
        *,
        mode: int = 0o644,
        owner: str = "root",
        group: str = "root",
        sha256: str = "",
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """A local file is there, with mode and owner. False if it was so already."""
        return await self._upload(
            path, source, mode=mode, owner=owner, group=group, keep=keep, snapshot=snapshot, sha256=sha256
        )

    async def download(self, path: PurePosixPath | str, target: Path) -> None:
        """Fetches a file to a local path, mode 0600."""
        await self.connector.download(posix(path), target)

    async def link(
        self,
        path: PurePosixPath | str,
        target: PurePosixPath | str,
        *,
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """The path is a symbolic link to the target. False if it was so already."""
        call = "kx_link " + shell(posix(path), str(target))
        return await self._do(call, f"link {path} to {target}", keep=keep, snapshot=snapshot)

    async def remove(
        self, path: PurePosixPath | str, *, keep: bool = True, snapshot: PurePosixPath | None = None
    ) -> bool:
        """The file, link or empty directory is gone. False if it was not there."""
        return await self._do("kx_remove " + shell(posix(path)), f"remove {path}", keep=keep, snapshot=snapshot)

    async def line(
        self,
        path: PurePosixPath | str,
        line: str,
        *,
        match: str | None = None,
        present: bool = True,
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """The file has (or has not) the line; a line that `match` (a regex) finds is replaced. False if so already."""
        change = (
            (lambda text: with_line(text, line, match)) if present else (lambda text: without_line(text, line, match))
        )
        return await self.edit(path, change, keep=keep, snapshot=snapshot)

    async def has_line(self, path: PurePosixPath | str, line: str, *, match: str | None = None) -> bool:
        """True if `line` with the same arguments would change nothing."""
        text = await self.text(path) or ""
        return with_line(text, line, match) == text

    async def edit(
        self,
        path: PurePosixPath | str,
        change: Callable[[str], str],
        *,
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """The file's text becomes `change(text)`, mode and owner stay. Edits by others in between are not lost."""
        for _ in range(_ATTEMPTS):
            old = await self.read(path)
            before = (old or b"").decode(errors="surrogateescape")
            after = change(before)
            if after == before:
                return False
            expected = "absent" if old is None else hashlib.sha256(old).hexdigest()
            data = after.encode(errors="surrogateescape")
            done = await self._put(path, data, "-", "-", "-", expected, keep=keep, snapshot=snapshot)
            if done is not None:
                return done
        raise StepError(
            f"{path} was changed by somebody else each time it was about to be edited",
            host=self.connector.host,
            hint="Find out which program writes it (`lsof`, configuration management?), stop that, then run again.",
        )

    async def _put(
        self,
        path: PurePosixPath | str,
        data: bytes,
        mode: str,
        owner: str,
        group: str,
        expected: str,
        *,
        keep: bool,
        snapshot: PurePosixPath | None,
    ) -> bool | None:
        """True if changed, False if the same already, None if it is not as expected any more."""
        sha256 = _digest(data)
        call = "kx_put " + shell(posix(path), mode, owner, group, len(data), expected, sha256)
        if expected != "-":  # an edit keeps a link and changes what it points to
            call = f'kx_p=$(readlink -m -- {shell(posix(path))}) || exit 1\nkx_put "$kx_p" ' + shell(
                mode, owner, group, len(data), expected, sha256
            )
        result = await self._change(
            self._keeping(keep, snapshot) + call, f"write {path} ({len(data)} bytes)", stdin=data
        )
        return None if result.exit_code == CONFLICT else self._checked(result).text == "changed"

    async def _upload(
        self,
        path: PurePosixPath | str,
        source: bytes | Path,
        *,
        mode: int,
        owner: str,
        group: str,
        keep: bool,
        snapshot: PurePosixPath | None,
        sha256: str,
    ) -> bool:
        target = posix(path)
        digest = sha256 or _digest(source)
        prepare = f"kx_prepare {shell(target, f'{mode:o}', owner, group, digest)}"
        result = await self._change(self._keeping(keep, snapshot) + prepare, f"prepare {path}")
        self._checked(result)
        return await self.connector.upload(
            Upload(source=source, path=target, mode=mode, owner=owner, group=group, sha256=digest)
        )

    async def _do(self, call: str, display: str, *, keep: bool, snapshot: PurePosixPath | None) -> bool:
        result = await self._change(self._keeping(keep, snapshot) + call, display)
        return self._checked(result).text == "changed"


def _bytes(content: bytes | str | Secret) -> bytes:
    if isinstance(content, Secret):
        content = content.reveal()
    return content.encode() if isinstance(content, str) else content


def _digest(source: bytes | Path) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
