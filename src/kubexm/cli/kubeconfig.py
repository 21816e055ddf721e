"""`kubexm kubeconfig`: the way into the cluster, printed or merged into the user's own."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from kubexm.cli.options import File, cluster_file

__all__ = ["app"]

app = typer.Typer()


class Form(StrEnum):
    """How it is shown."""

    YAML = "yaml"
    JSON = "json"


@app.command()
def kubeconfig(
    ctx: typer.Context,
    file: File = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge it into ~/.kube/config, or into the file KUBECONFIG names.")
    ] = False,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="With --merge: call cluster and context so.")
    ] = "",
    use: Annotated[bool, typer.Option("--use", help="With --merge: make it the current context.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --merge: replace another cluster that is called the same.")
    ] = False,
    via: Annotated[
        str, typer.Option("--via", metavar="HOST", help="Reach the API through this control plane, and no other.")
    ] = "",
    output: Annotated[Form, typer.Option("--output", "-o", help="yaml or json.")] = Form.YAML,
) -> None:
    """Print the administrator's kubeconfig of the cluster, or merge it into yours. It holds a private key: whoever has
    it has the cluster. With several control planes it also has a context for each of them, NAME-HOST."""
    from kubexm.cli.kubeconfig_merge import merge_into, place, through
    from kubexm.cli.output import Shown, show_data
    from kubexm.cli.running import service_of
    from kubexm.errors import UsageError

    if not merge and (name or use or force):
        raise UsageError("--name, --use and --force go with --merge", hint="add --merge, or leave them out")
    text = service_of(ctx).kubeconfig(cluster_file(file))
    if via:
        text = through(text, via)
    if merge:
        done = merge_into(place(os.environ), text, name=name, use=use, force=force)
        if output is Form.JSON:
            backup = str(done.backup) if done.backup is not None else None
            found = {"path": str(done.path), "context": done.context, "changed": done.changed, "backup": backup}
            show_data({**found, "current": done.current}, Shown.JSON)
            return
        typer.echo(f"context {done.context} in {done.path}" + ("" if done.changed else ": it was there already"))
        if done.backup is not None:
            typer.echo(f"the file as it was: {done.backup}")
        if not done.current:
            typer.echo(f"to use it: kubectl config use-context {done.context}")
        return
    if output is Form.YAML:
        typer.echo(text, nl=False)
        return
    from ruamel.yaml import YAML

    show_data(YAML(typ="safe", pure=True).load(text), Shown.JSON)
