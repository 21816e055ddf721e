"""Which files and images a cluster needs, where they come from, and bundles that carry them where no network goes."""

from __future__ import annotations

from kubexm.assets.archive import pack
from kubexm.assets.bundle import Bundle
from kubexm.assets.docker_archive import DockerArchive
from kubexm.assets.findings import Finding, Kind
from kubexm.assets.image_archive import ImageArchive
from kubexm.assets.manifest import (
    FORMAT_VERSION,
    Asset,
    Blob,
    Entry,
    FileEntry,
    ImageEntry,
    Manifest,
    PackageEntry,
    PackageSet,
)
from kubexm.assets.names import ROLES
from kubexm.assets.oci import ImageBlobs, OciLayoutImage
from kubexm.assets.reference import ImageReference
from kubexm.assets.rootfs import write_rootfs
from kubexm.assets.selection import SelectedFile, Selection, assets_for
from kubexm.assets.signing import PrivateKey, PublicKey, keygen
from kubexm.assets.verification import Report, verify
from kubexm.assets.writer import BundleWriter

__all__ = [
    "FORMAT_VERSION",
    "ROLES",
    "Asset",
    "Blob",
    "Bundle",
    "BundleWriter",
    "DockerArchive",
    "Entry",
    "FileEntry",
    "Finding",
    "ImageArchive",
    "ImageBlobs",
    "ImageEntry",
    "ImageReference",
    "Kind",
    "Manifest",
    "OciLayoutImage",
    "PackageEntry",
    "PackageSet",
    "PrivateKey",
    "PublicKey",
    "Report",
    "SelectedFile",
    "Selection",
    "assets_for",
    "keygen",
    "pack",
    "verify",
    "write_rootfs",
]
