"""Version facts, as data: what belongs to which Kubernetes version, and where upstream publishes it."""

from __future__ import annotations

from kubexm.assets.catalog.load import KUBERNETES, minors, newest, packages, release
from kubexm.assets.catalog.model import FEATURES, FileAsset, ImageAsset, Install, Release, WantedPackage

__all__ = [
    "FEATURES",
    "KUBERNETES",
    "FileAsset",
    "ImageAsset",
    "Install",
    "Release",
    "WantedPackage",
    "minors",
    "newest",
    "packages",
    "release",
]
