"""`kubexm facts`: what kubexm sees of the hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubexm.cli.exits import ExitCode
from kubexm.cli.options import File, Limit, Roles, cluster_file, host_names, several
from kubexm.cli.output import Shown, show_data, show_table

if TYPE_CHECKING:
    from kubexm.runner import Facts

__all__ = ["app"]

app = typer.Typer()

_HEAD = ("host", "system", "kernel", "arch", "cpu", "memory", "disk free", "address", "cgroup", "cluster")
_PROGRAMS = (
    *("kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"),
    *("etcd", "containerd", "runc", "cni-plugins", "haproxy"),
)
_VERSIONS = ("host", *_PROGRAMS)


@app.command()
def facts(
    ctx: typer.Context,
    file: File = None,
    limit: Limit = None,
    roles: Roles = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Show which version of each program the hosts run instead.")
    ] = False,
    output: Annotated[
        Shown, typer.Option("--output", "-o", help="table for the main ones; json or yaml for all.")
    ] = Shown.TABLE,
) -> None:
    """Show what kubexm sees of the hosts. All hosts are asked at once, in one round trip each."""
    from kubexm.cli.report import report_error
    from kubexm.cli.running import carry_out, service_of

    service = service_of(ctx)
    report = carry_out(service.facts(cluster_file(file), limit=host_names(limit), roles=several(roles, "--role")))
    if output is Shown.TABLE:
        if report.facts:
            head, row = (_VERSIONS, _version_row) if versions else (_HEAD, _row)
            show_table(head, [row(name, each) for name, each in report.facts.items()])
    else:
        show_data({name: each.to_dict() for name, each in report.facts.items()}, output)
    for error in report.unreached.values():
        report_error(error)
    if report.unreached:
        raise typer.Exit(ExitCode.UNREACHABLE)


def _row(name: str, facts: Facts) -> list[str]:
    root = facts.filesystem_of("/")
    route = facts.network.route4 or facts.network.route6
    return [
        name,
        facts.os.name or f"{facts.os.id} {facts.os.version}",
        facts.kernel.release,
        facts.arch,
        str(facts.cpu.count),
        _size(facts.memory.total),
        _size(root.free) if root is not None else "-",
        (route.source if route is not None else "") or next(iter(facts.network.addresses), "-"),
        f"v{facts.cgroup}",
        facts.marker.name if facts.marker is not None else "-",
    ]


def _version_row(name: str, facts: Facts) -> list[str]:
    """What runs; of programs that run only now and then, what would be started; `a → b` where these differ."""
    row = [name]
    for program in _PROGRAMS:
        running, active = facts.programs.version(program), facts.programs.active_version(program)
        differ = running and active and running != active
        row.append(f"{running} → {active}" if differ else running or active or "-")
    return row


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
