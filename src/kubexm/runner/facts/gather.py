"""Facts in one round trip: one shell script, read once, interpreted here. Must not change the host."""

from __future__ import annotations

import secrets
import time
from functools import cache
from pathlib import Path, PurePosixPath

from kubexm.connector.base import Command, Connector, shell
from kubexm.errors import CommandError
from kubexm.runner.facts.kernel import module_pattern, option_pattern
from kubexm.runner.facts.model import Facts
from kubexm.runner.facts.parse import parse_facts
from kubexm.runner.facts.programs import PROGRAMS
from kubexm.runner.facts.sections import Sections

__all__ = ["fact_script", "gather_facts"]

_TIMEOUT = 60.0


def fact_script(marker: str, state: PurePosixPath) -> str:
    """The script that prints a host's facts."""
    body = _body()
    settings = {
        "kx_marker": marker,
        "kx_state": str(state),
        "kx_programs": str(PROGRAMS),
        "kx_modules": module_pattern(),
        "kx_options": option_pattern(),
        "LC_ALL": "C",
    }
    head = "\n".join(f"{name}={shell(value)}" for name, value in settings.items())
    path = 'PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; export PATH LC_ALL'
    return f"{head}\n{path}\n{body}\n"


@cache
def _body() -> str:
    text = Path(__file__).with_name("script.sh").read_text(encoding="utf-8")
    return "\n".join(line for line in text.split("\n") if line and not line.startswith("#"))


async def gather_facts(connector: Connector, *, state: PurePosixPath) -> Facts:
    """Everything about the host, in one command."""
    marker = f"@kubexm-{secrets.token_hex(8)}"
    sent = time.time()
    result = await connector.execute(
        Command(script=fact_script(marker, state), timeout=_TIMEOUT, display="gather facts")
    )
    received = time.time()
    output = result.stdout.decode(errors="replace")
    if not result.ok or not Sections.parse(output, marker).complete:
        raise CommandError(
            host=result.host,
            command="gather facts",
            exit_code=result.exit_code,
            stdout=result.text[-2000:],
            stderr=result.error_text,
            message=f"the facts of {result.host} came back incomplete (exit code {result.exit_code})",
            hint="Log in by hand and run `sh -c 'date; cat /etc/os-release'`: the login shell or a profile may end "
            "sessions or print to them.",
        )
    return parse_facts(output, marker, sent=sent, received=received)
