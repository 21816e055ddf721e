"""Version facts, as data: what belongs to which Kubernetes version, and where upstream publishes it."""

from __future__ import annotations

from kubexm.assets.catalog.load import KUBERNETES, features, minors, newest, packages, release
from kubexm.assets.catalog.model import FileAsset, ImageAsset, Install, Release, WantedPackage

__all__ = [
    "KUBERNETES",
    "FileAsset",
    "ImageAsset",
    "Install",
    "Release",
    "WantedPackage",
    "features",
    "minors",
    "newest",
    "packages",
    "release",
]
