"""The options every command takes, wherever they stand on the command line."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kubexm.cli.style import paint

__all__ = ["Settings", "global_options", "with_global_options"]


@dataclass(slots=True)
class Settings:
    """What the user said once for the whole command line."""

    debug: bool = False
    verbose: int = 0
    work_dir: Path | None = None
    accept_new_host_keys: bool = False
    server: str = ""
    """The server that does the work; empty for this machine."""
    server_given: bool = False
    """True if it was named on this command line, not by the environment."""
    token: str = ""
    token_file: Path | None = None
    server_ca: Path | None = None
    server_fingerprint: str = ""

    def apply(self) -> None:
        """Sets up logging accordingly."""
        logger = logging.getLogger("kubexm")
        levels = {0: logging.WARNING, 1: logging.INFO}
        logger.setLevel(logging.DEBUG if self.debug else levels.get(self.verbose, logging.DEBUG))
        if not logger.handlers:
            handler = _Stderr()
            handler.setFormatter(_Words())
            logger.addHandler(handler)
            logger.propagate = False


class _Words(logging.Formatter):
    """Messages as errors are shown; the logger's name only for those who look for it."""

    def format(self, record: logging.LogRecord) -> str:
        colour = "red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else "dim"
        word = paint(f"{record.levelname.lower()}:", colour, stream=sys.stderr)
        name = f"{record.name}: " if record.levelno <= logging.DEBUG else ""
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{word} {name}{record.getMessage()}{trace}"


class _Stderr(logging.StreamHandler[Any]):
    """Writes to whatever stderr is at that moment, so that a live display can put lines above itself."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


def _debug(ctx: typer.Context, value: bool) -> None:
    _settings(ctx).debug |= value


def _verbose(ctx: typer.Context, value: int) -> None:
    _settings(ctx).verbose += value


def _no_color(value: bool) -> None:
    if value:
        os.environ["NO_COLOR"] = "1"


def _work_dir(ctx: typer.Context, value: Path | None) -> None:
    if value is not None:
        _settings(ctx).work_dir = value


def _accept_new_host_keys(ctx: typer.Context, value: bool) -> None:
    _settings(ctx).accept_new_host_keys |= value


def _server(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> None:
    if value:
        settings, given = _settings(ctx), _on_the_line(ctx, param)
        if given or not settings.server_given:
            settings.server, settings.server_given = value, given


def _token(ctx: typer.Context, value: str | None) -> None:
    if value:
        _settings(ctx).token = value


def _of_server(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Keeps the setting of that name; what is on the line wins over the environment, wherever it stands there."""
    name = param.name or ""
    if value and (_on_the_line(ctx, param) or not getattr(_settings(ctx), name)):
        setattr(_settings(ctx), name, value)


def _on_the_line(ctx: typer.Context, param: typer.CallbackParam) -> bool:
    source = ctx.get_parameter_source(param.name or "")
    return source is not None and source.name == "COMMANDLINE"


def _settings(ctx: typer.Context) -> Settings:
    found = ctx.ensure_object(Settings)
    assert isinstance(found, Settings)
    return found


def _version(value: bool) -> None:
    if value:
        from kubexm import __version__

        typer.echo(f"kubexm {__version__}")
        raise typer.Exit


def global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, expose_value=False, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", callback=_debug, expose_value=False, help="Show tracebacks and debug messages.")
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            callback=_verbose,
            expose_value=False,
            show_default=False,
            help="Say more; twice: even more.",
        ),
    ] = 0,
    no_color: Annotated[
        bool,
        typer.Option("--no-color", callback=_no_color, expose_value=False, help="No colours (also: NO_COLOR=1)."),
    ] = False,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            "--work-dir",
            metavar="DIR",
            envvar="KUBEXM_WORK_DIR",
            show_envvar=False,
            callback=_work_dir,
            expose_value=False,
            help="Where runs, secrets and certificates are kept.  [default: .kubexm beside the cluster file]",
        ),
    ] = None,
    accept_new_host_keys: Annotated[
        bool,
        typer.Option(
            "--accept-new-host-keys",
            callback=_accept_new_host_keys,
            expose_value=False,
            help="Record the keys of hosts seen for the first time. A changed key is refused all the same.",
        ),
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="KUBEXM_SERVER",
            show_envvar=False,
            callback=_server,
            expose_value=False,
            help="Let a kubexm server do it (also: KUBEXM_SERVER).",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            callback=_token,
            expose_value=False,
            help="The token for it. Others on this machine can see it here: better are KUBEXM_TOKEN and --token-file.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            envvar="KUBEXM_TOKEN_FILE",
            show_envvar=False,
            callback=_of_server,
            expose_value=False,
            help="A file of mode 0600 that holds the token (also: KUBEXM_TOKEN_FILE).",
        ),
    ] = None,
    server_ca: Annotated[
        Path | None,
        typer.Option(
            "--server-ca",
            metavar="FILE",
            envvar="KUBEXM_SERVER_CA",
            show_envvar=False,
            callback=_of_server,
            expose_value=False,
            help="Certificate of the CA that signed the server's (also: KUBEXM_SERVER_CA).",
        ),
    ] = None,
    server_fingerprint: Annotated[
        str | None,
        typer.Option(
            "--server-fingerprint",
            metavar="SHA256",
            envvar="KUBEXM_SERVER_FINGERPRINT",
            show_envvar=False,
            callback=_of_server,
            expose_value=False,
            help="Fingerprint of the server's own certificate (also: KUBEXM_SERVER_FINGERPRINT).",
        ),
    ] = None,
) -> None:
    """Carries the options; their callbacks keep what was said."""


_OF_ROOT = "--version"
_OF_SERVERS = frozenset({"--server", "--token", "--token-file", "--server-ca", "--server-fingerprint"})


def with_global_options(command: Any, *, remote: bool = True) -> None:
    """Lets a command, and those below it, take the global options too, unless it has some of that name itself; those
    about a server only if a server can do it."""
    carrier = typer.Typer(add_completion=False)
    carrier.command()(global_options)
    for leaf in _leaves(command):
        taken = {name for param in leaf.params for name in (*param.opts, *param.secondary_opts)}
        for option in typer.main.get_command(carrier).params:
            if _OF_ROOT in option.opts:
                continue
            if not remote and not _OF_SERVERS.isdisjoint(option.opts):
                continue
            if taken.isdisjoint((*option.opts, *option.secondary_opts)):
                option.hidden = True  # type: ignore[attr-defined]  # an option, not an argument
                leaf.params.append(option)


def _leaves(command: Any) -> list[Any]:
    """Every command that does something by itself, also a group that may be called with none of its commands."""
    below = getattr(command, "commands", None)
    if below is None:
        return [command]
    itself = [command] if getattr(command, "invoke_without_command", False) else []
    return [*itself, *(leaf for child in below.values() for leaf in _leaves(child))]
