"""Where the lab keeps things on this machine. Must not know what is kept there.

Images and downloads live in the cache and may be deleted at any time; a lab's disks, keys and records live in the
state directory and go away with `lab down`.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_directory", "labs_directory", "private_directory"]


def cache_directory() -> Path:
    """KUBEXM_CACHE, else kubexm's folder in the user's cache."""
    return _chosen("KUBEXM_CACHE", "XDG_CACHE_HOME", ".cache")


def labs_directory() -> Path:
    """The folder that holds one folder per lab: below KUBEXM_STATE, else in the user's state folder."""
    return _chosen("KUBEXM_STATE", "XDG_STATE_HOME", ".local/state") / "labs"


def private_directory(path: Path) -> Path:
    """Make the directory and its parents, closed to other users; an existing one is left as it is."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def _chosen(own: str, xdg: str, below_home: str) -> Path:
    if chosen := os.environ.get(own):
        return Path(chosen).expanduser().absolute()
    if base := os.environ.get(xdg):
        return Path(base).absolute() / "kubexm"
    return Path.home() / below_home / "kubexm"
