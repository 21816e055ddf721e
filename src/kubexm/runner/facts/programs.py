"""Which programs of a cluster a host runs, and in which versions, from what the fact script printed.

A process tells by the path of its program where that is staged by version, else by what the program says of itself; a
container by its image; a static pod's manifest and the link of a staged program say what would be started next.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from kubexm.runner.facts.model import Program, Programs
from kubexm.runner.facts.sections import Sections

__all__ = ["PROGRAMS", "parse_programs"]

PROGRAMS = PurePosixPath("/opt/kubexm/programs")
"""Programs are staged below it: NAME/VERSION/…, with NAME/current and NAME/previous as links to versions."""

_UNITS = {"kubexm-haproxy": "haproxy"}
_CONTAINERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd")
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+)\b")
_ANNOTATION = re.compile(r'"io\.kubernetes\.cri\.([a-z-]+)":\s*"([^"]*)"')
_IMAGE = re.compile(r"^\s*(?:-\s+)?image:\s*[\"']?([^\s\"']+)")


def parse_programs(found: Sections) -> Programs:
    """What runs, what would be started next, and which versions are staged."""
    linked, previous, staged = _staged(found)
    running = [*_processes(found), *_containers(found)]
    known = {program.name for program in running}
    running += [Program(name=name, version=version) for name, version in _asked(found) if name not in known]
    return Programs(
        running=tuple(sorted(set(running), key=lambda one: (one.name, one.version, one.source))),
        active=tuple(sorted((*linked, *_manifests(found)), key=lambda one: (one.name, one.source))),
        previous=previous,
        staged=staged,
    )


def _processes(found: Sections) -> list[Program]:
    programs = []
    for line in found.lines("programs"):
        unit, path, said = [*line.split("\t"), "", ""][:3]
        version = _staged_version(path) or _version_in(said)
        programs.append(
            Program(
                name=_UNITS.get(unit, unit), version=version, source="process", path=path.removesuffix(" (deleted)")
            )
        )
    return programs


def _containers(found: Sections) -> list[Program]:
    """Of the cluster's own pods: containers of other namespaces may be called the same."""
    described: dict[str, dict[str, str]] = {}
    for line in found.lines("containers"):
        path, _, text = line.partition(":")
        if match := _ANNOTATION.search(text):
            described.setdefault(path, {})[match[1]] = match[2]
    return [
        Program(name=one["container-name"], version=_tag(one["image-name"]), source="container", path=one["image-name"])
        for one in described.values()
        if one.get("sandbox-namespace") == "kube-system"
        and one.get("container-name") in _CONTAINERS
        and one.get("image-name")
    ]


def _asked(found: Sections) -> list[tuple[str, str]]:
    """Programs that run only now and then, which say themselves what they are."""
    lines = (line.partition("\t") for line in found.lines("asked"))
    return [(name, version) for name, _, said in lines if (version := _version_in(said))]


def _manifests(found: Sections) -> list[Program]:
    programs = []
    for line in found.lines("manifests"):
        path, _, text = line.partition(":")
        name = PurePosixPath(path).stem
        if name in _CONTAINERS and (match := _IMAGE.match(text)):
            programs.append(Program(name=name, version=_tag(match[1]), source="manifest", path=match[1]))
    return programs


def _staged(found: Sections) -> tuple[list[Program], tuple[str, ...], tuple[str, ...]]:
    linked, previous, staged = [], [], []
    for line in found.lines("staged"):
        path, _, target = line.partition("\t")
        place = PurePosixPath(path)
        name, entry = place.parent.name, place.name
        if entry == "current" and target:
            linked.append(Program(name=name, version=target, source="link", path=str(place.parent / target)))
        elif entry == "previous" and target:
            previous.append(f"{name} {target}")
        elif not target:
            staged.append(f"{name} {entry}")
    return linked, tuple(sorted(previous)), tuple(sorted(staged))


def _staged_version(path: str) -> str:
    place = PurePosixPath(path.removesuffix(" (deleted)"))
    return place.relative_to(PROGRAMS).parts[1] if place.is_relative_to(PROGRAMS) and len(place.parts) > 6 else ""


def _version_in(text: str) -> str:
    match = _VERSION.search(text)
    return f"v{match[1]}" if match else ""


def _tag(image: str) -> str:
    name = image.partition("@")[0].rpartition("/")[2]
    return _version_in(name.partition(":")[2])
