"""Files of this machine that addons are made of: found and summed up when planning, read again when they are needed.

Their contents are never part of a plan, since they may hold secrets; what they were is, so that a plan is carried out
with the very files it was made from, or not at all.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import AssetError, PlanError
from kubexm.runtime import LocalFile, verified

__all__ = [
    "SourceFile",
    "chart_digest",
    "local_files",
    "manifest_files",
    "read_chart",
    "read_source",
    "read_text",
    "source_file",
]

_YAML = (".yaml", ".yml", ".json")
_CHART_IGNORED = (".git", ".helmignore")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of this machine, as it was when the plan was made."""

    path: str
    sha256: str


def manifest_files(paths: Iterable[str], addon: str) -> tuple[SourceFile, ...]:
    """The manifests that these paths mean: files as they are, of directories the YAML and JSON in them, by name."""
    found: list[SourceFile] = []
    for written in paths:
        path = Path(written)
        if not path.is_dir():
            found.append(source_file(written, f"addons, {addon}"))
            continue
        files = sorted(one for one in path.rglob("*") if one.suffix in _YAML and one.is_file())
        if not files:
            raise PlanError(
                f"addons, {addon}: there are no manifests in {path}",
                hint=f"manifests are files that end in {', '.join(_YAML)}",
            )
        found += [source_file(str(one), f"addons, {addon}") for one in files]
    return tuple(found)


def source_file(path: str, place: str) -> SourceFile:
    """A file and what it is now; PlanError if it cannot be read."""
    try:
        return SourceFile(path, hashlib.sha256(Path(path).read_bytes()).hexdigest())
    except OSError as error:
        raise PlanError(
            f"{place}: {path} cannot be read: {error.strerror}",
            hint="paths in the file count from the directory the file is in",
        ) from error


def read_source(source: SourceFile, found: Callable[[str, str], Path] = verified) -> bytes:
    """The file's content; AssetError if it is not what it was. Steps find it through `StepContext.source`."""
    return found(source.path, source.sha256).read_bytes()


def read_text(sources: Iterable[SourceFile], found: Callable[[str, str], Path] = verified) -> str:
    """Several manifests as one stream of documents."""
    texts = []
    for source in sources:
        try:
            texts.append(read_source(source, found).decode())
        except UnicodeDecodeError as error:
            raise AssetError(f"{source.path} is no text", hint="manifests are YAML or JSON in UTF-8") from error
    return "\n---\n".join(texts)


def local_files(sources: Iterable[SourceFile]) -> tuple[LocalFile, ...]:
    """The same, as steps declare what they read."""
    return tuple(LocalFile(source.path, source.sha256) for source in sources)


def chart_digest(path: str, place: str) -> str:
    """What a chart is now; PlanError if there is none."""
    chart = Path(path)
    if chart.is_dir() and not (chart / "Chart.yaml").is_file():
        raise PlanError(f"{place}: {path} is no chart: it has no Chart.yaml", hint="name the directory that has it")
    if not chart.is_dir():
        return source_file(path, place).sha256
    return hashlib.sha256(_packed(chart)).hexdigest()


def read_chart(path: str, sha256: str, found: Callable[[str, str], Path] = verified) -> bytes:
    """A chart as one packed file; AssetError if it is not what it was."""
    chart = Path(path)
    if not chart.is_dir():
        return read_source(SourceFile(path, sha256), found)
    content = _packed(chart)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise AssetError(f"the chart in {path} changed since this was planned", hint="plan again: run `create` anew")
    return content


def _packed(directory: Path) -> bytes:
    """The directory as helm packs it, the same bytes each time."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for path in sorted(directory.rglob("*")):
            inside = path.relative_to(directory)
            if not path.is_file() or inside.parts[0] in _CHART_IGNORED:
                continue
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"{directory.name}/{inside.as_posix()}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)
