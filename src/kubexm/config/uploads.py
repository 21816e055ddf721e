"""A file made ready for a server: what it takes from this machine is read here, and named there.

Secrets from the environment, files, the terminal or the file itself become `secret:NAME`; paths become names of files
that are uploaded. Nothing else of the text changes, not even the number of a line: what a server says about it fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from kubexm.apis.v1alpha1 import SecretSource
from kubexm.apis.v1alpha1.rules import dotted
from kubexm.apis.v1alpha1.secret import StoredSecret
from kubexm.config.document import Path, read
from kubexm.config.load import Loaded, loads
from kubexm.config.remote import FILE_NAME, refused, walk
from kubexm.config.secrets import local_path, resolve
from kubexm.errors import ConfigError
from kubexm.redact import Secret

__all__ = ["Upload", "upload_of"]

_MOST_BYTES = 8 * 2**20
_ANCHOR = re.compile(r"&\S+\s+")
_RESERVED = "cluster.yaml"
Span = tuple[int, int, int, int]


@dataclass(slots=True)
class Upload:
    """What a server is given for one cluster."""

    name: str
    text: str
    secrets: dict[str, Secret] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    bundles: set[str] = field(default_factory=set)
    """Bundles the file names: too large to be uploaded, so the server must have them."""


def upload_of(loaded: Loaded, ask: Callable[[str], str] | None) -> Upload:
    """The file of a cluster, ready for a server; ConfigErrors with all that cannot be done there, at its line."""
    made = _Rewriting(loaded, ask)
    for place, value, is_path in walk(loaded.cluster, ()):
        if isinstance(value, SecretSource):
            made.secret(place, value)
        elif is_path and value:
            made.path(place, value)
    return made.done()


class _Rewriting:
    def __init__(self, loaded: Loaded, ask: Callable[[str], str] | None) -> None:
        self._loaded = loaded
        self._ask = ask
        self._spans: dict[Path, Span] = {path: span for path, _, span in read(loaded.source.text).scalars}
        self._new: dict[Span, str] = {}
        self._origins: dict[str, FilePath] = {}
        self._upload = Upload(loaded.cluster.name, "")

    def secret(self, place: Path, source: SecretSource) -> None:
        span = self._span(place)
        if isinstance(source, StoredSecret) or span in self._new:
            return
        name = self._free(_name(place), self._upload.secrets)
        base = self._loaded.source.directory
        self._upload.secrets[name] = resolve(source, base_dir=base, ask=self._ask, what=dotted(place))
        self._new[span] = f"secret:{name}"

    def path(self, place: Path, value: str) -> None:
        span = self._span(place)
        if span in self._new:
            return
        if place[-1] == "workDir":  # the server has its own
            self._new[span] = ""
            return
        path = local_path(value, self._loaded.source.directory)
        if place[-1] == "bundle":
            self._upload.bundles.add(path.name)
            self._new[span] = path.name
            return
        if path.exists() or FILE_NAME.fullmatch(value) is None:  # a name alone may be of a file the server has
            self._new[span] = self._file(place, path)

    def _file(self, place: Path, path: FilePath) -> str:
        known = next((name for name, origin in self._origins.items() if origin == path), "")
        if known:
            return known
        what = dotted(place)
        try:
            if path.is_dir():
                raise ConfigError(
                    f"{what}: {path} is a directory, and only files can be sent to a server",
                    hint="name its files one by one; a chart can be packed: helm package",
                )
            with path.open("rb") as stream:
                content = stream.read(_MOST_BYTES + 1)
        except OSError as error:
            hint = "relative paths start at the directory of cluster.yaml"
            raise ConfigError(f"{what}: {path} cannot be read: {error.strerror}", hint=hint) from None
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{what}: {path} is too large for a server", hint=f"at most {_MOST_BYTES // 2**20} MiB")
        plain = _sanitized(path.name)
        taken = plain in self._upload.files or plain == _RESERVED
        name = self._free(f"{_name(place)}.{plain}" if taken else plain, self._upload.files)
        self._upload.files[name] = content
        self._origins[name] = path
        return name

    def _span(self, place: Path) -> Span:
        found = self._spans.get(place)
        if found is None:
            raise ConfigError(
                f"{dotted(place)} cannot be sent to a server: it is not written as one value",
                hint="write it out at its place",
            )
        return found

    @staticmethod
    def _free(name: str, taken: dict[str, Secret] | dict[str, bytes]) -> str:
        number, free = 1, name[:128]
        while free in taken:
            number += 1
            free = f"{name[:120]}.{number}"
        return free

    def done(self) -> Upload:
        source = self._loaded.source
        lines, starts = source.text.splitlines(keepends=True), [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        text = source.text
        for span, new in sorted(self._new.items(), reverse=True):
            begin, end = starts[span[0]] + span[1], starts[min(span[2], len(lines))] + span[3]
            text = text[:begin] + _replaced(text[begin:end], new) + text[end:]
        loads(text, name=source.name, more=[refused])
        self._upload.text = text
        return self._upload


def _replaced(old: str, new: str) -> str:
    """A value in place of another one, with as many lines, and the anchor others may refer to."""
    anchor = _ANCHOR.match(old)
    head, _, last = old.rpartition("\n")
    tail = "\n" * old.count("\n") + (last if head and not last.strip() else "")
    return (anchor[0] if anchor else "") + f'"{new}"' + tail


def _sanitized(name: str) -> str:
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    found = found if FILE_NAME.fullmatch(found[:128]) else f"x{found}"
    return found[:128]


def _name(place: Path) -> str:
    parts = place[1:] if place[:1] == ("spec",) else place
    return _sanitized(".".join(str(part) for part in parts))
