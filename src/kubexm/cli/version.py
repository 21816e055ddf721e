"""`kubexm version`."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

from kubexm import __version__
from kubexm.cli.output import Shown, show_data

__all__ = ["app"]

app = typer.Typer()


@app.command()
def version(
    output: Annotated[Shown, typer.Option("--output", "-o", help="How to show it.")] = Shown.TABLE,
) -> None:
    """Show kubexm's version."""
    data = {"kubexm": __version__, "python": platform.python_version(), "platform": platform.platform(terse=True)}
    if output is Shown.TABLE:
        typer.echo(f"kubexm {__version__} (Python {data['python']}, {data['platform']})")
    else:
        show_data(data, output)
