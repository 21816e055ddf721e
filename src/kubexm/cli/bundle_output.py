"""How `kubexm bundle` shows bundles and transfers: tables for people, JSON for programs. Changes nothing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

import typer

from kubexm.assets.disk import human_size
from kubexm.cli.output import Shown, Streamed, show_data, show_table
from kubexm.cli.style import paint

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from kubexm.assets import Bundle, Manifest, Report

__all__ = ["Watcher", "show_bundle", "show_report", "watching"]


def show_bundle(bundle: Bundle, how: Shown, roles: tuple[str, ...]) -> None:
    """What a bundle is for and what it holds; only what these roles need, if any are named."""
    manifest = bundle.manifest
    if how is not Shown.TABLE:
        document = json.loads(manifest.to_json())
        if roles:
            document["files"] = [file for file in document["files"] if set(file["roles"]) & set(roles)]
            document["images"] = [image for image in document["images"] if set(image["roles"]) & set(roles)]
        show_data(document | {"digest": f"sha256:{manifest.digest}", "signedBy": bundle.signed_by or None}, how)
        return
    signed = f"by {bundle.signed_by} (not checked; see `kubexm bundle verify --key`)" if bundle.signed_by else "no"
    for name, value in (
        ("Kubernetes", ", ".join(manifest.kubernetes)),
        ("Architecture", manifest.arch),
        ("Content", _content(manifest)),
        ("Digest", f"sha256:{manifest.digest}"),
        ("Signed", signed),
    ):
        typer.echo(f"{paint(f'{name}:'.ljust(14), 'bold')}{value}")
    typer.echo()
    show_table(["kind", "name", "version", "size", "roles", "licence"], _rows(manifest, roles))


def _content(manifest: Manifest) -> str:
    packages = sum(len(group.packages) for group in manifest.packages)
    parts = [f"{len(manifest.files)} files", f"{len(manifest.images)} images"]
    parts += [f"{packages} packages ({', '.join(group.target for group in manifest.packages)})"] if packages else []
    return f"{', '.join(parts)}; {human_size(manifest.total_size)}"


def _rows(manifest: Manifest, roles: tuple[str, ...]) -> list[list[str]]:
    blobs = {blob.digest: blob.size for blob in manifest.blobs}
    rows: list[list[str]] = []

    def add(kind: str, name: str, version: str, size: int, needed: tuple[str, ...], licence: str) -> None:
        if not roles or set(roles) & set(needed):
            rows.append([kind, name, version, human_size(size), ",".join(needed), licence])

    for file in manifest.files:
        add("file", file.name, file.version, file.size, file.roles, file.licence)
    for image in manifest.images:
        size = sum(blobs[digest] for digest in image.blobs)
        add("image", image.reference.rpartition(":")[0], image.version, size, image.roles, image.licence)
    for group in manifest.packages:
        for package in group.packages:
            add(group.target, package.name, package.version, package.size, package.roles, package.licence)
    return rows


def show_report(report: Report, how: Shown) -> None:
    """What verifying found: every fault with the file it is in, or that there is none."""
    if how is not Shown.TABLE:
        show_data(
            {
                "bundle": str(report.path),
                "ok": report.ok,
                "digest": f"sha256:{report.manifest.digest}" if report.manifest else None,
                "signedBy": report.signed_by or None,
                "signatureChecked": report.signature_checked,
                "findings": [
                    {"kind": str(finding.kind), "path": finding.path, "detail": finding.detail}
                    for finding in report.findings
                ],
            },
            how,
        )
        return
    if report.findings:
        show_table(["what", "where", "why"], [[str(f.kind), f.path, f.detail] for f in report.findings])
        count = len(report.findings)
        typer.echo(paint(f"{report.path}: {count} fault{'' if count == 1 else 's'}", "red", "bold"))
    elif report.manifest is not None:
        typer.echo(paint(f"{report.path} is whole: {_content(report.manifest)}", "green"))
    typer.echo(_signature(report))


def _signature(report: Report) -> str:
    if not report.signed_by:
        return "It is not signed."
    if not report.signature_checked:
        return f"It is signed by {report.signed_by}; that was not checked. Name the public key with --key."
    good = not any(finding.kind == "signature" for finding in report.findings)
    return f"The signature of {report.signed_by} is {'good' if good else 'NOT good'}."


class Watcher(Protocol):
    """Hears of a transfer while it goes on."""

    def progress(self, name: str, done: int, total: int | None) -> None:
        """So much of it has come or gone."""

    def say(self, text: str) -> None:
        """Something is done."""


@contextmanager
def watching(how: Streamed) -> Iterator[Watcher]:
    """Shows transfers on stderr: bars on a terminal, lines otherwise, events as JSON on stdout if asked for."""
    if how is Streamed.JSON:
        yield _Events()
    elif sys.stderr.isatty():
        with _Bars() as bars:
            yield bars
    else:
        yield _Lines()


class _Events:
    """One JSON object a line."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def progress(self, name: str, done: int, total: int | None) -> None:
        """At most one a second for each, and the last."""
        now = time.monotonic()
        if done == total or now - self._last.get(name, 0.0) >= 1:
            self._last[name] = now
            self._print({"event": "progress", "name": name, "done": done, "total": total})

    def say(self, text: str) -> None:
        """One for each thing done."""
        self._print({"event": "done", "what": text})

    def _print(self, event: dict[str, Any]) -> None:
        typer.echo(json.dumps(event, ensure_ascii=False))


class _Lines:
    """A line for each thing done."""

    def progress(self, name: str, done: int, total: int | None) -> None:
        """Too often for a log."""

    def say(self, text: str) -> None:
        """The line."""
        typer.echo(text, err=True)


class _Bars:
    """A bar for each transfer under way, and a line above them for each that is done."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        self._bars: RichProgress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def progress(self, name: str, done: int, total: int | None) -> None:
        """Moves the bar; a full one goes away."""
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total)
            self._bars.update(self._tasks[name], completed=done, total=total)
            if done == total:
                self._bars.remove_task(self._tasks.pop(name))

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._bars.console.print(text, markup=False)
