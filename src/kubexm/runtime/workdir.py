"""The directories of one cluster on the control machine. All of it is 0700; nothing of it is ever world-readable."""

from __future__ import annotations

import os
import secrets as random
import time
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import KubexmError

__all__ = ["WorkDir", "new_run_id"]

DEFAULT = ".kubexm"


def new_run_id() -> str:
    """A name for a run: sorts by time, unlikely to be taken."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + random.token_hex(2)


@dataclass(frozen=True, slots=True)
class WorkDir:
    """Where kubexm keeps what belongs to one cluster."""

    path: Path

    @classmethod
    def of(cls, cluster: str, configured: str | None, base_dir: Path) -> WorkDir:
        """`NAME` below the configured directory, which is `.kubexm` beside the user's file unless it says otherwise."""
        return cls(base_dir.resolve() / Path(configured or DEFAULT).expanduser() / cluster)

    def prepare(self, setting: str = "--work-dir or spec.global.workDir") -> None:
        """Makes the directories, private to this user; `setting` is what chose the place."""
        for path in (self.path, self.runs, self.secrets, self.hosts):
            try:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise KubexmError(
                    f"{path}: the work directory cannot be made: {error.strerror}",
                    hint=f"choose another with {setting}",
                ) from error
        if self.path.stat().st_uid == os.getuid() and self.path.stat().st_mode & 0o077:
            self.path.chmod(0o700)

    @property
    def runs(self) -> Path:
        """One directory for each run."""
        return self.path / "runs"

    @property
    def secrets(self) -> Path:
        """Secrets, 0600 each."""
        return self.path / "secrets"

    @property
    def hosts(self) -> Path:
        """What is kept for single hosts."""
        return self.path / "hosts"

    @property
    def cluster_uid(self) -> str:
        """The UID of the cluster made from here, as its hosts carry it; empty before there is one."""
        path = self.path / "uid"
        return path.read_text("utf-8").strip() if path.exists() else ""

    def run(self, run_id: str) -> Path:
        """The directory of one run."""
        if not run_id or "/" in run_id or run_id.startswith("."):
            raise KubexmError(f"{run_id!r} is not the name of a run", hint="`kubexm runs list` shows them")
        return self.runs / run_id

    def host(self, name: str) -> Path:
        """The directory of one host, made if need be."""
        path = self.hosts / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path
