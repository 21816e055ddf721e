"""`kubexm lab`: real hosts on this machine. Only reads options and shows results; the lab itself does the work.

Everything heavy is imported inside the commands, so that `kubexm --help` stays fast.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kubexm.lab import Lab

__all__ = ["app"]

app = typer.Typer(help="Real hosts on this Linux machine, to try kubexm on.", no_args_is_help=True)


class Shown(StrEnum):
    """How a result is shown."""

    TABLE = "table"
    JSON = "json"


Name = Annotated[str, typer.Option("--name", "-n", help="Which lab; not needed if there is only one.")]
Host = Annotated[str, typer.Argument(metavar="HOST", help="A host of the lab, such as n1.")]
Output = Annotated[Shown, typer.Option("--output", "-o", help="How to show the result.")]


@app.command()
def up(
    hosts: Annotated[int | None, typer.Option(help="How many hosts; 5 for a new lab.", show_default=False)] = None,
    name: Annotated[str, typer.Option("--name", "-n", help="What to call the lab.")] = "lab",
    topology: Annotated[
        str, typer.Option(metavar="single|ha|N+M", help="N control planes (with etcd) and M workers.")
    ] = "",
    save: Annotated[
        Path | None, typer.Option(help="Where to write the cluster file.  [default: ./NAME.yaml]", show_default=False)
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[HOST=]SYSTEM",
            help="What hosts run: debian11, debian12 (the default) or debian13; n2=debian13 for one host. Repeatable.",
        ),
    ] = None,
    flavour: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST=FLAVOUR", help="Make a host another kind; see `kubexm lab flavours`. Repeatable."),
    ] = None,
    disk: Annotated[str, typer.Option(metavar="SIZE", help="Size of each host's disk.  [default: 20G]")] = "",
    bundle: Annotated[
        Path | None, typer.Option(help="Bundle for the cluster file, if not the one built last.", show_default=False)
    ] = None,
    mirror: Annotated[str, typer.Option(metavar="URL", help="Debian mirror, if not the one apt uses here.")] = "",
    install: Annotated[bool, typer.Option("--install", help="Install what the lab needs with apt.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")] = False,
    output: Output = Shown.TABLE,
) -> None:
    """Boot hosts and write a cluster file for them. Again: power on what is off, and add hosts."""
    from kubexm.lab import Lab
    from kubexm.lab.disk import parse_size
    from kubexm.lab.needs import check_platform, check_tools
    from kubexm.lab.places import cache_directory
    from kubexm.lab.sources import named_bundle

    check_platform("up")
    everywhere, systems = _systems(system or [])
    with _progress(output) as (say, detail):
        lab = Lab(name, mirror=mirror, progress=say, detail=detail)
        check_tools(confirm=_confirm(install or yes), log=cache_directory() / "logs" / "apt.log", progress=say)
        booted = lab.up(
            hosts=hosts,
            topology=topology or None,
            system=everywhere,
            systems=systems,
            flavours=_flavours(flavour or []),
            disk=parse_size(disk) if disk else None,
            save=save,
            bundle=named_bundle(bundle.absolute()) if bundle else None,
        )
    if output is Shown.JSON:
        from kubexm.cli.lab_output import lab_json

        typer.echo(lab_json([lab]))
        return
    from kubexm.cli.lab_output import booted_table, show

    show(booted_table(lab, booted))
    file = _near(lab.cluster_file)
    other = "" if name == "lab" else f" --name {name}"
    typer.echo(f"The cluster file is {file}. What to do with it:")
    typer.echo(f"  kubexm preflight -f {file}")
    typer.echo(f"  kubexm lab ssh{other} {lab.hosts[0].name}")
    typer.echo(f"  kubexm lab down{'' if name == 'lab' else ' ' + name}")


@app.command()
def status(name: Name = "", output: Output = Shown.TABLE) -> None:
    """Show the hosts of all labs, or of one."""
    from kubexm.cli.lab_output import lab_json, show, status_table
    from kubexm.lab import Lab, lab_names

    labs = [_existing(name)] if name else [Lab(each) for each in lab_names()]
    if output is Shown.JSON:
        typer.echo(lab_json(labs))
    elif not labs:
        typer.echo("There are no labs." + ("" if os.geteuid() == 0 else " (Those made by root are shown to root.)"))
    else:
        show(status_table(labs))


@app.command()
def flavours(output: Output = Shown.TABLE) -> None:
    """List the kinds of host a lab can have."""
    from kubexm.cli.lab_output import flavours_json, flavours_table, show

    if output is Shown.JSON:
        typer.echo(flavours_json())
    else:
        show(flavours_table())


@app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def ssh(
    host: Host,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[CMD]...", help="A program and its arguments, or one shell line.")
    ] = None,
    name: Name = "",
    user: Annotated[str, typer.Option("--user", "-l", help="Log in as root or ops.", show_default=False)] = "",
) -> None:
    """Log in to a host, or run a command there.

    The command's exit code becomes ours. Options come before HOST; all that follows is the command.
    """
    from kubexm.errors import LabError

    line = command or []
    words = _existing(name).ssh_command(host, *(line[1:] if line[:1] == ["--"] else line), user=user)
    if shutil.which(words[0]) is None:
        raise LabError("`ssh` is not installed.", hint="Install openssh-client.")
    sys.stdout.flush()
    os.execvp(words[0], words)  # noqa: S606 - the user's ssh session takes our place


@app.command()
def cut(host: Host, name: Name = "") -> None:
    """Pull a host's network cable."""
    _change("cut")(name).cut(host)
    typer.echo(f"{host} is cut off.")


