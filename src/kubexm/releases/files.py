"""Reads the data files of releases. Nothing here names a version."""

from __future__ import annotations

import functools
import re
import tomllib
from datetime import date
from importlib import resources
from typing import Any

from kubexm.errors import AssetError, PlanError

__all__ = [
    "KUBERNETES",
    "default_kubernetes",
    "end_of_life",
    "kubernetes_data",
    "minors",
    "nearest",
    "parse_version",
    "patched",
]

KUBERNETES = "kubernetes"
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+].*)?")


def minors(program: str = KUBERNETES) -> tuple[str, ...]:
    """The minors of a program that there is data for, oldest first."""
    return tuple(_files(program))


def parse_version(text: str, what: str = "version") -> tuple[int, int, int]:
    """Major, minor and patch of `v3.6.5` or `3.6.5-0`."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise PlanError(f"{text!r} is not a {what}", hint="Write all three numbers, like v3.6.5.")
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


def kubernetes_data(minor: str) -> dict[str, Any]:
    """The file of a Kubernetes minor such as `1.34`; AssetError if there is none."""
    files = _files(KUBERNETES)
    if minor not in files:
        raise AssetError(
            f"Kubernetes {minor} is not in the catalog", hint=f"It knows {', '.join(files)}; choose one of these."
        )
    return _parse(KUBERNETES, files[minor])


def default_kubernetes() -> str:
    """What a cluster gets whose file names no version: the newest patch of the second-newest minor."""
    known = minors()
    return str(kubernetes_data(known[-2] if len(known) > 1 else known[-1])["newest"])


def end_of_life(minor: str) -> date:
    """The last day on which upstream supports a Kubernetes minor such as `1.34`."""
    found = kubernetes_data(minor)["end-of-life"]
    assert isinstance(found, date)
    return found


def nearest(program: str, version: str) -> dict[str, Any]:
    """The file that applies to a version: its own minor's, else that of the newest earlier minor of the same major."""
    major, minor, _ = parse_version(version, f"version of {program}")
    files = _files(program)
    earlier = [name for name in files if (known := _numbers(name))[0] == major and known[1] <= minor]
    if not earlier:
        raise PlanError(
            f"{program} {version} is not supported: kubexm knows {program} {', '.join(files)} and later patches",
            hint="Choose another version, or leave it out of the file to use the one that goes with Kubernetes.",
        )
    return _parse(program, files[earlier[-1]])


def patched(data: dict[str, Any], version: str) -> list[dict[str, Any]]:
    """What the file's `since` tables say for this patch, in the order in which they apply."""
    tables: dict[str, dict[str, Any]] = data.get("since", {})
    reached = [since for since in tables if parse_version(since) <= parse_version(version)]
    return [tables[since] for since in sorted(reached, key=parse_version)]


def _numbers(minor: str) -> tuple[int, int]:
    major, _, number = minor.partition(".")
    return int(major), int(number)


@functools.cache
def _files(program: str) -> dict[str, str]:
    names = [entry.name for entry in (resources.files(__package__) / program).iterdir()]
    found = [name[1:].removesuffix(".toml") for name in names if name.startswith("v") and name.endswith(".toml")]
    return {minor: f"v{minor}.toml" for minor in sorted(found, key=_numbers)}


@functools.cache
def _parse(program: str, name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / program / name).read_text("utf-8"))
