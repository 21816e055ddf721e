"""Backup sets on disk: written whole or not at all, found again, checked part by part. Must not talk to hosts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from kubexm.components.backup.age import SealError, WrongKey, open_sealed
from kubexm.components.backup.manifest import MANIFEST, MOST_BYTES, SEALED, SNAPSHOT, Manifest, ManifestError, Part
from kubexm.components.backup.sealed import CLUSTER_FILE, SECRETS, Contents, ContentsError, unpack
from kubexm.errors import KubexmError
from kubexm.redact import Secret

__all__ = [
    "BACKUPS",
    "PARTIAL",
    "BackupSet",
    "check",
    "describe_file",
    "find_sets",
    "partial_path",
    "prepare",
    "publish",
    "remove",
    "snapshot_fault",
    "write_file",
]

BACKUPS: Final = "backups"
"""Directory of sets in the work directory."""
PARTIAL: Final = ".partial-"
_REMOVED: Final = ".removed-"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BLOCK: Final = 1 << 20
_PAGE: Final = 512
_SUM: Final = 32
_MOST_SEALED: Final = 256 * 2**20
NEEDED: Final = ("pki.ca.crt", "pki.ca.key", "pki.front-proxy-ca.key", "pki.sa.key")
"""Secrets without which no control plane can be made again."""


@dataclass(frozen=True, slots=True)
class BackupSet:
    """A directory that may be a set: its manifest, or why that cannot be read."""

    path: Path
    manifest: Manifest | None
    fault: str = ""

    @property
    def name(self) -> str:
        """How users name it."""
        return self.path.name

    @classmethod
    def at(cls, path: Path) -> BackupSet:
        """The set in this directory, as its manifest describes it; parts are not read."""
        try:
            content = _small(path / MANIFEST, MOST_BYTES)
        except FileNotFoundError:
            return cls(path, None, f"{MANIFEST} is missing")
        except OSError as error:
            return cls(path, None, f"{MANIFEST} cannot be read: {error.strerror}")
        try:
            return cls(path, Manifest.parse(content))
        except ManifestError as error:
            return cls(path, None, f"{MANIFEST}: {error}")


def find_sets(directory: Path) -> list[BackupSet]:
    """Every set in a directory, oldest first; what was never completed is not among them."""
    try:
        names = sorted(
            entry.name
            for entry in os.scandir(directory)
            if entry.is_dir(follow_symlinks=False) and _NAME.fullmatch(entry.name)
        )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KubexmError(
            f"{directory}: the backup directory cannot be read: {error.strerror}", hint="check its owner and mode"
        ) from error
    found = [BackupSet.at(directory / name) for name in names]
    return sorted(found, key=lambda each: (each.manifest.taken if each.manifest else "", each.name))


def check(found: BackupSet, *, uid: str = "", identity: Secret | None = None) -> list[str]:
    """Everything that is wrong with a set: none if every part is complete and unchanged.

    `uid` is the cluster it must be of; with `identity` the sealed part is opened and checked too.
    """
    manifest = found.manifest
    if manifest is None:
        return [found.fault]
    problems: list[str] = []
    if uid and manifest.uid != uid:
        problems.append(f"it is of another cluster: {manifest.cluster}, UID {manifest.uid}; expected UID {uid}")
    with contextlib.suppress(OSError):
        extra = {entry.name for entry in os.scandir(found.path)} - {MANIFEST, *manifest.parts}
        problems += [f"{name} does not belong to the set" for name in sorted(extra)]
    for name, part in manifest.parts.items():
        problems += _part_faults(found.path / name, name, part)
    if not any(problem.startswith(SNAPSHOT) for problem in problems):
        fault = snapshot_fault(found.path / SNAPSHOT)
        problems += [f"{SNAPSHOT}: {fault}"] if fault else []
    if identity is not None:
        problems += _sealed_faults(found.path, manifest, identity)
    return problems


def _part_faults(path: Path, name: str, part: Part) -> Iterator[str]:
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            yield f"{name}: it is not an ordinary file"
            return
        actual = describe_file(path)
    except FileNotFoundError:
        yield f"{name}: it is missing"
        return
    except OSError as error:
        yield f"{name}: it cannot be read: {error.strerror}"
        return
    if actual.size != part.size:
        kind = "truncated" if actual.size < part.size else "too long"
        yield f"{name}: it is {kind}: {actual.size} bytes of {part.size}"
    elif actual.sha256 != part.sha256:
        yield f"{name}: its sha256 is {actual.sha256}, and must be {part.sha256}: it was changed or damaged"
    if mode & 0o077:
        yield f"{name}: other users can read it (mode {stat.S_IMODE(mode):04o}); `chmod 600` it"


def _sealed_faults(path: Path, manifest: Manifest, identity: Secret) -> list[str]:
    if SEALED not in manifest.parts:
        return ["the set has no sealed part: it was taken without a recipient, so keys and CAs are not in it"]
    try:
        contents = unpack(open_sealed(_small(path / SEALED, _MOST_SEALED), identity))
    except OSError:
        return []  # reported with the parts
    except WrongKey:
        whom = ", ".join(manifest.recipients)
        return [f"{SEALED}: it cannot be opened with this private key: it is sealed for {whom}"]
    except (SealError, ContentsError) as error:
        return [f"{SEALED}: {error}"]
    return [f"{SEALED}: {fault}" for fault in _contents_faults(contents, manifest)]


def _contents_faults(contents: Contents, manifest: Manifest) -> Iterator[str]:
    if contents.snapshot != manifest.parts[SNAPSHOT].sha256:
        yield "it belongs to another snapshot"
    if contents.uid != manifest.uid:
        yield f"it belongs to another cluster, UID {contents.uid}"
    for name in (CLUSTER_FILE, *(SECRETS + each for each in NEEDED)):
        if name not in contents.files:
            yield f"{name} is missing"
    from kubexm.components.backup.keys import ca_fingerprint, encryption_key_ids

    if ca_fingerprint(contents.files.get(SECRETS + "pki.ca.crt", b"")) != manifest.ca_fingerprint:
        yield "its CA is not the one of the manifest"
    ids = encryption_key_ids(contents.files.get(SECRETS + "encryption-config", b""))
    if missing := set(manifest.encryption_keys) - set(ids):
        yield f"the encryption key {', '.join(sorted(missing))} is missing: Secrets in the snapshot could not be read"


def snapshot_fault(path: Path) -> str:
    """What is wrong with an etcd snapshot by its own measure: it ends with the sha256 of everything before it."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size % _PAGE != _SUM or size <= _SUM:
                return "it does not end with the checksum that etcd appends: truncated, or not a snapshot"
            digest, left = sha256(), size - _SUM
            while left and (block := stream.read(min(_BLOCK, left))):
                digest.update(block)
                left -= len(block)
            return "" if stream.read(_SUM) == digest.digest() else "it does not match the checksum that etcd appended"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def describe_file(path: Path) -> Part:
    """Size and sha256 of a file, read from disk."""
    digest, size = sha256(), 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return Part(size=size, sha256=digest.hexdigest())


