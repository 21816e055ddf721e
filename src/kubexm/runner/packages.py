"""Packages of the distribution, whatever its package manager. Must not know what a package is for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import CommandResult, shell
from kubexm.errors import StepError
from kubexm.runner.base import Operations, library, posix

__all__ = ["Packages"]

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9+._:@-]*(=[A-Za-z0-9+.:~_-]+)?$")
_LOCKED = 49
_INSTALL = 1800.0
_HINTS = {
    r"Temporary failure resolving|Could(n't| not) resolve|Could not connect|Cannot download|Connection timed out|"
    r"Failed to (download|fetch)|Unable to fetch|no enabled repos|No repositories defined": (
        "The host cannot reach its package repositories: give it a mirror or proxy, or install from a bundle that "
        "brings the packages."
    ),
    r"Unable to locate package|has no installation candidate|No match for argument|No package .* available|"
    r"No provider of|Unable to find a match|nothing provides": (
        "The host's repositories do not have this package: check its name for this distribution, and the repositories."
    ),
    r"dpkg was interrupted": "An earlier installation was cut off: run `dpkg --configure -a` on the host, then again.",
    r"unmet dependencies|dependency problems|conflicting requests": (
        "The host's packages are in disorder: `apt-get -f install` or `dnf check` there shows and mends it."
    ),
    r"not have enough free space|No space left|needs .* more space": (
        "The disk is full: free some space, then run again."
    ),
    r"NO_PUBKEY|not signed|GPG check FAILED|Signature verification failed": (
        "A repository's signing key is missing or wrong on the host: import it, or mend the repository's set-up."
    ),
}


@dataclass(frozen=True, slots=True)
class Packages(Operations):
    """Packages of the host, by the distribution's own names."""

    async def installed(self, names: Iterable[str]) -> dict[str, str]:
        """Those of them that are installed, with their versions."""
        wanted = [_checked_name(name).split("=")[0] for name in names]
        if not wanted:
            return {}
        if self._manager == "apt":
            query = shell("dpkg-query", "-W", "-f", r"${db:Status-Abbrev}\t${Package}\t${Version}\n", "--", *wanted)
        else:
            query = shell("rpm", "-q", "--qf", r"ii\t%{NAME}\t%{VERSION}-%{RELEASE}\n", "--", *wanted)
        result = await self._read(f"{query} 2>/dev/null; :", "look for packages")
        rows = [line.split("\t") for line in self._checked(result).text.split("\n")]
        return {row[1]: row[2] for row in rows if len(row) == 3 and row[0][1:2] == "i"}

    async def install(self, names: Sequence[str], *, lock_wait: int = 300, keep: bool = True) -> tuple[str, ...]:
        """They are installed, from the host's repositories, no recommendations. What came new, dependencies too."""
        words = [_checked_name(name) for name in names]
        if not words:
            return ()
        return await self._install("kx_install", words, f"install {' '.join(words)}", lock_wait, keep)

    async def install_files(
        self, paths: Sequence[PurePosixPath | str], *, lock_wait: int = 300, keep: bool = True
    ) -> tuple[str, ...]:
        """The packages in these files on the host are installed, with no repository asked. What came new."""
        files = [posix(path) for path in paths]
        if not files:
            return ()
        display = f"install {len(files)} package files"
        return await self._install("kx_install_files", files, display, lock_wait, keep)

    async def remove(self, names: Sequence[str], *, lock_wait: int = 300) -> tuple[str, ...]:
        """They are gone, with their settings, except those that other packages need: these are returned."""
        words = [_checked_name(name) for name in names]
        if not words:
            return ()
        script = f"{self._library(lock_wait)}kx_begin\nkx_erase {shell(self._root(True), *words)}"
        result = await self._change(script, f"remove {' '.join(words)}", within=_INSTALL, long=True)
        return tuple(name for name in self._explained(result).text.split("\n") if name)

    async def ours(self) -> tuple[str, ...]:
        """The packages that kubexm brought to this host."""
        script = f'for e in {shell(self._root(True))}/package/*; do if [ -d "$e" ]; then cat "$e/name"; fi; done'
        text = self._checked(await self._read(script, "list packages kubexm installed")).text
        return tuple(sorted(name for name in text.split("\n") if name))

    async def _install(
        self, call: str, words: Sequence[str | PurePosixPath], display: str, lock_wait: int, keep: bool
    ) -> tuple[str, ...]:
        root = shell(self._root(keep))
        script = (
            f"{self._library(lock_wait)}kx_begin\nkx_before {root}\n"
            f'{call} {shell(*words)}\nkx_rc=$?\nkx_after {root} >"$kx_out.new"\n'
            'kx_end "$kx_rc"\ncat -- "$kx_out.new"; rm -f -- "$kx_out.new"'
        )
        result = await self._change(script, display, within=_INSTALL, long=True)
        return tuple(name for name in self._explained(result).text.split("\n") if name)

    @property
    def _manager(self) -> str:
        manager = self.facts.package_manager
        if manager not in ("apt", "dnf", "yum", "zypper"):
            raise StepError(
                f"kubexm does not know the package manager of {self.facts.os.name or 'this host'}",
                host=self.connector.host,
                hint="apt, dnf, yum and zypper are supported: install what is missing by hand, then run again.",
            )
        return manager

    def _library(self, lock_wait: int) -> str:
        return f"{library('originals')}{library('packages')}kx_wait={lock_wait:d}\nkx_use_{self._manager}\n"

    def _explained(self, result: CommandResult) -> CommandResult:
        if result.exit_code == _LOCKED:
            raise self._error(
                result,
                message="another package manager held the lock all the time",
                hint="Wait for it (`ps ax | grep -E 'apt|dpkg|dnf|zypper'`; unattended upgrades?), then run again.",
            )
        hint = next((hint for pattern, hint in _HINTS.items() if re.search(pattern, result.error_text)), "")
        return self._checked(result, hint=hint)


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"not a package's name: {name}")
    return name
