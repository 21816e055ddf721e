"""Puts finished artefacts together into a bundle in the cache, once; a sealed one is taken as it is.

A seal notes size and time of every file, so that a warm run need not read a gigabyte to know that nothing changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from kubexm.assets.disk import remove_tree, replacing
from kubexm.assets.locks import FileLock
from kubexm.assets.manifest import FORMAT_VERSION
from kubexm.assets.writer import BundleWriter
from kubexm.lab.bundle.artefacts import Entry, digest_of
from kubexm.lab.bundle.contents import Contents
from kubexm.lab.bundle.debian import fetched_packages
from kubexm.lab.bundle.images import image_source

__all__ = ["assemble", "bundle_name"]

_SEAL = ".seal.json"


def bundle_name(contents: Contents, entries: Mapping[str, Entry]) -> str:
    """What the bundle is called in the cache: what it is for, and a digest of all that is in it."""
    described: list[object] = [FORMAT_VERSION, contents.package_roles, entries[contents.packages.name].content]
    described += [
        [repr(file.asset), file.origin, file.kubernetes, entries[file.artefact.name].content] for file in contents.files
    ]
    described += [
        [repr(item.asset), item.origin, item.kubernetes, entries[item.image.name].content] for item in contents.images
    ]
    return "-".join((*contents.kubernetes, *contents.parts[1:], digest_of(described)[:12]))


def assemble(contents: Contents, entries: Mapping[str, Entry], bundles: Path, say: Callable[[str], None]) -> Path:
    """The bundle's directory, put together now if it is not there or somebody touched it."""
    place = bundles / bundle_name(contents, entries)
    seal = place.with_name(place.name + _SEAL)
    if _sealed(place, seal):
        return place
    lock = FileLock(place.with_name(f".{place.name}.build"))
    if not lock.try_acquire():
        say("another build is putting this bundle together; waiting for that")
        lock.acquire()
    try:
        if not _sealed(place, seal):
            say("putting the bundle together")
            remove_tree(place)
            _write(contents, entries, place)
            with replacing(seal) as out:
                out.write(json.dumps(_seal_of(place)).encode())
    finally:
        lock.release()
    return place


def _write(contents: Contents, entries: Mapping[str, Entry], place: Path) -> None:
    with BundleWriter(place, kubernetes=contents.kubernetes, arch=contents.arch) as writer:
        for file in contents.files:
            entry = entries[file.artefact.name]
            writer.add_file(
                entry.path(file.file),
                path=file.asset.path,
                name=file.asset.name,
                component=file.asset.component,
                version=file.asset.version,
                roles=file.asset.roles,
                origin=file.origin,
                licence=file.asset.licence,
                kubernetes=file.kubernetes,
                sha256=entry.sha256(file.file),
            )
        for item in contents.images:
            writer.add_image(
                image_source(item.image, entries),
                reference=item.asset.reference,
                name=item.asset.name,
                component=item.asset.component,
                version=item.asset.version,
                roles=item.asset.roles,
                origin=item.origin,
                licence=item.asset.licence,
                kubernetes=item.kubernetes,
            )
        debian = entries[contents.packages.name]
        for package in fetched_packages(debian):
            writer.add_package(
                debian.path(package.file),
                target=f"debian-12-{contents.arch}",
                name=package.name,
                version=package.version,
                roles=contents.package_roles,
                origin=f"Debian {contents.packages.release}",
                licence=package.licence,
                requested=package.requested,
                sha256=debian.sha256(package.file),
            )
        writer.finish()


def _seal_of(place: Path) -> dict[str, list[int]]:
    files = sorted(path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): [path.stat().st_size, path.stat().st_mtime_ns] for path in files}


def _sealed(place: Path, seal: Path) -> bool:
    """Whether the bundle is whole and nobody touched it since it was put together."""
    try:
        noted = json.loads(seal.read_bytes())
    except (OSError, ValueError):
        return False
    return place.is_dir() and bool(noted == _seal_of(place))
