"""`kubexm exec`: one command on many hosts. Hosts that printed the same are shown together."""

from __future__ import annotations

import json
import shlex
import sys
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
    from kubexm.errors import HostError

__all__ = ["app"]

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
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="After this the command is ended everywhere.")
    ] = 600.0,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, metavar="N", help="How many hosts at once.")
    ] = None,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one host a line, as they end.")
    ] = Streamed.TEXT,
) -> None:
    """Run a command on many hosts at once: kubexm exec -f cluster.yaml -- CMD ARG...

    Hosts that printed the same are shown together; with -v each is shown as soon as it is done. Exits with 0 only if
    the command did so everywhere."""
    from kubexm.cli.running import carry_out, options_of
    from kubexm.service import FleetService

    settings = ctx.ensure_object(Settings)
    if settings.server:
        raise UsageError(
            "`kubexm exec` runs commands from this machine, and not through a server",
            hint="leave out --server (and KUBEXM_SERVER), or log in to the hosts",
        )
    line = command[0] if len(command) == 1 else shlex.join(command)
    service = FleetService(options_of(ctx, parallel=parallel))
    answers = _Answers(output, verbose=settings.verbose > 0)
    try:
        carry_out(
            service.command(
                cluster_file(file),
                line,
                roles=several(roles),
                limit=host_names(limit),
                sudo=sudo,
                within=timeout,
                on_result=answers.take,
            )
        )
    finally:
        answers.close()
    raise typer.Exit(answers.exit_code)


class _Answers:
    """What came back, and from whom."""

    def __init__(self, output: Streamed, *, verbose: bool) -> None:
        self._output = output
        self._verbose = verbose
        self._groups: dict[tuple[int, bytes, bytes], list[str]] = {}
        self._errors: list[HostError] = []
        self._counter = not verbose and output is Streamed.TEXT and sys.stderr.isatty()

    def take(self, answer: CommandResult | HostError) -> None:
        """One host's answer."""
        from kubexm.errors import HostError

        if isinstance(answer, HostError):
            self._errors.append(answer)
            if self._output is Streamed.JSON:
                typer.echo(json.dumps({"host": answer.host, "error": answer.message, "hint": answer.hint}))
        else:
            key = (answer.exit_code, answer.stdout, answer.stderr)
            self._groups.setdefault(key, []).append(answer.host)
            if self._output is Streamed.JSON:
                typer.echo(json.dumps(_data(answer), ensure_ascii=False))
            elif self._verbose:
                _show([answer.host], answer.exit_code, answer.stdout, answer.stderr)
        if self._counter:
            done = len(self._errors) + sum(map(len, self._groups.values()))
            typer.echo(f"\r{done} {'host has' if done == 1 else 'hosts have'} answered", nl=False, err=True)

    def close(self) -> None:
        """Shows what was not shown yet."""
        from kubexm.cli.report import report_error

        if self._counter and (self._errors or self._groups):
            typer.echo("\r\x1b[K", nl=False, err=True)
        if self._output is Streamed.JSON:
            return
        if not self._verbose:
            groups = [(sorted(hosts, key=_natural), *answer) for answer, hosts in self._groups.items()]
            for hosts, code, stdout, stderr in sorted(groups, key=lambda group: _natural(group[0][0])):
                _show(hosts, code, stdout, stderr)
        for error in self._errors:
            report_error(error)

    @property
    def exit_code(self) -> ExitCode:
        """0 only if the command did so everywhere."""
        if any(code for code, _, _ in self._groups):
            return ExitCode.FAILED
        return ExitCode.UNREACHABLE if self._errors else ExitCode.DONE


def _show(hosts: list[str], code: int, stdout: bytes, stderr: bytes) -> None:
    from kubexm.apis.v1alpha1.ranges import short_hosts

    names = short_hosts(hosts)
    many = f" ({len(hosts)} hosts)" if len(hosts) > 1 else ""
    state = "" if code == 0 else f": exit code {code}"
    typer.echo(paint(f"── {names}{many}{state}", *(("red", "bold") if code else ("bold",))))
    _write(stdout, err=False)
    _write(stderr, err=True)


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
