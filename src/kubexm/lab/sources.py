"""Which bundle a lab's cluster installs from. Must not know how bundles are built or read, only what theirs says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import UsageError

__all__ = ["BundleSource", "built_bundle", "named_bundle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSource:
    """A bundle and the Kubernetes versions it says it is for; none where that takes unpacking."""

    path: Path
    kubernetes: tuple[str, ...] = ()


def named_bundle(path: Path) -> BundleSource:
    """The bundle the user names, a directory or an archive."""
    if not path.exists():
        raise UsageError(f"There is no bundle {path}.", hint="Build one with `kubexm lab bundle`.")
    return _read(path) or BundleSource(path=path)


def built_bundle(cache: Path) -> BundleSource | None:
    """The bundle `kubexm lab bundle` finished last on this machine, if any."""
    manifests = sorted((cache / "bundle" / "bundles").glob("*/manifest.json"), key=lambda file: file.stat().st_mtime_ns)
    return next((found for file in reversed(manifests) if (found := _read(file.parent)) is not None), None)


def _read(path: Path) -> BundleSource | None:
    try:
        versions = json.loads((path / "manifest.json").read_text(encoding="utf-8"))["kubernetes"]
        return BundleSource(path=path, kubernetes=tuple(str(version) for version in versions))
    except (OSError, ValueError, KeyError, TypeError):
        return None
