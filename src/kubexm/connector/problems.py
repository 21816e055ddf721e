"""What users are told when a command or a connection fails. Must not know how either works."""

from __future__ import annotations

from kubexm.connector.base import Command, CommandResult
from kubexm.errors import CommandTimeout, ConnectionLost, FencedError, HostError, OutcomeUnknown

__all__ = ["Problems"]


class Problems:
    """The errors of one host."""

    __slots__ = ("_host",)

    def __init__(self, host: str) -> None:
        self._host = host

    def lost(self, message: str) -> ConnectionLost:
        """The connection is gone, and nothing was changed by what was under way."""
        return ConnectionLost(message, host=self._host, hint="check the host and the network, then resume the run")

    def overdue(self, command: Command, result: CommandResult) -> CommandTimeout:
        """A command was ended at its deadline."""
        return CommandTimeout(
            host=self._host,
            command=result.command,
            exit_code=result.exit_code,
            stdout=result.text,
            stderr=result.error_text,
            message=f"`{_brief(result.command)}` passed its deadline of {command.timeout:g} s and was ended",
            hint="a slow host or disk? look at the host; the command can be given more time",
        )

    def fenced(self, token: str) -> FencedError:
        """The lease carries a newer token."""
        return FencedError(
            f"refused by the host: a newer run holds this cluster's lease (token {token})",
            host=self._host,
            hint="another kubexm took over; watch that one, or start a new run after it has ended",
        )

    def expired(self) -> FencedError:
        """Our own lease ran out."""
        return FencedError(
            "the lease of this run expired before it could be renewed, so nothing more is changed",
            host=self._host,
            hint="check the network to the control-plane and etcd hosts, then resume the run",
        )

    def no_room(self, directory: str) -> HostError:
        """No receipt can be written."""
        return HostError(
            f"no receipt can be written to {directory}, so nothing was changed",
            host=self._host,
            hint=f"make room on the file system of {directory}",
        )

    def unknown(self, what: str, why: str) -> OutcomeUnknown:
        """A change may have happened."""
        return OutcomeUnknown(
            f"`{_brief(what)}`: the connection broke while it ran; {why}",
            host=self._host,
            hint="look at the host: the change may have happened",
        )

    def ended(self, what: str) -> OutcomeUnknown:
        """Another kubexm ended a change of ours."""
        return OutcomeUnknown(
            f"`{_brief(what)}`: kubexm ended it before it was done",
            host=self._host,
            hint="another run took over this host, or this run was stopped; part of the change may have happened",
        )


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 120 else text[:119] + "…"
