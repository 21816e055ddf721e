"""What the exit code of `kubexm` says. docs/cli.md repeats this table."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kubexm.errors import (
    ConfigError,
    ConnectError,
    ConnectionLost,
    InitializationError,
    KubexmError,
    PlanError,
    UsageError,
)

if TYPE_CHECKING:
    from kubexm.plan import GraphExecutionResult

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """0 is the only good news, 4 the only half-good."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    """The command line, the config or the plan was refused; nothing was changed."""
    UNREACHABLE = 3
    """Hosts could not be reached; nothing was changed."""
    PARTIAL = 4
    """Done, except for hosts within the failure budget."""
    CANCELLED = 130

    @classmethod
    def of_status(cls, status: str) -> ExitCode:
        """The code for how a run ended."""
        return _OF_STATUS.get(status, cls.FAILED)

    @classmethod
    def of_result(cls, result: GraphExecutionResult) -> ExitCode:
        """The code for a run: of its status, or that hosts could not be reached if nothing else was wrong."""
        unreached_only = bool(result.unreached) and not result.failures()
        return cls.UNREACHABLE if unreached_only else cls.of_status(result.status)

    @classmethod
    def of_error(cls, error: KubexmError) -> ExitCode:
        """The code for an error that ended the command."""
        if isinstance(error, ConfigError | UsageError | PlanError):
            return cls.USAGE
        if isinstance(error, InitializationError | ConnectError | ConnectionLost):
            return cls.UNREACHABLE
        return cls.FAILED


_OF_STATUS = {
    "succeeded": ExitCode.DONE,
    "partial": ExitCode.PARTIAL,
    "failed": ExitCode.FAILED,
    "cancelled": ExitCode.CANCELLED,
    "interrupted": ExitCode.CANCELLED,
}
