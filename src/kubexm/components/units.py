"""systemd units of programs that are started with many arguments. Knows no program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

__all__ = ["UNIT_DIRECTORY", "service_unit", "unit_path", "unit_word"]

UNIT_DIRECTORY: Final = PurePosixPath("/etc/systemd/system")

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:,=@+%$*-]+")


def unit_path(name: str) -> PurePosixPath:
    """Where the unit file of a service is."""
    return UNIT_DIRECTORY / f"{name}.service"


def unit_word(text: str) -> str:
    """One argument as a unit file writes it: quoted where it must be, `%` and `$` taken literally."""
    literal = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(literal):
        return literal
    escaped = literal.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def service_unit(
    description: str,
    command: Sequence[str],
    *,
    after: Sequence[str] = (),
    notifies: bool = False,
    settings: Sequence[str] = (),
) -> str:
    """A unit that runs the command for as long as the host is up, one argument to a line.

    `notifies`: the program says itself when it has started. `settings` are further lines of [Service].
    """
    words = " \\\n  ".join(map(unit_word, command))
    order = " ".join(("network-online.target", *after))
    lines = "".join(f"{line}\n" for line in settings)
    return f"""\
[Unit]
Description={description}
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After={order}
StartLimitIntervalSec=0

[Service]
Type={"notify" if notifies else "exec"}
ExecStart={words}
Restart=always
RestartSec=2s
LimitNOFILE=1048576
{lines}
[Install]
WantedBy=multi-user.target
"""
