"""How things on a host were before kubexm changed them, and putting them back. Must not know who changed what.

The first change to a thing keeps how it was: a file's content, mode and owner, a sysctl's value, whether a unit was
enabled and up, or that there was nothing. Later changes never overwrite that. Beside it stand the states kubexm itself
made, so that restoring can tell kubexm's doing from the user's: what the user changed since is left, and said.

Operations that change things keep originals themselves, in the same command. The same format under a run's own
directory serves a run's rollback: pass `snapshot=` to the operation, and `under=` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath

from kubexm.connector.base import CommandResult, shell
from kubexm.runner.base import Operations, library, posix
from kubexm.runner.sysctl import parameter_path

__all__ = ["Original", "Originals", "Outcome", "Restored"]

_KINDS = ("unit", "file", "sysctl", "hostname", "selinux", "swap", "user", "group")
_LIST = """for e in {root}/*/*; do
  if [ -d "$e" ] && IFS= read -r n <"$e/name" && IFS= read -r s <"$e/state"; then
    k=${{e%/*}}; printf '%s\\t%s\\t%s\\n' "${{k##*/}}" "$s" "$n"
  fi
done
"""


class Outcome(Enum):
    """What restoring a thing came to."""

    RESTORED = "restored"
    UNCHANGED = "unchanged"
    """It was as before already."""
    KEPT = "kept"
    """Somebody else changed it since, so it was left."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """One thing kubexm changed, and how it was before."""

    kind: str
    name: str
    state: str

    @property
    def was_absent(self) -> bool:
        """True if there was nothing."""
        return self.state == "absent" or self.state.startswith("not-found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """One thing that was to be put back, and what came of it."""

    kind: str
    name: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Originals(Operations):
    """The originals kept on the host."""

    async def list(self, *, under: PurePosixPath | None = None) -> tuple[Original, ...]:
        """Everything that was kept."""
        result = await self._read(_LIST.format(root=shell(self._under(under))), "list originals")
        rows = (line.split("\t", 2) for line in self._checked(result).text.split("\n") if line)
        return tuple(Original(kind=row[0], state=row[1], name=row[2]) for row in rows if len(row) == 3)

    async def keep(self, *paths: PurePosixPath | str) -> None:
        """Keeps how these paths are, unless that was done already."""
        await self.snapshot(*paths, under=self.state / "originals")

    async def snapshot(self, *paths: PurePosixPath | str, under: PurePosixPath) -> None:
        """Keeps how these paths are in a directory of its own, for the rollback of a run."""
        calls = [f"kx_keep {shell(posix(under), posix(path))} || kx_die 'cannot keep' {shell(path)}" for path in paths]
        script = library("sum") + library("originals") + library("paths") + "\n".join(calls)
        self._checked(await self._change(script, f"keep how {', '.join(map(str, paths))} is"))

    async def restore(
        self,
        *,
        kinds: Sequence[str] = _KINDS,
        under: PurePosixPath | None = None,
        leave: Sequence[str] = (),
    ) -> tuple[Restored, ...]:
        """Puts everything of these kinds back, except what somebody else changed since.

        Units named in `leave`, and files at or below a path in it, stay as they are, and what was kept of them too.
        Packages are removed by `packages`, after this: their files cannot be put back once they are gone.
        """
        root = shell(self._under(under))
        steps = []
        systemd = "if [ -d /run/systemd/system ]; then {}; fi"
        if "unit" in kinds:
            steps.append(systemd.format(f"kx_restore_units {root} down"))
        if "file" in kinds:
            steps.append(f"if [ -d {root}/file ]; then kx_restore_files {root}; fi")
        if "unit" in kinds:
            steps.append(systemd.format(f"systemctl daemon-reload; kx_restore_units {root} up"))
        if "sysctl" in kinds:
            steps.append(f"kx_restore_sysctls {root} /proc/sys")
        if "hostname" in kinds:
            steps.append(f"kx_restore_hostname {root}")
        if "selinux" in kinds:
            steps.append(f"kx_restore_selinux {root}")
        if "swap" in kinds:
            steps.append(f"kx_restore_swap {root}")
        if "user" in kinds:
            steps.append(f"kx_restore_accounts {root} user passwd")
        if "group" in kinds:
            steps.append(f"kx_restore_accounts {root} group group")
        result = await self._change(self._library(leave) + "\n".join([*steps, ":"]), "restore originals", long=True)
        return _outcomes(self._checked(result))

    async def restore_path(self, path: PurePosixPath | str, *, under: PurePosixPath | None = None) -> Restored:
        """Puts one path back, except if somebody else changed it since; unchanged if nothing was kept of it.

        Directories that were made for it go too, once nothing is in them.
        """
        root, p = shell(self._under(under)), shell(posix(path))
        script = (
            f"{self._library()}kx_entry {root} file {p}\n"
            f'if [ -d "$kx_e" ]; then kx_restore_file "$kx_e" {p}; else kx_said unchanged file {p}; fi\n'
            f"kx_restore_above {root} {p}"
        )
        return _outcomes(self._checked(await self._change(script, f"restore {path}")))[0]

    async def restore_parameters(
        self, keys: Iterable[str], *, under: PurePosixPath | None = None
    ) -> tuple[Restored, ...]:
        """Puts kernel parameters back, except what somebody else changed since; those nothing was kept of stay."""
        root = shell(self._under(under))
        calls = [
            f'kx_entry {root} sysctl {shell(parameter_path(key))}; if [ -d "$kx_e" ]; then '
            'kx_restore_sysctl "$kx_e" /proc/sys; fi'
            for key in keys
        ]
        script = self._library() + "\n".join([*calls, ":"])
        return _outcomes(self._checked(await self._change(script, "restore kernel parameters")))

    async def forget(self, *, under: PurePosixPath | None = None) -> None:
        """Drops what was kept."""
        root = shell(self._under(under))
        self._checked(await self._change(f"rm -rf -- {root}", "forget originals"))

    async def drop(self, things: Iterable[tuple[str, str]]) -> None:
        """How these (kind, name) were is of no more use: they stay as others made them."""
        root = shell(self._under(None))
        calls = [f'kx_entry {root} {shell(kind, name)}; rm -rf -- "$kx_e"' for kind, name in things]
        self._checked(await self._change(library("originals") + "\n".join(calls), "drop originals"))

    def _under(self, under: PurePosixPath | None) -> PurePosixPath:
        return posix(under) if under is not None else self.state / "originals"

    def _library(self, leave: Sequence[str] = ()) -> str:
        parts = ("sum", "originals", "paths", "naming", "restore")
        return "".join(map(library, parts)) + _left(leave)


def _left(names: Sequence[str]) -> str:
    """The shell function that tells what is to stay: a unit, a path with all below, and the directories it is in."""
    patterns = []
    for name in names:
        patterns.append(shell(name))
        if name.startswith("/"):
            patterns.append(f"{shell(posix(name))}/*")
            patterns += [shell(parent) for parent in posix(name).parents if str(parent) != "/"]
    test = f"case $1 in {'|'.join(dict.fromkeys(patterns))}) return 0 ;; esac; " if patterns else ""
    return f"kx_left() {{ {test}return 1; }}\n"


def _outcomes(result: CommandResult) -> tuple[Restored, ...]:
    rows = (line.split("\t", 2) for line in result.text.split("\n") if line)
    return tuple(Restored(outcome=Outcome(row[0]), kind=row[1], name=row[2]) for row in rows if len(row) == 3)
