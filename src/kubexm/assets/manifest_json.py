"""manifest.json as a document: to and from plain JSON values, with every problem named by its place.

Strict on purpose: a key nobody knows, a key given twice or another spelling of the same manifest is an edit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kubexm.assets.manifest import (
    FORMAT_VERSION,
    Blob,
    FileEntry,
    ImageEntry,
    LayoutFile,
    Manifest,
    PackageEntry,
    PackageSet,
)
from kubexm.errors import AssetError

__all__ = ["KIND", "MAX_MANIFEST", "FormatUnsupported", "decode", "encode"]

KIND = "kubexm-bundle"
MAX_MANIFEST = 64 * 1024 * 1024


class FormatUnsupported(AssetError):
    """A bundle in a format this kubexm does not know."""

    def __init__(self, version: object, where: str) -> None:
        super().__init__(
            f"{where} has format version {version!r}; this kubexm reads version {FORMAT_VERSION}",
            hint="Use the kubexm that made it or a newer one, or create the bundle again.",
        )
        self.version = version


_ASSET: dict[str, type] = {
    "name": str,
    "component": str,
    "version": str,
    "roles": list,
    "origin": str,
    "licence": str,
    "kubernetes": list,
}
_BYTES: dict[str, type] = {"path": str, "size": int, "sha256": str}
_FILE: dict[str, type] = _ASSET | _BYTES
_IMAGE: dict[str, type] = _ASSET | {"reference": str, "digest": str, "blobs": list}
_PACKAGE: dict[str, type] = {"name": str, "version": str, "roles": list, "origin": str, "licence": str} | _BYTES
_BLOB: dict[str, type] = {"digest": str, "size": int}
_TOP: dict[str, type] = {
    "formatVersion": int,
    "kind": str,
    "kubernetes": list,
    "architecture": str,
    "files": list,
    "images": list,
    "blobs": list,
    "layout": list,
    "packages": dict,
}
_KINDS = {str: "text", int: "a whole number", list: "a list of text", dict: "an object"}

_T = TypeVar("_T")


def encode(manifest: Manifest) -> dict[str, object]:
    """The manifest as plain JSON values."""
    return {
        "formatVersion": FORMAT_VERSION,
        "kind": KIND,
        "kubernetes": list(manifest.kubernetes),
        "architecture": manifest.arch,
        "files": [_encode(file, _FILE) for file in manifest.files],
        "images": [_encode(image, _IMAGE) for image in manifest.images],
        "blobs": [_encode(blob, _BLOB) for blob in manifest.blobs],
        "layout": [_encode(file, _BYTES) for file in manifest.layout],
        "packages": {
            group.target: {
                "requested": list(group.requested),
                "packages": [_encode(package, _PACKAGE) for package in group.packages],
            }
            for group in manifest.packages
        },
    }


def _encode(value: object, fields: dict[str, type]) -> dict[str, object]:
    found = {field: getattr(value, field) for field in fields}
    return {field: list(item) if isinstance(item, tuple) else item for field, item in found.items()}


def decode(data: bytes, *, where: str) -> Manifest:
    """The manifest these bytes are; one AssetError names every problem."""
    document = _parse(data, where)
    _check_format(document, where)
    reader = _Reader()
    top = reader.fields(document, _TOP, "")
    manifest: Manifest | None = None
    if top is not None:
        manifest = _decode_top(reader, top)
    if reader.problems or manifest is None:
        raise AssetError(
            f"{where} is not a valid manifest:\n" + "\n".join(f"  {problem}" for problem in reader.problems),
            hint="It was edited or damaged. Take the bundle from where it came from once more.",
        )
    if manifest.to_json() != data:
        raise AssetError(
            f"{where} was edited: it is not in the form kubexm writes",
            hint="Take the bundle from where it came from once more.",
        )
    return manifest


def _decode_top(reader: _Reader, top: dict[str, Any]) -> Manifest | None:
    files = reader.items(top["files"], _FILE, FileEntry, "files")
    images = reader.items(top["images"], _IMAGE, ImageEntry, "images")
    blobs = reader.items(top["blobs"], _BLOB, Blob, "blobs")
    layout = reader.items(top["layout"], _BYTES, LayoutFile, "layout")
    groups: list[PackageSet] = []
    for target, value in top["packages"].items():
        place = f"packages.{target}"
        group = reader.fields(value, {"requested": list, "packages": list}, place)
        if group is None:
            continue
        packages = reader.items(group["packages"], _PACKAGE, PackageEntry, f"{place}.packages")
        requested = reader.texts(group["requested"], f"{place}.requested")
        made = reader.make(partial(PackageSet, target=target, requested=requested, packages=packages), place)
        if made is not None:
            groups.append(made)
    kubernetes = reader.texts(top["kubernetes"], "kubernetes")
    if reader.problems:
        return None
    return reader.make(
        lambda: Manifest(
            kubernetes=kubernetes,
            arch=top["architecture"],
            files=files,
            images=images,
            blobs=blobs,
            layout=layout,
            packages=tuple(groups),
        ),
        "",
    )


def _parse(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > MAX_MANIFEST:
        raise AssetError(f"{where} is larger than any real manifest ({len(data)} bytes)")
    try:
        document = json.loads(data.decode(), object_pairs_hook=_no_twins)
    except UnicodeDecodeError as error:
        raise AssetError(f"{where} is damaged: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise AssetError(f"{where}, line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise AssetError(f"{where} is damaged: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise AssetError(f"{where} does not describe a kubexm bundle", hint=f"`kind` is {KIND!r} in one that does.")
    return document


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is given twice")
        found[key] = value
    return found


def _check_format(document: dict[str, Any], where: str) -> None:
    version = document.get("formatVersion")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise FormatUnsupported(version, where)


class _Reader:
    """Turns JSON values into entries and gathers what is wrong on the way."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def fields(self, value: object, wanted: dict[str, type], place: str) -> dict[str, Any] | None:
        """The object if it has exactly the wanted keys with values of the wanted types."""
        prefix = f"{place}." if place else ""
        if not isinstance(value, dict):
            self.problems.append(f"{place or 'the document'}: an object is expected")
            return None
        before = len(self.problems)
        self.problems += [f"{prefix}{key}: unknown key" for key in sorted(set(value) - set(wanted))]
        for key, kind in wanted.items():
            if key not in value:
                self.problems.append(f"{prefix}{key}: is missing")
            elif not isinstance(value[key], kind) or isinstance(value[key], bool):
                self.problems.append(f"{prefix}{key}: {_KINDS[kind]} is expected, not {value[key]!r:.60}")
        return value if len(self.problems) == before else None

    def texts(self, values: list[object], place: str) -> tuple[str, ...]:
        """The list if it is one of texts."""
        found = [value for value in values if isinstance(value, str)]
        if len(found) != len(values):
            self.problems.append(f"{place}: a list of text is expected")
        return tuple(found)

    def items(
        self, values: list[object], fields: dict[str, type], make: Callable[..., _T], place: str
    ) -> tuple[_T, ...]:
        """Each object of the list, made into an entry."""
        made: list[_T] = []
        for number, value in enumerate(values):
            at = f"{place}[{number}]"
            item = self.fields(value, fields, at)
            if item is None:
                continue
            if isinstance(item.get("path"), str):
                at = f"{at} ({item['path']})"
            ready = {
                key: self.texts(item[key], f"{at}.{key}") if kind is list else item[key] for key, kind in fields.items()
            }
            entry = self.make(partial(make, **ready), at)
            if entry is not None:
                made.append(entry)
        return tuple(made)

    def make(self, make: Callable[[], _T], place: str) -> _T | None:
        """What `make` makes, or None and a problem."""
        try:
            return make()
        except AssetError as error:
            self.problems.append(f"{place}: {error.message}" if place else error.message)
            return None
