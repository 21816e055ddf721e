"""`kubexm lab bundle`: a bundle with a real Kubernetes, built here or downloaded. Reads options, shows progress.

Everything heavy is imported inside the command, so that `kubexm --help` stays fast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kubexm.cli.bundle_options import run
from kubexm.cli.output import Streamed

if TYPE_CHECKING:
    from kubexm.lab.bundle import BundleBuild, Progress

__all__ = ["register"]


class From(StrEnum):
    """Where a lab's bundle comes from."""

    SOURCE = "source"
    UPSTREAM = "upstream"
    AUTO = "auto"


def register(app: typer.Typer) -> None:
    """Adds the `bundle` command to `kubexm lab`."""
    app.command("bundle")(bundle)


def bundle(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="VERSION", help="More Kubernetes versions.", show_default=False)
    ] = None,
    kubernetes: Annotated[
        list[str] | None,
        typer.Option("--kubernetes", metavar="VERSION", help="Kubernetes version, such as 1.34.4; may be repeated."),
    ] = None,
    source: Annotated[
        From,
        typer.Option(
            "--from",
            help="source: build it. upstream: download it. auto: download if the sites answer within 5 s, else build.",
        ),
    ] = From.SOURCE,
    part: Annotated[
        list[str] | None, typer.Option("--part", help="Also build this part: helm or registry; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Also put it here: a new directory, or one file if it ends in .tar.zst."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ARTEFACT", help="Make only this (see --list) and print where it is."),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="List the artefacts and which are there; build none.")
    ] = False,
    install: Annotated[bool, typer.Option("--install", help="Install missing tools with apt, without asking.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="When something cannot be made, make everything else.")
    ] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Fetch Debian's packages anew, for their security updates.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Afterwards remove everything else from the cache, Go's caches too.")
    ] = False,
    mirror: Annotated[str, typer.Option("--mirror", help="Debian archive to use instead of this machine's.")] = "",
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Make a bundle with a real Kubernetes: built from Go modules and Debian's packages, or downloaded.

    What was made before is kept (KUBEXM_CACHE, or the user's cache directory) and not made again. The last line
    printed is where the bundle is.
    """
    from kubexm.errors import UsageError
    from kubexm.lab.bundle import BundleBuild, default_kubernetes
    from kubexm.lab.kubernetes import uses_cgroup_v1

    if out is not None and only:
        raise UsageError("--out and --only exclude each other: --only makes no bundle.")
    versions = [*(kubernetes or ()), *(more or ())]
    if not versions:
        choice = default_kubernetes(cgroup_v1=uses_cgroup_v1())
        versions = [choice.version]
        if choice.reason:
            typer.echo(f"Kubernetes {choice.version}: {choice.reason}.", err=True)
    build = BundleBuild(versions, part or (), mirror=mirror)
    if source is not From.SOURCE and (only or listing or part or len(build.contents.kubernetes) > 1):
        raise UsageError(
            f"--from {source} makes a whole bundle for one version",
            hint="Leave out --only, --list, --part and further versions, or use --from source.",
        )
    if listing:
        _list(build, output)
        return
    if source is not From.SOURCE and (place := _from_upstream(build, source, output)) is not None:
        with _progress(output) as progress:
            _result(output, "bundle", place if out is None else _deliver(place, out, progress))
        return
    install = install or _wanted(build, output)
    if only:
        with _progress(output) as build.progress:
            entries = build.provide(only, install=install)
        for name, entry in entries.items():
            _result(output, "artefact", entry.directory, name=name)
        return
    with _progress(output) as build.progress:
        place = build.run(install=install, keep_going=keep_going, refresh=refresh)
        if out is not None:
            place = _deliver(place, out, build.progress)
        if prune:
            from kubexm.assets.disk import human_size

            build.progress.note(f"removed {human_size(build.prune())} from the cache")
    _result(output, "bundle", place)


def _from_upstream(build: BundleBuild, source: From, output: Streamed) -> Path | None:
    """The bundle as it was made before or as upstream has it; None if it is to be built. Says which, and how long."""
    from kubexm.errors import AssetError
    from kubexm.lab.bundle import upstream

    (version,), arch, cache = build.contents.kubernetes, build.contents.arch, build.cache.root
    if (kept := upstream.downloaded(version, arch, cache)) is not None:
        return kept
    left = [name for name, entry in build.state().items() if entry is None]
    if source is From.AUTO and not left:
        return None
    sites = upstream.sites(version, arch)
    with _progress(output) as progress:
        if source is From.AUTO:
            progress.note(f"Trying {', '.join(site.host for site in sites)}, for {upstream.PROBE_SECONDS:g} s at most")
            if reason := run(upstream.probe(sites)):
                progress.note(
                    f"Building Kubernetes {version} from source, because not every site can be used: {reason}"
                )
                progress.note(
                    f"Artefacts left to build: {len(left)} of {len(build.state())}. {upstream.BUILDING_TAKES}"
                )
                return None
        progress.note(f"Downloading Kubernetes {version} and everything it needs. {upstream.DOWNLOADING_TAKES}")
        try:
            return run(upstream.download(version, arch, cache, say=progress.note))
        except AssetError as error:
            if source is From.UPSTREAM:
                raise
            progress.note(f"The download failed: {error.message}")
            progress.note(f"Building Kubernetes {version} from source instead. {upstream.BUILDING_TAKES}")
            return None


@contextmanager
def _progress(output: Streamed) -> Iterator[Progress]:
    from kubexm.lab.bundle import PlainProgress

    if output is Streamed.JSON:
        yield _Events()
    elif sys.stderr.isatty():
        from rich.console import Console

        from kubexm.lab.bundle.live import LiveProgress

        with LiveProgress(Console(stderr=True)) as live:
            yield live
    else:
        yield PlainProgress(lambda line: typer.echo(line, err=True))


class _Events:
    """Tells a build as JSON, one event a line."""

    def planned(self, to_make: int, total: int) -> None:
        """How much there is to do."""
        _event("planned", toMake=to_make, total=total)

    def started(self, name: str, number: int, of: int) -> None:
        """One begins."""
        _event("started", artefact=name, number=number, of=of)

    def doing(self, name: str, what: str) -> None:
        """Too often for a log."""

    def finished(self, name: str, seconds: float, *, made: bool) -> None:
        """One is there."""
        _event("finished", artefact=name, seconds=round(seconds, 1), made=made)

    def note(self, text: str) -> None:
        """Something else."""
        _event("note", text=text)


def _event(kind: str, **fields: object) -> None:
    typer.echo(json.dumps({"event": kind, **fields}))


def _result(output: Streamed, kind: str, place: Path, **fields: object) -> None:
    if output is Streamed.JSON:
        _event(kind, path=str(place), **fields)
    else:
        typer.echo(place)


def _wanted(build: BundleBuild, output: Streamed) -> bool:
    """Asks, where there is somebody to ask, whether missing tools that apt has shall be installed."""
    if output is Streamed.JSON or not (sys.stdin.isatty() and sys.stderr.isatty()) or not build.toolchain.has_apt:
        return False
    missing = build.missing()
    packages = sorted({package for item in missing for package in item.packages})
    if not packages:
        return False
    reasons = "; ".join(item.reason for item in missing)
    return typer.confirm(f"{reasons}. Install {', '.join(packages)} with apt?", default=True, err=True)


def _list(build: BundleBuild, output: Streamed) -> None:
    for name, entry in build.state().items():
        if output is Streamed.JSON:
            made = {"seconds": entry.seconds, "path": str(entry.directory)} if entry else {}
            _event("artefact", artefact=name, made=entry is not None, **made)
        else:
            typer.echo(f"{'✓' if entry else '·'} {name}" + (f"  {entry.seconds:.0f} s" if entry else ""))


def _deliver(place: Path, out: Path, progress: Progress) -> Path:
    from kubexm.lab.bundle.deliver import copy_bundle, pack_bundle

    progress.note(f"writing {out}")
    if out.name.endswith(".tar.zst"):
        return pack_bundle(place, out)
    return copy_bundle(place, out)
