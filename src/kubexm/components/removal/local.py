"""What the work directory on this machine holds of a cluster that is gone."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["WorkDirectoryCleared"]

_STAYS = ("runs",)
"""What was done, and how it went, is still worth knowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDirectoryCleared(Step):
    """The cluster's secrets, UID and kubeconfig are gone from this machine; the records of its runs stay."""

    missing: tuple[str, ...] = ()
    """Hosts that could not be reached: while there are any, all of it stays, since they are still to be cleared."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks into the directory."""
        if self.missing:
            ctx.warn(
                f"{', '.join(self.missing)} could not be reached and is as it was: run delete again once it can; "
                f"until then {ctx.work_dir} keeps what the cluster is"
            )
            return Check(True)
        left = await asyncio.to_thread(_found, ctx.work_dir)
        return Check(False, reason=f"{', '.join(path.name for path in left)} to remove") if left else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes all but the records."""
        try:
            await asyncio.to_thread(_remove, ctx.work_dir)
        except OSError as error:
            raise StepError(
                f"{error.filename or ctx.work_dir} cannot be removed: {error.strerror}",
                host=ctx.host.name,
                hint="remove it by hand: it holds keys of a cluster that is gone",
            ) from error

    def reads(self) -> Resources:
        """The secrets."""
        return resources("secret:*")

    def writes(self) -> Resources:
        """The secrets."""
        return resources("secret:*")

    def describe(self) -> str:
        """The state."""
        return "nothing of the cluster in the work directory but records of runs"


def _found(directory: Path) -> list[Path]:
    """What is there; directories that hold nothing are made anew by every run and count for nothing."""
    entries = sorted(directory.iterdir()) if directory.is_dir() else []
    return [path for path in entries if path.name not in _STAYS and not _is_empty(path)]


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _remove(directory: Path) -> None:
    for path in _found(directory):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
