"""Every error a user can meet, in one tree. Knows nothing of the rest of kubexm.

KubexmError
├── UsageError                 a command line that cannot be carried out
│   └── FormatError                written by another version of kubexm
├── ConfigError                a cluster.yaml that is not valid (config adds file, line and column)
├── HostError                  something on, or on the way to, one host
│   ├── ConnectError           a host that cannot be reached or refuses us
│   │   ├── AuthenticationError    the host answered, the credentials did not fit
│   │   ├── HostKeyError           the host's key is unknown or has changed
│   │   └── SudoError              sudo refused, or its password is wrong
│   ├── ConnectionLost         the connection broke while something was under way
│   ├── CommandError           a command ran and failed
│   │   └── CommandTimeout         a command passed its deadline and was ended
│   ├── OutcomeUnknown         a change may or may not have happened, and cannot be read back
│   ├── FencedError            a newer run holds this cluster's lease
│   ├── LeaseHeldError         another run holds this cluster's lease
│   ├── TransferError          a file did not arrive whole
│   ├── StreamError            nobody answers at an address of the host
│   │   └── ForwardingDisabled     sshd of the host forwards no connections
│   ├── ApiError               the Kubernetes API refused a request
│   │   ├── ApiUnavailable         no API server answers, or it is not ready
│   │   ├── ApiUnauthorized        it does not accept our credentials
│   │   ├── ApiForbidden           these credentials may not do this
│   │   ├── ApiNotFound            there is no such object, or no such kind
│   │   ├── ApiConflict            the object is another than was expected, or exists already
│   │   ├── ApiInvalid             the object is not valid
│   │   ├── ApiExpired             a resource version is too old: list again
│   │   └── ApiTooManyRequests     it is busy
│   │       └── EvictionBlocked        a PodDisruptionBudget does not allow this eviction now
│   ├── StepError              a step found something it cannot bring about
│   └── UnsettledError         a step ran, and its state did not come about
├── GraphError                 a plan that is not well formed
├── PlanError                  planning was refused
│   └── StalePlanError             a saved plan no longer matches config, version or facts
├── JournalError               a run's journal cannot be read or written
├── InitializationError        hosts that could not be initialised, all of them
├── AssetError                 a file or image that is missing, damaged or not to be had
├── StoreError                 what the service keeps cannot be read or written
│   └── DatabaseError              the database does not answer, or refuses
├── NotFoundError              there is nothing of that name
├── ConflictError              it cannot be done now: something else stands in the way
└── LabError                   the lab cannot do this here
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "ApiConflict",
    "ApiError",
    "ApiExpired",
    "ApiForbidden",
    "ApiInvalid",
    "ApiNotFound",
    "ApiTooManyRequests",
    "ApiUnauthorized",
    "ApiUnavailable",
    "AssetError",
    "AuthenticationError",
    "CommandError",
    "CommandTimeout",
    "ConfigError",
    "ConflictError",
    "ConnectError",
    "ConnectionLost",
    "DatabaseError",
    "EvictionBlocked",
    "FencedError",
    "FormatError",
    "ForwardingDisabled",
    "GraphError",
    "HostError",
    "HostKeyError",
    "InitializationError",
    "JournalError",
    "KubexmError",
    "LabError",
    "LeaseHeldError",
    "NotFoundError",
    "OutcomeUnknown",
    "PlanError",
    "StalePlanError",
    "StepError",
    "StoreError",
    "StreamError",
    "SudoError",
    "TransferError",
    "UnsettledError",
    "UsageError",
    "telling_lines",
]


class KubexmError(Exception):
    """What went wrong, in one sentence, and what to do next."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(KubexmError):
    """A command line that cannot be carried out."""


class FormatError(UsageError):
    """A request, record or layout that another version of kubexm wrote."""


class ConfigError(KubexmError):
    """A cluster.yaml that is not valid."""


