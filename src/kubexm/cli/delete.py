"""`kubexm delete cluster`: every host as it was before the cluster was created."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kubexm.cli.options import DryRun, File, IgnoreErrors, Parallel, cluster_file
from kubexm.cli.output import Streamed

__all__ = ["app"]

app = typer.Typer(help="Delete a cluster and give its hosts back as they were.", no_args_is_help=True)


@app.callback()
def delete() -> None:
    """Delete a cluster and give its hosts back as they were."""


@app.command()
def cluster(
    ctx: typer.Context,
    file: File = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for the cluster's name.")] = False,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep etcd's data and the volumes of pods on their hosts.")
    ] = False,
    keep_runtime: Annotated[
        bool, typer.Option("--keep-runtime", help="Keep containerd and its images, for the next cluster.")
    ] = False,
    dry_run: DryRun = False,
    parallel: Parallel = None,
    ignore_errors: IgnoreErrors = False,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Stop the cluster of the file on all its hosts and put them back as they were before it was created. What was
    changed by others since is left, and said. Asks for the cluster's name first. Run it again for hosts that could
    not be reached."""
    from kubexm.cli.running import run_pipeline

    path = cluster_file(file)
    if not dry_run and not yes:
        _confirm(path, keep_data=keep_data, keep_runtime=keep_runtime)
    run_pipeline(
        ctx,
        "delete",
        path,
        output=output,
        dry_run=dry_run,
        parallel=parallel,
        ignore_errors=ignore_errors,
        keep_data=keep_data,
        keep_runtime=keep_runtime,
    )


def _confirm(path: Path, *, keep_data: bool, keep_runtime: bool) -> None:
    """Goes on only if somebody types the cluster's name."""
    from kubexm import config
    from kubexm.cli.terminal import ask_line, has_terminal
    from kubexm.errors import UsageError
    from kubexm.plan.render import short_hosts

    found = config.load(path).cluster
    if not has_terminal():
        raise UsageError(
            f"deleting {found.name} is to be confirmed, and there is no terminal to ask on",
            hint="give --yes if it is meant",
        )
    lost = "the cluster" if keep_data else "the cluster and all data in it"
    kept = [
        "etcd's data and volumes of pods" if keep_data else "",
        "containerd and its images" if keep_runtime else "",
    ]
    typer.echo(f"This removes {lost} from {short_hosts([host.name for host in found.hosts])}, for good.", err=True)
    if any(kept):
        typer.echo(f"It keeps {' and '.join(what for what in kept if what)}.", err=True)
    typed = ask_line(f"Type the name of the cluster, {found.name}, to go on: ")
    if typed != found.name:
        raise UsageError(f"{typed!r} is not the name of the cluster: nothing was deleted")
