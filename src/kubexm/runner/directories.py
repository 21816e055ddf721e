"""Directories. Must not know what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import ABSENT, Operations, posix

__all__ = ["NEVER", "Directories"]

NEVER = frozenset(
    (
        "/", "/bin", "/boot", "/dev", "/etc", "/etc/systemd", "/etc/systemd/system", "/home", "/lib", "/lib64",
        "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp",  # noqa: S108 - named, not used
        "/usr", "/usr/bin", "/usr/lib",
        "/usr/local", "/usr/local/bin", "/usr/sbin", "/var", "/var/lib", "/var/log", "/var/run",
    )
)  # fmt: skip
"""A mistake in a path must not cost a host."""


@dataclass(frozen=True, slots=True)
class Directories(Operations):
    """Directories of the host."""

    async def matches(
        self,
        path: PurePosixPath | str,
        *,
        mode: int | None = None,
        owner: str | None = None,
        group: str | None = None,
    ) -> bool:
        """True if a directory is there with this mode and owner; whatever is not given does not matter."""
        p = shell(posix(path))
        wanted = [("%a", f"{mode:o}")] if mode is not None else []
        wanted += [("%u" if owner.isdigit() else "%U", owner)] if owner is not None else []
        wanted += [("%g" if group.isdigit() else "%G", group)] if group is not None else []
        tests = [f"[ -d {p} ]"]
        if wanted:
            form, value = " ".join(f for f, _ in wanted), " ".join(v for _, v in wanted)
            tests.append(f'[ "$(stat -L -c {shell(form)} -- {p})" = {shell(value)} ]')
        return (await self._read(" && ".join(tests), f"compare {path}")).ok

    async def ensure(
        self,
        path: PurePosixPath | str,
        *,
        mode: int = 0o755,
        owner: str = "root",
        group: str = "root",
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """The directory is there with this mode and owner. False if it was so already."""
        call = "kx_directory " + shell(posix(path), f"{mode:o}", owner, group)
        result = await self._change(self._keeping(keep, snapshot) + call, f"make {path}")
        return self._checked(result).text == "changed"

    async def entries(self, path: PurePosixPath | str) -> tuple[str, ...] | None:
        """The names in the directory, sorted, or None if it is not there."""
        p = shell(posix(path))
        script = (
            f"[ -d {p} ] || exit {ABSENT}\ncd -- {p} || exit 1\n"
            'for f in * .[!.]* ..?*; do if [ -e "$f" ] || [ -L "$f" ]; then printf \'%s\\0\' "$f"; fi; done'
        )
        result = await self._read(script, f"list {path}")
        if result.exit_code == ABSENT:
            return None
        names = self._checked(result).stdout.decode(errors="surrogateescape").split("\0")
        return tuple(sorted(name for name in names if name))

    async def remove(self, path: PurePosixPath | str) -> bool:
        """The directory is gone with all in it, for good: for what kubexm itself made. False if it was not there.

        Mounts below it are not entered: unmount them first.
        """
        pure = posix(path)
        if str(pure) in NEVER:
            raise ValueError(f"{pure} is never removed")
        p = shell(pure)
        script = f"if ! [ -e {p} ] && ! [ -L {p} ]; then echo same; exit 0; fi\n"
        script += f"rm -rf --one-file-system -- {p} && echo changed"
        hint = f"Something is still mounted or running in {pure}: `grep {pure} /proc/mounts` tells what."
        result = await self._change(script, f"remove {path} with all in it", long=True)
        busy = "busy" in result.error_text or "different device" in result.error_text
        return self._checked(result, hint=hint if busy else "").text == "changed"
