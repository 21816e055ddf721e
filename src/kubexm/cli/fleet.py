"""`kubexm exec`: one command on many hosts. Hosts that printed the same are shown together."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kubexm.cli.exits import ExitCode
from kubexm.cli.options import File, Limit, Roles, cluster_file, host_names, several
from kubexm.cli.output import Streamed
from kubexm.cli.settings import Settings
from kubexm.cli.style import paint
from kubexm.errors import UsageError

if TYPE_CHECKING:
    from kubexm.connector import CommandResult
    from kubexm.errors import CommandTimeout, HostError
    from kubexm.service import CommandReport, FleetService

__all__ = ["app"]

_LONGEST = 366 * 24 * 3600.0
_LEAVING = "leaving; commands that still run on hosts continue until their timeout"

app = typer.Typer()


@app.command(context_settings={"allow_interspersed_args": False})
def exec_(
    ctx: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="A program and its arguments, or one shell line in quotes.")
    ],
    file: File = None,
    roles: Roles = None,
    limit: Limit = None,
    sudo: Annotated[bool, typer.Option("--sudo/--no-sudo", help="As root, or as the login user.")] = True,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="End the command on a host after this long."),
    ] = 600.0,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, metavar="N", help="How many hosts at once.")
    ] = None,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one host a line, as they end.")
    ] = Streamed.TEXT,
) -> None:
    """Run a command on many hosts at once: kubexm exec -f cluster.yaml -- CMD ARG...

    Hosts with the same output are shown together; with -v each is shown as soon as it is done. Exits with 0 only if
    the command exited with 0 everywhere. Ctrl-C once lets running commands finish and starts no more; twice ends them
    on the hosts, as SIGTERM does."""
    from kubexm.cli.running import options_of
    from kubexm.service import FleetService

    settings = ctx.ensure_object(Settings)
    if settings.server:
        raise UsageError(
            "`kubexm exec` runs commands from this machine, and not through a server",
            hint="leave out --server (and KUBEXM_SERVER), or log in to the hosts",
        )
    if not 0.1 <= timeout <= _LONGEST:
        raise UsageError(f"--timeout {timeout:g} is not between 0.1 and {_LONGEST:.0f} seconds")
    line = command[0] if len(command) == 1 else shlex.join(command)
    if not line.strip():
        raise UsageError("the command is empty", hint="if it comes from a variable, check that it is set")
    wanted = _Wanted(cluster_file(file), line, several(roles, "--role"), host_names(limit), sudo, timeout)
    service = FleetService(options_of(ctx, parallel=parallel))
    answers = _Answers(output, verbose=settings.verbose > 0)
    try:
        asyncio.run(_run(service, wanted, answers))
    except (KeyboardInterrupt, asyncio.CancelledError):
        answers.cancelled = True
        typer.echo("cancelled", err=True)
    finally:
        answers.close()
    raise typer.Exit(answers.exit_code)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command line says."""

    file: Path
    line: str
    roles: tuple[str, ...]
    limit: tuple[str, ...]
    sudo: bool
    timeout: float


async def _run(service: FleetService, wanted: _Wanted, answers: _Answers) -> CommandReport:
    from kubexm.cli.interrupts import Interrupts
    from kubexm.service import CommandCancellation

    cancellation = CommandCancellation()
    interrupts = Interrupts(cancellation, answers.say, leaving=_LEAVING)
    try:
        with interrupts.caught():
            return await service.command(
                wanted.file,
                wanted.line,
                roles=wanted.roles,
                limit=wanted.limit,
                sudo=wanted.sudo,
                within=wanted.timeout,
                on_result=answers.take,
                on_start=interrupts.begin,
                cancellation=cancellation,
            )
    finally:
        answers.cancelled = cancellation.level > 0


@dataclass(frozen=True, slots=True)
class _Group:
    """How a command ended, and what it printed: hosts where that is the same are shown together."""

    failed: bool
    state: str
    stdout: bytes
    stderr: bytes


