"""Commands of pipelines, derived from what each declares: its options, its settings, its confirmation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.lazy import Verb
from kubexm.cli.options import File, cluster_file, host_names, several
from kubexm.cli.output import Streamed
from kubexm.pipeline import SHARED, Kind, Option, Pipeline, declared, every_pipeline

if TYPE_CHECKING:
    from kubexm.plan import RunSpec

__all__ = ["extended", "given", "parameter", "pipeline_verbs", "register"]

_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for the cluster's name.")]
_Output = Annotated[Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")]
_SEVERAL = (Kind.NAMES, Kind.HOSTS)


def pipeline_verbs(verbs: Iterable[Verb]) -> tuple[Verb, ...]:
    """These verbs, and one for the first word of each pipeline's command; pipelines of a verb that is there join it."""
    found = {verb.name: verb for verb in verbs}
    made: dict[str, Verb] = {}
    for pipeline in every_pipeline():
        if not pipeline.summary:
            continue
        word = pipeline.words()[0]
        known = found.get(word) or made.get(word)
        if known is None:
            known = Verb(word, "", pipeline.summary, pipeline.section, remote=True)
        joined = Verb(
            **{name: getattr(known, name) for name in ("name", "module", "help", "section", "extensions", "remote")},
            pipelines=(*known.pipelines, pipeline.name),
        )
        (found if word in found else made)[word] = joined
    return (*made.values(), *found.values())


def register(app: typer.Typer, names: Iterable[str]) -> None:
    """Adds the commands of these pipelines."""
    for name in names:
        pipeline = declared(name)
        app.command(pipeline.words()[-1], help=pipeline.description)(_command(pipeline))


def _command(pipeline: type[Pipeline]) -> Callable[..., None]:
    options = {option.name: option for option in (*pipeline.all_options(), *(SHARED[each] for each in pipeline.takes))}

    def command(ctx: typer.Context, **values: Any) -> None:
        from kubexm.cli.running import run_spec
        from kubexm.cli.settings import Settings
        from kubexm.plan import RunSpec

        file, output, yes = values.pop("file"), values.pop("output"), values.pop("yes", False)
        asked = given(options, values)
        spec = RunSpec.of(pipeline.name, **asked, accept_new_host_keys=ctx.ensure_object(Settings).accept_new_host_keys)
        path = cluster_file(file)
        if pipeline.confirms and not spec.dry_run and not yes:
            _confirm(path, spec)
        run_spec(ctx, spec, path, output=output, measures=pipeline.measures)

    order = sorted(options.values(), key=lambda option: not option.positional)
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(parameter(option) for option in order if option.positional),
        _keyword("file", File, None),
        *(parameter(option) for option in order if not option.positional),
        *([_keyword("yes", _Yes, False)] if pipeline.confirms else []),
        _keyword("output", _Output, Streamed.TEXT),
    ]
    return _with_parameters(command, parameters)


def _with_parameters(function: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """The function, as typer sees it."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def extended(function: Callable[..., None], more: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """A command with these parameters besides its own; it gets them as keywords."""
    found = inspect.signature(function, eval_str=True).parameters.values()
    own = [each for each in found if each.kind is not each.VAR_KEYWORD]
    return _with_parameters(function, [*(each.replace(kind=each.KEYWORD_ONLY) for each in own), *more])


def parameter(option: Option, *, optional: bool = False) -> inspect.Parameter:
    """The parameter of a command for an option. `optional`: None unless given, and never an argument."""
    kinds: dict[Kind, Any] = {
        Kind.FLAG: bool,
        Kind.TEXT: str,
        Kind.CHOICE: StrEnum(option.name, {each.upper(): each for each in option.choices}),
        Kind.NUMBER: float,
        Kind.COUNT: int,
        Kind.NAMES: list[str],
        Kind.HOSTS: list[str],
    }
    kind, default = kinds[option.kind], option.usual
    about: dict[str, Any] = {"help": option.help, "metavar": option.metavar or None}
    if option.kind in (Kind.NUMBER, Kind.COUNT):
        about |= {"min": option.least, "max": option.most}
    if optional or option.kind in _SEVERAL or default is None or (option.kind is Kind.TEXT and not default):
        default = None
    elif option.kind is Kind.CHOICE:
        default = kind(default)
    if option.positional and not optional:
        kind = kind if option.required else kind | None
        told = typer.Argument(**about)
        return _keyword(option.name, Annotated[kind, told], inspect.Parameter.empty if option.required else default)
    flag = f"--{option.name.replace('_', '-')}"
    names = [f"{flag}/--no-{flag[2:]}"] if option.kind is Kind.FLAG and option.usual else [flag]
    if option.short and not optional:
        names.append(option.short)
    if optional:
        about["show_default"] = False
    return _keyword(
        option.name, Annotated[kind if default is not None else kind | None, typer.Option(*names, **about)], default
    )


def given(options: Mapping[str, Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of these options, as a spec holds it: without what has its default."""
    found: dict[str, Any] = {}
    for name, option in options.items():
        value = values.get(name)
        if value is None:
            continue
        if option.kind in _SEVERAL:
            expand = host_names if option.kind is Kind.HOSTS else several
            value = expand(list(value), option.flag)
        elif isinstance(value, StrEnum):
            value = value.value
        if value != option.usual:
            found[name] = value
    return found


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _confirm(path: Path, spec: RunSpec) -> None:
    """Goes on only if somebody types the cluster's name."""
    from kubexm import config
    from kubexm.cli.terminal import ask_line, has_terminal
    from kubexm.errors import UsageError
    from kubexm.pipeline import pipeline_for
    from kubexm.plan.render import short_hosts

    found = config.load(path).cluster
    if not has_terminal():
        raise UsageError(
            f"`kubexm {' '.join(declared(spec.pipeline).words())}` of {found.name} has to be confirmed, and there is "
            "no terminal to ask on",
            hint="give --yes if it is meant",
        )
    told = pipeline_for(spec).consequences(found.name, short_hosts([host.name for host in found.hosts]))
    if told:
        typer.echo(told, err=True)
    typed = ask_line(f"Type the name of the cluster, {found.name}, to continue: ")
    if typed != found.name:
        raise UsageError(f"{typed!r} is not the name of the cluster: nothing was changed")
