"""What a worker process is told, and what it tells when it is done. One line of JSON each way.

After its job a worker may be sent STOP and STOP_NOW, each on a line of its own. Before its outcome it tells how far the
hosts are, a line for each change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kubexm.plan import RunSpec
from kubexm.redact import Secret

__all__ = ["STOP", "STOP_NOW", "Job", "Outcome", "progress_line", "progress_of"]

STOP, STOP_NOW = b"stop\n", b"stop now\n"
_PROGRESS = b"host "


def progress_line(host: str, state: str) -> bytes:
    """That a host is this far."""
    return _PROGRESS + json.dumps([host, state]).encode() + b"\n"


def progress_of(line: bytes) -> tuple[str, str] | None:
    """The host and how far it is, if the line tells that."""
    if not line.startswith(_PROGRESS):
        return None
    host, state = json.loads(line[len(_PROGRESS) :])
    return host, state


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One task, with everything a worker needs for it."""

    task: str
    """Also the id of the run."""
    kind: str
    """run, apply, resume, plan or facts."""
    file: str
    work_dir: str
    spec: RunSpec | None = None
    offline: bool = False
    plan: str = ""
    """The saved plan to carry out."""
    out: str = ""
    """Where a plan, or facts, are written to."""
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)

    def to_line(self) -> bytes:
        """The job as a worker reads it. Holds secrets: only ever written into a pipe."""
        data = {name: getattr(self, name) for name in self.__slots__}
        data["spec"] = None if self.spec is None else self.spec.to_json()
        data["secrets"] = {name: secret.reveal() for name, secret in self.secrets.items()}
        return json.dumps(data).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Job:
        """The job of a line."""
        data = json.loads(line)
        data["secrets"] = {name: Secret(value) for name, value in data["secrets"].items()}
        data["spec"] = None if data["spec"] is None else RunSpec.from_json(data["spec"])
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended: with a status, or with an error before there was one."""

    status: str = ""
    error: Mapping[str, Any] = field(default_factory=dict)

    def to_line(self) -> bytes:
        """The outcome as the server reads it."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Outcome:
        """The outcome of a line."""
        return cls(**json.loads(line))
