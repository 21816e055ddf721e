"""Mounts. Must not know what is on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, posix
from kubexm.runner.files import Files
from kubexm.runner.lines import with_line, without_line

__all__ = ["Mount", "Mounts", "parse_mounts"]

_FSTAB = PurePosixPath("/etc/fstab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mounted file system."""

    path: str
    source: str
    type: str
    options: tuple[str, ...] = ()
    root: str = "/"
    """What part of the file system it is; not `/` for bind mounts."""


@dataclass(frozen=True, slots=True)
class Mounts(Operations):
    """Mounts of the host."""

    async def list(self, below: PurePosixPath | str = "/") -> tuple[Mount, ...]:
        """Everything mounted at this path or below it, in the order it was mounted."""
        result = await self._read("cat /proc/self/mountinfo", "list mounts")
        top = posix(below)
        return tuple(m for m in parse_mounts(self._checked(result).text) if PurePosixPath(m.path).is_relative_to(top))

    async def mounted(self, path: PurePosixPath | str, *, source: str = "", persist: bool = False) -> bool:
        """True if something (from this source, if given) is mounted there, and will be at the next boot."""
        script = "cat /proc/self/mountinfo; printf '\\0'; cat /etc/fstab 2>/dev/null; :"
        text, _, fstab = self._checked(await self._read(script, f"look at mount {path}")).text.partition("\0")
        top = [m for m in parse_mounts(text) if m.path == str(posix(path))][-1:]
        live = bool(top) and (not source or top[0].source == source or source.startswith(("UUID=", "LABEL=")))
        configured = any(
            [_plain(word) for word in line.split()[1:2]] == [str(path)]
            for line in fstab.split("\n")
            if not line.lstrip().startswith("#")
        )
        return live and (configured or not persist)

    async def mount(
        self,
        source: str,
        path: PurePosixPath | str,
        *,
        fstype: str = "",
        options: tuple[str, ...] = (),
        persist: bool = False,
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """The source is mounted there, and at each boot if `persist`. False if it was mounted already."""
        target = posix(path)
        if await self.mounted(target, source=source, persist=persist):
            return False
        if persist:
            line = f"{_escape(source)} {_escape(str(target))} {fstype or 'auto'} {','.join(options) or 'defaults'} 0 0"
            match = rf"^\s*[^#\s]\S*\s+{re.escape(_escape(str(target)))}\s"
            files = Files(self.connector, self.facts, state=self.state)
            await files.edit(_FSTAB, lambda text: with_line(text, line, match), keep=keep, snapshot=snapshot)
        words = [*(["-t", fstype] if fstype else []), *(["-o", ",".join(options)] if options else []), "--", source]
        script = self._keeping(keep, snapshot) + (
            f"kx_dirs {shell(target)} || exit 1\n"
            f"if ! mountpoint -q {shell(target)}; then {shell('mount', *words, target)}; fi"
        )
        self._checked(await self._change(script, f"mount {source} on {path}"))
        return True

    async def unmount(self, path: PurePosixPath | str, *, persist: bool = False) -> bool:
        """Nothing is mounted there, nor at the next boot if `persist`. False if nothing was."""
        target = posix(path)
        changed = await self.unmount_below(target, itself_only=True)
        if persist:
            match = rf"^\s*[^#\s]\S*\s+{re.escape(_escape(str(target)))}\s"
            files = Files(self.connector, self.facts, state=self.state)
            changed |= await files.edit(_FSTAB, lambda text: without_line(text, "\0", match))
        return changed

    async def unmount_below(self, path: PurePosixPath | str, *, itself_only: bool = False) -> bool:
        """Nothing is mounted at this path or below it. False if nothing was."""
        p = str(posix(path))
        pattern = shell(_escape(p))  # as the kernel prints it
        pattern += "" if itself_only else f"|{pattern}/*"
        script = f"""kx_list() {{
  while read -r _ _ _ _ kx_m _; do
    case $kx_m in {pattern}) printf '%s\\n' "$kx_m" ;; esac
  done </proc/self/mountinfo
}}
kx_found=$(kx_list)
if [ -z "$kx_found" ]; then echo same; exit 0; fi
for kx_try in 1 2 3; do
  kx_found=$(kx_list | LC_ALL=C sort -r)
  if [ -z "$kx_found" ]; then break; fi
  printf '%s\\n' "$kx_found" | while IFS= read -r kx_m; do umount -- "$(printf '%b' "$kx_m")"; done
done
if [ -n "$(kx_list)" ]; then exit 1; fi
echo changed"""
        result = await self._change(script, f"unmount {path}{'' if itself_only else ' and all below'}", long=True)
        busy = "busy" in result.error_text
        hint = f"Something still uses it: `fuser -vm {p}` on the host names it." if busy else ""
        return self._checked(result, hint=hint).text == "changed"


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """From /proc/self/mountinfo."""
    mounts = []
    for line in text.split("\n"):
        left, found, right = line.partition(" - ")
        words, rest = left.split(" "), right.split(" ")
        if found and len(words) >= 6 and len(rest) >= 2:
            mounts.append(
                Mount(
                    path=_plain(words[4]),
                    root=_plain(words[3]),
                    source=_plain(rest[1]),
                    type=rest[0],
                    options=tuple(words[5].split(",")),
                )
            )
    return tuple(mounts)


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
