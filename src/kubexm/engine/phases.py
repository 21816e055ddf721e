"""Where a unit stands, whether a run still starts any, and which errors another attempt may not meet again."""

from __future__ import annotations

from enum import IntEnum

from kubexm.errors import (
    AuthenticationError,
    ConfigError,
    FencedError,
    HostKeyError,
    KubexmError,
    LeaseHeldError,
    OutcomeUnknown,
    StepError,
    SudoError,
)

__all__ = ["ACTIVE", "FINAL", "READY", "WAITING", "Phase", "Stop", "worth_retrying"]


class Phase(IntEnum):
    """Where a unit stands; the last seven are final."""

    WAITING = 0
    """For something upstream."""
    READY = 1
    ACTIVE = 2
    """Taken by the driver: prechecking, running or rechecking."""
    DEMANDING = 3
    """For a value that is produced on demand."""
    POSTPONED = 4
    """Between two attempts."""
    SUCCEEDED = 10
    SATISFIED = 11
    FAILED = 12
    BLOCKED = 13
    EXCLUDED = 14
    CANCELLED = 15
    INTERRUPTED = 16


class Stop(IntEnum):
    """Whether new units are started."""

    NO = 0
    FAILED = 1
    """fail_fast, after a failure."""
    CANCELLED = 2


# Plain integers for what is compared a hundred thousand times.
WAITING, READY, ACTIVE = int(Phase.WAITING), int(Phase.READY), int(Phase.ACTIVE)
FINAL = int(Phase.SUCCEEDED)

_PERMANENT = (
    AuthenticationError,
    ConfigError,
    FencedError,
    HostKeyError,
    LeaseHeldError,
    OutcomeUnknown,
    StepError,
    SudoError,
)


def worth_retrying(error: BaseException) -> bool:
    """False for errors that a second attempt cannot mend: wrong credentials, refusals, unknown outcomes, bugs."""
    return isinstance(error, KubexmError) and not isinstance(error, _PERMANENT)
