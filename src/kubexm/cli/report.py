"""Errors as people see them: what happened, what to do next; a traceback only for those who ask."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from kubexm.cli.exits import ExitCode
from kubexm.cli.style import paint
from kubexm.errors import HostError, KubexmError

if TYPE_CHECKING:
    from kubexm.config import Problem

__all__ = ["report", "report_error", "show_problems", "warn"]

_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


def report(error: BaseException, *, debug: bool = False) -> ExitCode:
    """Writes the error to stderr and returns the exit code for it."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, KubexmError):
        report_error(error)
        return ExitCode.of_error(error)
    if isinstance(error, OSError) and error.filename is not None:
        _write("error", f"{error.filename}: {error.strerror}")
        return ExitCode.FAILED
    if isinstance(error, OSError) and error.errno in _OUTPUT:
        _drop_output()
        _write("error", f"the output cannot be written: {error.strerror}")
        _hint("check the disk or program that stdout goes to")
        return ExitCode.FAILED
    _write("internal error", f"{type(error).__name__}: {' '.join(str(error).split())}")
    _hint("this is a bug in kubexm" + ("" if debug else "; the same command with --debug shows where"))
    return ExitCode.FAILED


def _drop_output() -> None:
    """Forgets what could not be written to stdout: Python would try again at its end, and complain."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return  # no real file: nothing is tried again


def report_error(error: KubexmError) -> None:
    """Writes what went wrong, and what to do next."""
    problems = getattr(error, "problems", None)
    if isinstance(problems, tuple):  # ConfigErrors, known by what it holds: importing it costs more than all of this
        show_problems(problems)
        return
    message = error.message
    if isinstance(error, HostError) and error.host and not message.startswith((f"{error.host}: ", f"{error.host} ")):
        message = f"{error.host}: {message}"
    _write("error", message)
    if error.hint:
        _hint(error.hint)


def show_problems(problems: Iterable[Problem]) -> None:
    """Writes what is wrong with a file, as compilers do: each at its place, and how many there are."""
    errors = warnings = 0
    for problem in problems:
        first, *rest = problem.render().split("\n")
        place, _, message = first.partition(f"{problem.severity}: ")
        colour = "red" if problem.severity == "error" else "yellow"
        errors, warnings = errors + (colour == "red"), warnings + (colour == "yellow")
        mark = paint(f"{problem.severity}: ", colour, stream=sys.stderr)
        typer.echo("\n".join([place + mark + paint(message, "bold", stream=sys.stderr), *rest]), err=True)
    counts = [f"{errors} {'error' if errors == 1 else 'errors'}"] if errors else []
    counts += [f"{warnings} {'warning' if warnings == 1 else 'warnings'}"] if warnings else []
    if counts:
        typer.echo(", ".join(counts), err=True)


def warn(message: str, hint: str = "") -> None:
    """Writes something the user should know."""
    _write("warning", message, "yellow")
    if hint:
        _hint(hint)


def _write(word: str, message: str, colour: str = "red") -> None:
    typer.echo(f"{paint(f'{word}:', colour, 'bold', stream=sys.stderr)} {message}", err=True)


def _hint(hint: str) -> None:
    first, *more = hint.splitlines()
    arrow = paint("→", "cyan", stream=sys.stderr)
    typer.echo("\n".join([f"  {arrow} {first}", *(f"    {line}" for line in more)]), err=True)