class HostError(KubexmError):
    """An error that happened on, or on the way to, one host."""

    def __init__(self, message: str, *, host: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.host = host


class ConnectError(HostError):
    """A host that cannot be reached or refuses us."""


class AuthenticationError(ConnectError):
    """The host answered, the credentials did not fit."""


class HostKeyError(ConnectError):
    """The host's key is unknown or has changed."""


class SudoError(ConnectError):
    """sudo refused, or its password is wrong."""


class ConnectionLost(HostError):
    """The connection broke while something was under way."""


class CommandError(HostError):
    """A command ran and failed: host, command, exit code and the telling lines of its output."""

    def __init__(
        self,
        *,
        host: str,
        command: str,
        exit_code: int,
        stdout: str = "",
        stderr: str = "",
        message: str = "",
        hint: str = "",
    ) -> None:
        lines = telling_lines(stderr or stdout)
        text = message or f"`{_shorten(command)}` exited with {exit_code}"
        super().__init__(text + (": " + " | ".join(lines) if lines else ""), host=host, hint=hint)
        self.command = command
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


class CommandTimeout(CommandError):
    """A command passed its deadline and was ended with its whole process group."""


class OutcomeUnknown(HostError):
    """A change may or may not have happened, and nothing can be read back to tell."""


class FencedError(HostError):
    """A newer run holds this cluster's lease; the host refused this change."""


class LeaseHeldError(HostError):
    """Another run holds this cluster's lease."""

    def __init__(self, message: str, *, host: str = "", hint: str = "", owner: str = "", run: str = "") -> None:
        super().__init__(message, host=host, hint=hint)
        self.owner = owner
        self.run = run


class TransferError(HostError):
    """A file did not arrive whole."""


class StreamError(HostError):
    """No stream through the host: nobody answers at the address it was to lead to, or the host forwards none."""


class ForwardingDisabled(StreamError):
    """The host's sshd forwards no connections (AllowTcpForwarding, DisableForwarding, PermitOpen)."""


class ApiError(HostError):
    """The Kubernetes API refused a request: its status, its reason in one word, and the causes it names."""

    def __init__(
        self,
        message: str,
        *,
        host: str = "",
        hint: str = "",
        status: int = 0,
        reason: str = "",
        causes: Iterable[str] = (),
        retry_after: float = 0.0,
    ) -> None:
        """`retry_after`: seconds after which the server wants to be asked again."""
        super().__init__(message, host=host, hint=hint)
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after


class ApiUnavailable(ApiError):
    """No API server answers, or it is not ready."""


class ApiUnauthorized(ApiError):
    """The API server does not accept our credentials."""


class ApiForbidden(ApiError):
    """These credentials may not do this."""


class ApiNotFound(ApiError):
    """There is no such object; or no such kind, if the reason is KindUnknown."""


class ApiConflict(ApiError):
    """The object is another than was expected, somebody else owns a field, or it exists already."""


class ApiInvalid(ApiError):
    """The object, or the request, is not valid."""


class ApiExpired(ApiError):
    """A resource version or the rest of a list is too old to be told."""


class ApiTooManyRequests(ApiError):
    """The API server is busy."""


class EvictionBlocked(ApiTooManyRequests):
    """A PodDisruptionBudget does not allow this eviction now; `causes` say which, and why."""


class GraphError(KubexmError):
    """A plan that is not well formed."""


class PlanError(KubexmError):
    """Planning was refused."""


class StalePlanError(PlanError):
    """A saved plan no longer matches the config, kubexm's version or a fact that planning read."""


class JournalError(KubexmError):
    """A run's journal cannot be read or written."""


class InitializationError(KubexmError):
    """Hosts that could not be initialised: every one of them, each with its reason and hint."""

    def __init__(self, errors: Iterable[HostError]) -> None:
        self.errors = tuple(errors)
        hosts = "host" if len(self.errors) == 1 else "hosts"
        lines = [f"{len(self.errors)} {hosts} could not be initialised:"]
        for error in self.errors:
            lines.append(f"  {error.host}: {error.message}")
            if error.hint:
                lines.append(f"    → {error.hint}")
        super().__init__("\n".join(lines))


class StepError(HostError):
    """A step found something it cannot bring about."""


class UnsettledError(HostError):
    """A step ran, and its state did not come about in time."""


class AssetError(KubexmError):
    """A file or image that is missing, damaged or not to be had."""


class StoreError(KubexmError):
    """What the service keeps cannot be read or written."""


class DatabaseError(StoreError):
    """The database does not answer, or refuses. The message names it: not for everybody who makes a request."""


class NotFoundError(KubexmError):
    """There is nothing of that name, or the one who asks may not know of it."""


class ConflictError(KubexmError):
    """It cannot be done now: something else stands in the way, a running task for example."""

    def __init__(self, message: str, *, hint: str = "", task: str = "") -> None:
        super().__init__(message, hint=hint)
        self.task = task


class LabError(KubexmError):
    """The lab cannot do this here."""


_TELLING = (
    *("error", "fail", "fatal", "denied", "refused", "cannot", "no such", "not found", "invalid", "panic"),
    *("not defined", "unknown", "unrecognized"),
)


def telling_lines(output: str, *, most: int = 3) -> list[str]:
    """The lines of a command's output that say why it failed: those that look like errors, else the last ones."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    return [_shorten(line, 300) for line in (telling or lines)[-most:]]


def _shorten(text: str, limit: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
