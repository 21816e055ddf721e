"""`kubexm backup`: sets on this machine, listed, verified and pruned. `backup now` is a pipeline, and joins these."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.options import DEFAULT_FILE, File
from kubexm.cli.output import Shown, show_data, show_table

if TYPE_CHECKING:
    from kubexm.components.backup.sets import BackupSet
    from kubexm.redact import Secret

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Back up a cluster; list, verify and prune backup sets.")

_Directory = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIRECTORY", help="Where the sets are.  [default: `backups` in the work directory]"),
]
_Output = Annotated[Shown, typer.Option("--output", "-o", help="table, json or yaml.")]


@app.callback()
def _group() -> None:
    """Back up a cluster; list, verify and prune backup sets."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where sets are, and of which cluster they must be."""

    directory: Path
    cluster: str
    uid: str
    encryption_keys: tuple[str, ...] | None
    """Ids of the keys in the work directory; None if it has none."""


@app.command("list")
def list_sets(
    ctx: typer.Context, file: File = None, directory: _Directory = None, output: _Output = Shown.TABLE
) -> None:
    """List backup sets by their manifests, oldest first. `verify` also reads their parts."""
    from kubexm.components.backup.sets import find_sets

    place = _place(ctx, file, directory)
    found = find_sets(place.directory)
    rows = [_row(each, place.uid) for each in found]
    if output is not Shown.TABLE:
        show_data(rows, output)
        return
    if not rows:
        typer.echo(f"no backup sets in {place.directory}")
        return
    head = ("set", "cluster", "taken", "kubernetes", "etcd", "revision", "size", "keys", "status")
    show_table(head, [[str(row[name]) for name in head] for row in rows])


@app.command("verify")
def verify_set(
    ctx: typer.Context,
    backup_set: Annotated[str, typer.Argument(metavar="SET", help="Name of a set, or path of its directory.")],
    file: File = None,
    directory: _Directory = None,
    identity: Annotated[
        Path | None,
        typer.Option("--identity", "-i", metavar="FILE", help="File with the private key: also check the sealed part."),
    ] = None,
    output: _Output = Shown.TABLE,
) -> None:
    """Check that a backup set is complete and unchanged: manifest, size and sha256 of each part, and the checksum that
    etcd appends to snapshots. With --identity also that the sealed part opens and holds what a restore needs."""
    from kubexm.cli.exits import ExitCode
    from kubexm.components.backup.sets import BackupSet, check
    from kubexm.errors import NotFoundError

    by_path = "/" in backup_set
    place = None if by_path and file is None and not Path(DEFAULT_FILE).exists() else _place(ctx, file, directory)
    path = Path(backup_set) if by_path or place is None else place.directory / backup_set
    if not path.is_dir():
        raise NotFoundError(f"{path}: there is no such backup set", hint="`kubexm backup list` shows the sets")
    found = BackupSet.at(path.absolute())
    problems = check(found, uid="" if place is None else place.uid, identity=_identity(identity))
    if output is not Shown.TABLE:
        show_data(
            {"set": found.name, "good": not problems, "problems": problems, "opened": identity is not None}, output
        )
    elif problems:
        typer.echo("\n".join(f"{found.name}: {problem}" for problem in problems), err=True)
    else:
        typer.echo(f"{found.name}: good{_extent(found, opened=identity is not None)}")
    if problems:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def prune(
    ctx: typer.Context,
    file: File = None,
    directory: _Directory = None,
    keep: Annotated[int | None, typer.Option("--keep", min=1, metavar="N", help="Keep the newest N good sets.")] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Remove only sets older than this: 12h, 30d.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    output: _Output = Shown.TABLE,
) -> None:
    """Remove old backup sets of this cluster. Each is verified first. The newest good set stays in any case, and so do
    damaged sets and those with an encryption key that the cluster no longer has."""
    from datetime import UTC, datetime

    from kubexm.apis.v1alpha1.scalars import parse_duration
    from kubexm.components.backup.retention import judge
    from kubexm.components.backup.sets import remove
    from kubexm.errors import UsageError

    if keep is None and not older_than:
        raise UsageError("prune needs --keep, --older-than or both", hint="`--keep 7 --older-than 30d`")
    try:
        age = parse_duration(older_than) if older_than else None
    except ValueError as error:
        raise UsageError(f"--older-than: {error}", hint="write it like 12h or 30d") from None
    place = _place(ctx, file, directory)
    if not place.uid:
        raise UsageError(
            f"the work directory of {place.cluster} has no cluster UID: which sets belong to it is not known",
            hint="run it where the cluster was created, or give --work-dir",
        )
    verdicts = judge(_candidates(place), now=datetime.now(UTC), keep=keep, older_than=age)
    for verdict in verdicts:
        if verdict.removed and not dry_run:
            remove(place.directory / verdict.name)
    word = "would be removed" if dry_run else "removed"
    rows = [{"set": each.name, "status": word if each.removed else "kept", "reason": each.reason} for each in verdicts]
    if output is not Shown.TABLE:
        show_data(rows, output)
    elif not rows:
        typer.echo(f"no backup sets of {place.cluster} in {place.directory}")
    else:
        show_table(("set", "status", "reason"), [list(row.values()) for row in rows])


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the private key; must not exist.")],
) -> None:
    """Make a key pair for sealing. The private key is written to FILE, mode 0600; the public key is printed. Keep the
    private key off the machines that take backups: only `verify --identity` and restores need it."""
    import os

    from kubexm.components.backup.age import new_identity, recipient_of
    from kubexm.errors import UsageError

    identity = new_identity()
    recipient = recipient_of(identity)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(f"# public key: {recipient}\n{identity.reveal()}\n")
            stream.flush()
            os.fsync(stream.fileno())
    except FileExistsError:
        raise UsageError(f"{file} exists, and is not overwritten", hint="choose another name") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    typer.echo(recipient)