@app.command()
def heal(host: Host, name: Name = "") -> None:
    """Plug a host's network cable in again."""
    _change("heal")(name).heal(host)
    typer.echo(f"{host} is connected.")


@app.command()
def kill(host: Host, name: Name = "") -> None:
    """Cut a host's power; its disk keeps what was written."""
    _change("kill")(name).kill(host)
    typer.echo(f"{host} is off.")


@app.command()
def start(host: Host, name: Name = "") -> None:
    """Power a host on and wait until it has booted."""
    booted = _change("start")(name).start(host)
    took = f" after {booted.seconds:.1f} s" if booted.seconds else ""
    typer.echo(f"{host} is {booted.state}{took}.")


@app.command()
def fill(
    host: Host,
    name: Name = "",
    leave: Annotated[str, typer.Option(metavar="SIZE", help="Leave this much free.")] = "0",
    free: Annotated[bool, typer.Option("--free", help="Give the space back.")] = False,
) -> None:
    """Fill a host's disk. Writing to it then fails; --free undoes it."""
    from kubexm.lab.disk import parse_size

    lab = _change("fill")(name)
    if free:
        lab.free(host)
        typer.echo(f"{host} has its disk space back.")
    else:
        taken = lab.fill(host, leave=parse_size(leave))
        typer.echo(f"The disk of {host} is full: {taken / 2**30:.1f} GiB taken.")


@app.command()
def down(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which lab; not needed if there is only one.")] = "",
) -> None:
    """Remove a lab and all it made.

    That is its processes, mounts, interfaces, control groups and files, and the cluster file unless it was changed.
    """
    from kubexm.lab import Lab
    from kubexm.lab.needs import check_platform

    check_platform("down")
    lab = Lab(_chosen(name))
    kept = lab.down()
    typer.echo(f"The lab {lab.name!r} is gone." + (f" {kept} was changed by somebody, and is kept." if kept else ""))


def _change(what: str) -> Callable[[str], Lab]:
    """Opens a lab for a command that changes it."""
    from kubexm.lab.needs import check_platform

    check_platform(what)
    return _existing


def _existing(name: str) -> Lab:
    """The lab of that name, which must exist."""
    from kubexm.lab import Lab

    lab = Lab(_chosen(name))
    _ = lab.record  # says so if there is none
    return lab


def _chosen(name: str) -> str:
    """The name given; with none that of the only lab there is, or else `lab`."""
    from kubexm.errors import UsageError
    from kubexm.lab import lab_names

    names = lab_names()
    if name or not names or "lab" in names:
        return name or "lab"
    if len(names) > 1:
        raise UsageError("There are several labs.", hint=f"Say which one: {', '.join(names)}.")
    return names[0]


def _systems(words: list[str]) -> tuple[str | None, dict[str, str]]:
    """The system of all hosts, if one was named without a host, and those of single hosts."""
    from kubexm.errors import UsageError

    everywhere, systems = None, {}
    for word in words:
        host, equals, system = word.partition("=")
        if equals:
            systems[host] = system
        elif everywhere not in (None, word):
            raise UsageError(
                f"--system says {everywhere} and {word} for all hosts.",
                hint="Name the hosts of one of them: --system debian13 --system n2=debian12.",
            )
        else:
            everywhere = word
    return everywhere, systems


def _flavours(pairs: list[str]) -> dict[str, str]:
    from kubexm.errors import UsageError

    chosen = {}
    for pair in pairs:
        host, equals, flavour = pair.partition("=")
        if not equals:
            raise UsageError(f"--flavour {pair!r} names no flavour.", hint="Write it as HOST=FLAVOUR: n2=nopython.")
        chosen[host] = flavour
    return chosen


def _confirm(agreed: bool) -> Callable[[str], bool] | None:
    if agreed:
        return lambda _question: True
    if sys.stdin.isatty():
        return lambda question: typer.confirm(question, default=True, err=True)
    return None


def _near(file: Path) -> str:
    """A path as one would type it from here."""
    here = Path.cwd()
    return str(file.relative_to(here)) if here in file.parents else str(file)


@contextmanager
def _progress(output: Shown) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """What hears of stages and of details: a spinner on a terminal, plain lines (no details) elsewhere."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield (lambda _: None) if output is Shown.JSON else (lambda line: typer.echo(line, err=True)), lambda _: None
        return
    with console.status("Starting") as spinner:

        def say(line: str) -> None:
            console.print(line, markup=False)
            spinner.update(_plain(line))

        yield say, lambda line: spinner.update(_plain(line))


def _plain(line: str) -> str:
    from rich.markup import escape

    return escape(line)
