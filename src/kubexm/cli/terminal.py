"""Asking the person at the terminal, and knowing whether there is one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kubexm.errors import UsageError
from kubexm.redact import Secret

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ask_line", "ask_secret", "has_terminal", "live_console"]


def has_terminal() -> bool:
    """True if somebody can be asked, even if stdin and stdout are pipes."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def ask_secret(what: str) -> Secret:
    """Asks for a secret on the terminal, without showing it."""
    if not has_terminal():
        raise UsageError(
            f"{what} is to be asked for, and there is no terminal to ask on",
            hint="write env:NAME or file:PATH instead of prompt in cluster.yaml",
        )
    from getpass import getpass

    try:
        return Secret(getpass(f"{what}: "))
    except EOFError:
        raise UsageError(f"{what} was not given") from None


def live_console() -> Console | None:
    """The terminal, if stdout is one that can be drawn on."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return None
    from rich.console import Console

    return Console(highlight=False, no_color=bool(os.environ.get("NO_COLOR")) or None)


def ask_line(prompt: str) -> str:
    """Asks for one line on the terminal, even if stdin is a pipe; nothing if it was ended."""
    with open("/dev/tty", "r+", buffering=1, encoding="utf-8") as terminal:  # noqa: PTH123 - no path to compute with
        terminal.write(prompt)
        terminal.flush()
        return terminal.readline().strip()