def _place(ctx: typer.Context, file: Path | None, directory: Path | None) -> _Place:
    from kubexm import config
    from kubexm.cli.options import cluster_file
    from kubexm.cli.settings import Settings
    from kubexm.components.backup.keys import encryption_key_ids
    from kubexm.components.backup.sets import BACKUPS
    from kubexm.runtime import WorkDir

    loaded = config.load(cluster_file(file))
    settings = ctx.ensure_object(Settings)
    configured = (
        loaded.cluster.spec.global_.work_dir if settings.work_dir is None else str(settings.work_dir.absolute())
    )
    work_dir = WorkDir.of(loaded.cluster.name, configured, loaded.source.directory)
    keys = work_dir.secrets / "encryption-config"
    return _Place(
        directory=work_dir.path / BACKUPS if directory is None else directory.expanduser().absolute(),
        cluster=loaded.cluster.name,
        uid=work_dir.cluster_uid,
        encryption_keys=encryption_key_ids(keys.read_bytes()) if keys.exists() else None,
    )


def _identity(path: Path | None) -> Secret | None:
    from kubexm.components.backup.age import SealError, parse_identity
    from kubexm.errors import UsageError

    if path is None:
        return None
    try:
        return parse_identity(path.read_text("ascii", "replace"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except SealError as error:
        raise UsageError(f"{path}: {error}", hint="`kubexm backup keygen FILE` makes such a file") from None


def _row(found: BackupSet, uid: str) -> dict[str, Any]:
    manifest = found.manifest
    if manifest is None:
        unknown = dict.fromkeys(("cluster", "taken", "kubernetes", "etcd", "revision", "size", "keys"), "-")
        return {"set": found.name, **unknown, "status": found.fault}
    return {
        "set": found.name,
        "cluster": manifest.cluster,
        "taken": manifest.taken,
        "kubernetes": manifest.kubernetes,
        "etcd": manifest.etcd,
        "revision": manifest.revision,
        "size": _size(manifest.size),
        "keys": "sealed" if manifest.recipients else "NOT INCLUDED",
        "status": "complete" if not uid or uid == manifest.uid else "of another cluster",
    }


def _candidates(place: _Place) -> list[Any]:
    from datetime import datetime

    from kubexm.components.backup.retention import Candidate
    from kubexm.components.backup.sets import check, find_sets

    found = []
    for each in find_sets(place.directory):
        if each.manifest is None or each.manifest.uid != place.uid:
            continue
        gone = set() if place.encryption_keys is None else {*each.manifest.encryption_keys} - {*place.encryption_keys}
        found.append(
            Candidate(
                name=each.name,
                taken=datetime.fromisoformat(each.manifest.taken),
                problems=tuple(check(each)),
                sealed=bool(each.manifest.recipients),
                keys_gone=tuple(sorted(gone)),
            )
        )
    return found


def _extent(found: BackupSet, *, opened: bool) -> str:
    assert found.manifest is not None
    manifest = found.manifest
    if opened:
        keys = "sealed part opened and complete"
    elif manifest.recipients:
        keys = "sealed part intact but not opened: --identity opens it"
    else:
        keys = "NO keys in it: it was taken without a recipient"
    taken = f"{manifest.cluster} at {manifest.taken}, revision {manifest.revision}, {manifest.total_keys} keys"
    return f" ({taken}, {_size(manifest.size)}; {keys})"


def _size(number: int) -> str:
    return f"{number / 2**20:.1f} MiB"
