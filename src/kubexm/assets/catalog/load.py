"""Reads the catalog: what a cluster is made of, in the versions that `releases` lists for each Kubernetes minor."""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from kubexm import releases
from kubexm.assets.catalog.model import FileAsset, ImageAsset, Install, Release, WantedPackage
from kubexm.assets.layout import check_arch, check_path
from kubexm.assets.names import check_roles, kubernetes_minor, sorted_roles, version_key
from kubexm.assets.reference import ImageReference
from kubexm.errors import AssetError

__all__ = ["KUBERNETES", "features", "minors", "newest", "packages", "release"]

KUBERNETES = "kubernetes"
"""The name the release's own version goes by among the versions."""


def minors() -> tuple[str, ...]:
    """The Kubernetes minors the catalog knows, oldest first."""
    return releases.minors()


def newest(minor: str) -> str:
    """The newest patch of a minor that was known when the catalog was written."""
    return str(releases.kubernetes_data(minor)["newest"])


def features() -> tuple[str, ...]:
    """What a cluster may or may not use. An asset with features is needed if the cluster uses one of them."""
    return tuple(_components()["features"])


def release(kubernetes: str, arch: str, *, versions: Mapping[str, str] | None = None) -> Release:
    """All that belongs to a Kubernetes version; `versions` replaces the catalog's choice where it names a component."""
    return _release(kubernetes, arch, tuple(sorted((versions or {}).items())))


@functools.lru_cache(maxsize=64)
def _release(kubernetes: str, arch: str, versions: tuple[tuple[str, str], ...]) -> Release:
    """Asked for once for each host when planning, and the same each time."""
    check_arch(arch)
    chosen = _versions(kubernetes)
    for name, version in versions:
        if name not in chosen:
            near = difflib.get_close_matches(name, chosen, n=1)
            raise AssetError(
                f"the catalog has no component {name!r}",
                hint=f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(sorted(chosen))}.",
            )
        chosen[name] = version
    components = _components()
    return Release(
        kubernetes=kubernetes,
        arch=arch,
        versions=chosen,
        files=tuple(
            _file(item, chosen, arch, kind)
            for kind in ("file", "manifest", "chart")
            for item in components.get(kind, ())
            if item["version"] in chosen
        ),
        images=tuple(_image(item, chosen, arch) for item in components["image"] if item["version"] in chosen),
    )


def packages(manager: str) -> tuple[WantedPackage, ...]:
    """The OS packages hosts need, by the names this package manager (apt, dnf, zypper) knows them by."""
    by_manager: dict[str, dict[str, list[str]]] = _components()["packages"]
    if manager not in by_manager:
        raise AssetError(f"no package names are known for {manager!r}", hint=f"Known are {', '.join(by_manager)}.")
    roles: dict[str, list[str]] = {}
    for role, names in by_manager[manager].items():
        for name in names:
            roles.setdefault(name, []).append(role)
    return tuple(WantedPackage(name=name, roles=sorted_roles(found)) for name, found in sorted(roles.items()))


def _versions(kubernetes: str) -> dict[str, str]:
    data = releases.kubernetes_data(kubernetes_minor(kubernetes))
    chosen: dict[str, str] = {KUBERNETES: kubernetes, **data["versions"]}
    for since in sorted(data.get("since", {}), key=version_key):
        if version_key(kubernetes) >= version_key(since):
            chosen.update(data["since"][since])
    return chosen


@functools.cache
def _parse(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / name).read_text("utf-8"))


def _components() -> dict[str, Any]:
    return _parse("components.toml")


def _fill(template: str, version: str, arch: str, **more: str) -> str:
    return template.format(version=version, number=version.removeprefix("v"), arch=arch, **more)


def _file(item: dict[str, Any], versions: dict[str, str], arch: str, kind: str) -> FileAsset:
    version = versions[item["version"]]
    url = _fill(item.get("url", ""), version, arch)
    sums = _fill(item.get("sums", ""), version, arch, url=url)
    return FileAsset(
        name=item["name"],
        component=item["component"],
        version=version,
        arch=arch,
        path=check_path(_fill(item["path"], version, arch) if "path" in item else url.removeprefix("https://")),
        url=url,
        sums_path=sums.removeprefix("https://"),
        rootfs=str(ImageReference.parse(_fill(item["rootfs"], version, arch))) if "rootfs" in item else "",
        licence=item["licence"],
        roles=check_roles(item["roles"]),
        features=_features(item),
        install=_install(item["name"], item["install"]) if kind == "file" else None,
        kind=kind,
        sha256=str(item.get("sha256", {}).get(version, "")),
        images=tuple(item.get("images", ())),
    )


def _image(item: dict[str, Any], versions: dict[str, str], arch: str) -> ImageAsset:
    version = versions[item["version"]]
    return ImageAsset(
        name=item["name"],
        component=item["component"],
        version=version,
        arch=arch,
        reference=str(ImageReference.parse(_fill(item["reference"], version, arch))),
        licence=item["licence"],
        roles=check_roles(item["roles"]),
        features=_features(item),
    )


def _features(item: dict[str, Any]) -> tuple[str, ...]:
    found = tuple(item.get("features", ()))
    if strange := set(found) - set(features()):
        raise AssetError(f"the catalog's {item['name']} has unknown features: {', '.join(sorted(strange))}")
    return found


def _install(name: str, item: dict[str, Any]) -> Install:
    members = tuple(item.get("members", ()))
    return Install(
        to=PurePosixPath(item["to"]),
        unpack=bool(item.get("unpack", members)),
        strip=int(item.get("strip", 0)),
        members=members,
        program=str(item.get("program", name)),
    )
