"""A YAML text as plain data, with the place of everything in it. Must not know the model.

The data is built here from YAML's nodes, not by a constructor, so that duplicate keys, unknown tags and oversized
aliases are all reported at once with their places, and nothing in a file can make an object.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from kubexm.config.syntax import explain

__all__ = ["Complaint", "Document", "Path", "Place", "read"]

Path = tuple[str | int, ...]
MOST_VALUES: Final = 100_000
DEEPEST: Final = 60
_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset({"true", "yes", "on", "y"})
_FALSE: Final = frozenset({"false", "no", "off", "n"})
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands, from 1, and how long it is on its line."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something wrong with the text itself."""

    place: Place
    path: Path
    message: str
    hint: str = ""


@dataclass(slots=True)
class Document:
    """Plain data, and where each part of it is written."""

    data: Any = None
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    raw: dict[Path, str] = field(default_factory=dict)
    """The text of scalars that are not text, as written: `1.30`."""
    scalars: list[tuple[Path, str, tuple[int, int, int, int]]] = field(default_factory=list)
    """Path, text and span (line, column, end line, end column; from 0) of every scalar, duplicates included."""
    complaints: list[Complaint] = field(default_factory=list)

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Where the path is written, or the nearest part of it that is."""
        for end in range(len(path), -1, -1):
            part = path[:end]
            first, second = (self.keys, self.values) if key or end < len(path) else (self.values, self.keys)
            place = first.get(part) or second.get(part)
            if place is not None:
                return place
        return Place(1, 1)

    def has(self, path: Path) -> bool:
        """Whether the path is written in the file."""
        return path in self.values


def read(text: str) -> Document:
    """The document in a text; what is wrong with the text is in its complaints."""
    document = Document()
    try:
        root = _compose(text)
    except RecursionError:
        document.complaints.append(
            Complaint(Place(1, 1), (), "the values are nested too deeply", f"at most {DEEPEST} levels")
        )
        return document
    except MarkedYAMLError as error:
        document.complaints += [
            Complaint(Place(*place), (), message, hint) for place, message, hint in explain(error, text)
        ]
        return document
    except ReaderError as error:
        document.complaints.append(_unreadable(error, text))
        return document
    except YAMLError as error:
        document.complaints.append(Complaint(Place(1, 1), (), f"this is not YAML: {error}"))
        return document
    if root is not None:
        document.data = _Builder(document, text).build(root)
    return document


def _compose(text: str) -> Node | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReusedAnchorWarning)
        compose: Callable[[str], Node | None] = YAML(typ="safe", pure=True).compose
        return compose(text)


def _unreadable(error: ReaderError, text: str) -> Complaint:
    offset = int(error.position) if isinstance(error.position, int) else 0
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
    code = ord(text[offset]) if offset < len(text) else 0
    return Complaint(Place(line, column), (), f"the character U+{code:04X} is not allowed in YAML", "remove it")


class _TooLarge(Exception):
    """The data has more values than any real file."""


class _Builder:
    """Walks the nodes of one document."""

    def __init__(self, document: Document, text: str) -> None:
        self._document = document
        self._lines = text.splitlines()
        self._count = 0
        self._open: set[int] = set()
        self._seen: set[int] = set()

    def build(self, root: Node) -> Any:
        """The data of the whole document."""
        try:
            return self._value(root, (), self._at(root))
        except _TooLarge:
            self._complain(
                self._at(root),
                (),
                "the anchors and aliases of this file grow into too much data",
                f"at most {MOST_VALUES} values",
            )
            return None

    def _complain(self, place: Place, path: Path, message: str, hint: str = "") -> None:
        self._document.complaints.append(Complaint(place, path, message, hint))

    def _at(self, node: Node) -> Place:
        start, end = node.start_mark, node.end_mark
        if isinstance(node, ScalarNode) and start.line == end.line:
            length = end.column - start.column
        elif isinstance(node, ScalarNode) and start.line < len(self._lines):
            length = len(self._lines[start.line]) - start.column
        else:
            length = 1
        return Place(start.line + 1, start.column + 1, max(1, length))

    def _value(self, node: Node, path: Path, fallback: Place) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _TooLarge
        again = id(node) in self._seen
        self._seen.add(id(node))
        # An alias has no place of its own: show where it is used, not where its anchor stands.
        # A list or mapping under a key is best shown by its key.
        under_key = bool(path) and isinstance(path[-1], str)
        container = not isinstance(node, ScalarNode) and under_key
        # A key with nothing behind it has its value, for YAML, where the next thing begins.
        nothing = isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index and under_key
        place = fallback if again or container or nothing else self._at(node)
        self._document.values[path] = place
        if id(node) in self._open:
            self._complain(place, path, "this alias contains itself", "remove it")
            return None
        if len(path) > DEEPEST:
            self._complain(place, path, "the values are nested too deeply", f"at most {DEEPEST} levels")
            return None
        self._open.add(id(node))
        try:
            match node:
                case ScalarNode():
                    return self._scalar(node, path, place)
                case SequenceNode():
                    self._check_tag(node, path, place, "seq")
                    return [self._value(item, (*path, index), place) for index, item in enumerate(node.value)]
                case MappingNode():
                    self._check_tag(node, path, place, "map")
                    return self._mapping(node, path)
                case _:
                    raise AssertionError(f"a node of an unknown kind: {node!r}")
        finally:
            self._open.discard(id(node))

    def _check_tag(self, node: Node, path: Path, place: Place, kind: str) -> None:
        if node.tag != _TAG + kind:
            self._complain(
                place, path, f"the tag `{str(node.tag).replace(_TAG, '!!')}` is not supported", "remove the tag"
            )

    def _scalar(self, node: ScalarNode, path: Path, place: Place) -> Any:
        text = self._text(node, place, path)
        start, end = node.start_mark, node.end_mark
        self._document.scalars.append((path, text, (start.line, start.column, end.line, end.column)))
        kind = str(node.tag).removeprefix(_TAG)
        if kind not in {"str", "timestamp"}:
            self._document.raw[path] = text
        match kind:
            case "str" | "timestamp":
                return text
            case "null" if text.lower() in {"", "~", "null"}:
                return None
            case "bool" if text.lower() in _TRUE | _FALSE:
                return text.lower() in _TRUE
            case "int" | "float":
                try:
                    return _integer(text) if kind == "int" else _real(text)
                except ValueError:
                    if re.search(r"[0-9]|^[-+_.]*$", text):
                        return text  # what YAML takes for a number and is none, such as `_`
                    self._complain(place, path, f"this is not what its tag `!!{kind}` says", "remove the tag")
                    return text
            case "null" | "bool":
                self._complain(place, path, f"this is not what its tag `!!{kind}` says", "remove the tag")
                return None
            case _:
                self._check_tag(node, path, place, "str")
                return text

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[tuple[Node, Place]] = []
        for key_node, value_node in node.value:
            at = self._at(key_node)
            if key_node.tag == _TAG + "merge":
                merged.append((value_node, at))
                continue
            if not isinstance(key_node, ScalarNode) or (key_node.tag == _TAG + "null"):
                self._complain(at, path, "a key must be text", "write it like `name: value`")
                continue
            key = self._text(key_node, at, path)
            child = (*path, key)
            if key in result:
                first = self._document.keys[child].line
                self._complain(
                    at, child, f"the key `{key}` is given twice; the first is in line {first}", "remove one of them"
                )
                spare = Document()
                self._document.scalars += spare.scalars if self._collect(value_node, child, spare) else []
                continue
            self._document.keys[child] = at
            result[key] = self._value(value_node, child, at)
        for value_node, at in merged:
            self._merge(value_node, path, at, result)
        return result

    def _collect(self, node: Node, path: Path, spare: Document) -> bool:
        """Notes the scalars of a value that is not used, so that secrets among them can be masked."""
        keep, self._document = self._document, spare
        try:
            self._value(node, path, self._at(node))
        finally:
            self._document = keep
        return True

    def _merge(self, node: Node, path: Path, at: Place, result: dict[str, Any]) -> None:
        """`<<: *defaults`: keys that are written win, then earlier mappings over later ones."""
        for source in self._merged(node, path, at, set()):
            for key_node, value_node in source.value:
                if not isinstance(key_node, ScalarNode) or key_node.tag == _TAG + "merge":
                    continue
                key = self._text(key_node, at, path)
                if key not in result:
                    child = (*path, key)
                    self._document.keys[child] = at
                    result[key] = self._value(value_node, child, at)

    def _merged(self, node: Node, path: Path, at: Place, seen: set[int]) -> Iterator[MappingNode]:
        """The mappings that are merged, the most important first; each once, however often it is named."""
        waiting = [node]
        while waiting:
            self._count += 1
            if self._count > MOST_VALUES:
                raise _TooLarge
            source = waiting.pop()
            if isinstance(source, SequenceNode) and id(source) not in seen:
                seen.add(id(source))
                waiting += reversed(source.value)
            elif not isinstance(source, MappingNode | SequenceNode):
                self._complain(at, path, "`<<` merges mappings, and this is none", "write it like `<<: *defaults`")
            elif id(source) in self._open:
                self._complain(at, path, "this alias contains itself", "remove it")
            elif isinstance(source, MappingNode) and id(source) not in seen:
                seen.add(id(source))
                yield source
                waiting += reversed([value for key, value in source.value if key.tag == _TAG + "merge"])

    def _text(self, node: ScalarNode, place: Place, path: Path) -> str:
        """The text of a scalar; what no file can hold is reported."""
        text: str = node.value
        if not _SURROGATES.search(text):
            return text
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # JSON writes some characters as two
        if "\N{REPLACEMENT CHARACTER}" in text:
            self._complain(place, path, "half of a surrogate pair is not a character", r"remove the `\u` escape")
        return text


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    sign, bare = (-1, digits[1:]) if digits.startswith("-") else (1, digits.removeprefix("+"))
    for prefix, base in (("0x", 16), ("0o", 8), ("0b", 2)):
        if bare.startswith(prefix):
            return sign * int(bare[2:], base)
    return sign * int(bare)


def _real(text: str) -> float:
    plain = text.replace("_", "").lower()
    return float(plain.replace(".", "", 1) if plain.endswith((".inf", ".nan")) else plain)
