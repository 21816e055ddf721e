"""Where things are inside a bundle, and which names are safe there. Knows nothing of what the things are for.

Everything that reads or writes a bundle's paths goes through `check_path`, so a name that could escape the bundle's
directory, or that a plain ustar header cannot carry, exists nowhere.
"""

from __future__ import annotations

import re

from kubexm.errors import AssetError

__all__ = [
    "ARCHES",
    "BLOBS",
    "FILES",
    "IMAGES",
    "INDEX",
    "MANIFEST",
    "MANIFEST_SUM",
    "META",
    "OCI_LAYOUT",
    "PACKAGES",
    "SIGNATURE",
    "blob_path",
    "check_arch",
    "check_digest",
    "check_path",
    "check_sha256",
    "problem_with_path",
    "ustar_split",
]

MANIFEST = "manifest.json"
MANIFEST_SUM = "manifest.json.sha256"
SIGNATURE = "manifest.json.sig"
META = (MANIFEST, MANIFEST_SUM, SIGNATURE)
"""What describes the bundle and is therefore not described by the manifest; first in every archive, in this order."""

FILES = "files"
IMAGES = "images"
PACKAGES = "packages"
BLOBS = "images/blobs/sha256"
INDEX = "images/index.json"
OCI_LAYOUT = "images/oci-layout"

ARCHES = ("amd64", "arm64", "ppc64le", "riscv64", "s390x")

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~:@=,%^-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def problem_with_path(path: str) -> str:
    """Why this name may not occur in a bundle, or an empty string if it may."""
    if not path:
        return "it is empty"
    if path.startswith("/"):
        return "it is absolute"
    if "\\" in path:
        return "it has a backslash in it"
    parts = path.split("/")
    if any(part in {".", ".."} for part in parts):
        return "it has '.' or '..' in it"
    for part in parts:
        if not _PART.fullmatch(part):
            return f"{part!r} is not a plain name (letters, digits and ._+~:@=,%^- only, not starting with a dot)"
    if ustar_split(path) is None:
        return "it is too long for a tar header"
    return ""


def check_path(path: str) -> str:
    """The path itself if it is safe inside a bundle; AssetError names what is wrong with it otherwise."""
    if problem := problem_with_path(path):
        raise AssetError(
            f"the name {path!r} cannot be in a bundle: {problem}",
            hint="Names in a bundle are relative, stay inside it and use plain characters.",
        )
    return path


def ustar_split(path: str) -> tuple[str, str] | None:
    """The path as ustar's (prefix, name), or None if it does not fit."""
    if len(path) <= 100:
        return "", path
    for at in range(max(0, len(path) - 101), min(155, len(path) - 1) + 1):
        if path[at] == "/" and 0 < at <= 155:
            return path[:at], path[at + 1 :]
    return None


def check_sha256(value: str) -> str:
    """The value itself if it is a sha256 in lower-case hex."""
    if not _SHA256.fullmatch(value):
        raise AssetError(f"{value!r} is not a sha256: 64 lower-case hex digits are expected")
    return value


def check_digest(value: str) -> str:
    """The value itself if it is `sha256:` and a sha256."""
    algorithm, _, digest = value.partition(":")
    if algorithm != "sha256" or not _SHA256.fullmatch(digest):
        raise AssetError(f"{value!r} is not a digest: sha256: and 64 lower-case hex digits are expected")
    return value


def check_arch(value: str) -> str:
    """The value itself if it is an architecture, as Go and Kubernetes name them."""
    if value not in ARCHES:
        raise AssetError(f"{value!r} is not an architecture", hint=f"Known ones are {', '.join(ARCHES)}.")
    return value


def blob_path(digest: str) -> str:
    """The path of an image's blob."""
    return f"{BLOBS}/{check_digest(digest).removeprefix('sha256:')}"