def partial_path(target: Path, name: str) -> Path:
    """Where a set is put together before it is published."""
    return target / f"{PARTIAL}{name}"


def prepare(target: Path, name: str) -> Path:
    """Makes the directory in which a set is put together, private to this user."""
    path = partial_path(target, name)
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise KubexmError(
            f"{target}: the backup directory cannot be made: {error.strerror}", hint="choose another with --to"
        ) from error
    return path


def write_file(path: Path, content: bytes) -> None:
    """A file of mode 0600, on disk when this returns."""
    temporary = path.with_name(f".{path.name}.part")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def publish(target: Path, name: str) -> Path:
    """Gives a set that is complete its name: from now on it is listed."""
    partial, final = partial_path(target, name), target / name
    for entry in os.scandir(partial):
        _sync(Path(entry.path))
    _sync(partial)
    partial.rename(final)
    _sync(target)
    return final


def remove(path: Path) -> None:
    """Removes a set; one that is half removed is listed no more."""
    gone = path.with_name(f"{_REMOVED}{path.name}")
    try:
        path.rename(gone)
        _sync(path.parent)
        shutil.rmtree(gone)
    except OSError as error:
        raise KubexmError(f"{path}: it cannot be removed: {error.strerror}", hint="check owner and mode") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _small(path: Path, most: int) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(27, "the file is too large")
    return content
