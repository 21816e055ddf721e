"""A command line whose parts are imported when they are used: `kubexm --help` reads static lines and imports none."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kubexm.cli.settings import Settings, with_global_options
from kubexm.errors import UsageError

__all__ = ["LazyGroup", "Verb"]

_COMPLETION = ("install_completion", "show_completion")


@dataclass(frozen=True, slots=True)
class Verb:
    """One word after `kubexm`: where its typer app named `app` is, and its line in the help."""

    name: str
    module: str
    help: str
    section: str
    extensions: tuple[str, ...] = ()
    """Modules whose `register(app)` adds more commands to it."""
    remote: bool = False
    """True if a server can do it, too."""
    pipelines: tuple[str, ...] = ()
    """Pipelines whose commands are below it, or which it is; with no module, these are all there is."""


class LazyGroup(TyperGroup):
    """Knows its verbs by name and help; a verb's module is imported when it is invoked or its options are asked for."""

    verbs: tuple[Verb, ...] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for verb in self.verbs:
            self.add_command(TyperCommand(verb.name, help=verb.help, short_help=verb.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The real command instead of the line that stands for it."""
        name, command, rest = super().resolve_command(ctx, args)
        verb = next((verb for verb in self.verbs if verb.name == name), None)
        if verb is not None and not verb.remote:
            settings = ctx.ensure_object(Settings)
            if settings.server_given:
                raise UsageError(
                    f"`kubexm {name}` is done on this machine, and not by a server",
                    hint="leave out --server, or run it on the server's machine",
                )
        return name, command if verb is None else _load(verb), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs by section, in the order in which one needs them."""
        widest = max(len(verb.name) for verb in self.verbs)
        for section in dict.fromkeys(verb.section for verb in self.verbs):
            rows = [(verb.name.ljust(widest), verb.help) for verb in self.verbs if verb.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)


def _load(verb: Verb) -> Any:
    app = importlib.import_module(verb.module).app if verb.module else typer.Typer()
    assert isinstance(app, typer.Typer)
    if verb.pipelines:
        _add_pipelines(app, verb)
    for extension in verb.extensions:
        importlib.import_module(extension).register(app)
    command = typer.main.get_command(app)
    # Completion is an option of the root only.
    command.params = [option for option in command.params if option.name not in _COMPLETION]
    command.name = verb.name
    _plain_help(command)
    with_global_options(command, remote=verb.remote)
    return command


def _add_pipelines(app: typer.Typer, verb: Verb) -> None:
    from kubexm.cli.pipelines import register
    from kubexm.pipeline import declared

    below = any(len(declared(name).words()) > 1 for name in verb.pipelines)
    if below and not verb.module:
        app.info.no_args_is_help = True
        app.callback(help=verb.help)(lambda: None)
    register(app, verb.pipelines)


def _plain_help(command: Any) -> None:
    """Help is plain text everywhere, as fast as the root's."""
    command.rich_markup_mode = None
    for child in getattr(command, "commands", {}).values():
        _plain_help(child)