class _Answers:
    """What came back, and from whom."""

    def __init__(self, output: Streamed, *, verbose: bool) -> None:
        self._output = output
        self._verbose = verbose
        self._groups: dict[_Group, list[str]] = {}
        self._errors: list[HostError] = []
        self._counter = not verbose and output is Streamed.TEXT and sys.stderr.isatty()
        self.cancelled = False

    def take(self, answer: CommandResult | HostError) -> None:
        """One host's answer."""
        from kubexm.errors import CommandTimeout, HostError

        if isinstance(answer, CommandTimeout):
            # The shell adds the signal that ended the command, whichever it took.
            stderr = answer.stderr.rstrip("\n").removesuffix("Terminated").removesuffix("Killed")
            self._add(answer.host, _Group(True, "timed out", answer.stdout.encode(), stderr.encode()))
            self._emit(_timeout_data(answer))
        elif isinstance(answer, HostError):
            self._errors.append(answer)
            self._emit({"host": answer.host, "error": answer.message, "hint": answer.hint})
        else:
            state = f"exit code {answer.exit_code}" if answer.exit_code else ""
            self._add(answer.host, _Group(bool(state), state, answer.stdout, answer.stderr))
            self._emit(_data(answer))
        if self._counter:
            done = len(self._errors) + sum(map(len, self._groups.values()))
            typer.echo(f"\r{done} {'host has' if done == 1 else 'hosts have'} answered", nl=False, err=True)

    def say(self, message: str) -> None:
        """Something about the command as a whole, while it runs."""
        typer.echo(f"\n{paint(message, 'yellow', 'bold', stream=sys.stderr)}", err=True)

    def close(self) -> None:
        """Shows what was not shown yet."""
        from kubexm.cli.report import report_error

        if self._counter and (self._errors or self._groups):
            typer.echo("\r\x1b[K", nl=False, err=True)
        if self._output is Streamed.JSON:
            return
        if not self._verbose:
            groups = [(sorted(hosts, key=_natural), group) for group, hosts in self._groups.items()]
            for hosts, group in sorted(groups, key=lambda each: _natural(each[0][0])):
                _show(hosts, group)
        for error in _together(self._errors):
            report_error(error)

    def _add(self, host: str, group: _Group) -> None:
        self._groups.setdefault(group, []).append(host)
        if self._verbose and self._output is Streamed.TEXT:
            _show([host], group)

    def _emit(self, data: dict[str, object]) -> None:
        if self._output is Streamed.JSON:
            typer.echo(json.dumps(data, ensure_ascii=False))

    @property
    def exit_code(self) -> ExitCode:
        """0 only if the command exited with 0 everywhere; 3 only if it ran on none of the hosts that failed."""
        from kubexm.errors import ConnectError, ConnectionLost

        if self.cancelled:
            return ExitCode.CANCELLED
        if any(group.failed for group in self._groups):
            return ExitCode.FAILED
        if not self._errors:
            return ExitCode.DONE
        unreached = all(isinstance(error, ConnectError | ConnectionLost) for error in self._errors)
        return ExitCode.UNREACHABLE if unreached else ExitCode.FAILED


def _together(errors: list[HostError]) -> list[HostError]:
    """Errors that say the same, as one that names all of their hosts."""
    from kubexm.apis.v1alpha1.ranges import short_hosts
    from kubexm.errors import HostError

    hosts: dict[tuple[str, str], list[str]] = {}
    for error in sorted(errors, key=lambda error: _natural(error.host)):
        hosts.setdefault((error.message, error.hint), []).append(error.host)
    return [HostError(message, host=short_hosts(names), hint=hint) for (message, hint), names in hosts.items()]


def _show(hosts: list[str], group: _Group) -> None:
    from kubexm.apis.v1alpha1.ranges import short_hosts

    names = short_hosts(hosts)
    many = f" ({len(hosts)} hosts)" if len(hosts) > 1 else ""
    state = f": {group.state}" if group.state else ""
    typer.echo(paint(f"── {names}{many}{state}", *(("red", "bold") if group.failed else ("bold",))))
    _write(group.stdout, err=False)
    _write(group.stderr, err=True)


def _write(data: bytes, *, err: bool) -> None:
    if data:
        stream = sys.stderr.buffer if err else sys.stdout.buffer
        (sys.stderr if err else sys.stdout).flush()
        stream.write(data if data.endswith(b"\n") else data + b"\n")
        stream.flush()


def _natural(host: str) -> list[tuple[int, str]]:
    """Sorts n2 before n10."""
    import re

    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", host)]


def _data(answer: CommandResult) -> dict[str, object]:
    return {
        "host": answer.host,
        "exit_code": answer.exit_code,
        "stdout": answer.stdout.decode(errors="replace"),
        "stderr": answer.stderr.decode(errors="replace"),
        "seconds": round(answer.ended - answer.started, 3),
        "truncated": answer.truncated,
    }


def _timeout_data(error: CommandTimeout) -> dict[str, object]:
    return {
        "host": error.host,
        "error": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
        "stdout": error.stdout,
        "stderr": error.stderr,
        "timed_out": True,
    }
