"""Puts a finished bundle where the user wants it: a copy of the directory, or one file. All of it or nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

from kubexm.assets.archive import pack
from kubexm.assets.disk import remove_tree, write_errors
from kubexm.assets.layout import MANIFEST
from kubexm.errors import LabError

__all__ = ["copy_bundle", "pack_bundle"]


def pack_bundle(bundle: Path, target: Path) -> Path:
    """Packs the bundle into one file, replacing an older one."""
    if target.is_dir():
        raise LabError(f"{target} is a directory", hint="Name a file, or leave .tar.zst off to get a directory.")
    pack(bundle, target)
    return target


def copy_bundle(bundle: Path, target: Path) -> Path:
    """Copies the bundle to a directory that is not there, is empty, or holds an older bundle, which it replaces."""
    if target.exists() and not target.is_dir():
        raise LabError(f"{target} is there and is no directory", hint="Name another place.")
    if target.is_dir() and any(target.iterdir()):
        if not (target / MANIFEST).is_file():
            raise LabError(f"{target} is not empty and holds no bundle", hint="Name another place, or empty it first.")
        if (target / MANIFEST).read_bytes() == (bundle / MANIFEST).read_bytes() and _same_files(bundle, target):
            return target
    staging = target.with_name(f".{target.name}.partial")
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_tree(staging)
        try:
            shutil.copytree(bundle, staging)
            remove_tree(target)
            staging.rename(target)
        finally:
            remove_tree(staging)
    return target


def _same_files(one: Path, other: Path) -> bool:
    return _sizes(one) == _sizes(other)


def _sizes(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_size for path in directory.rglob("*") if path.is_file()}
