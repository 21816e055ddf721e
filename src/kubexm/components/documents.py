"""Settings as YAML text, and the user's settings laid over ours. Knows no component.

Kubernetes reads YAML 1.1, where `no`, `on` and `1_0` are not text; what could be taken for something else is quoted
here. Keys keep their order, so that the same settings give the same text, and a diff shows what changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["merged", "rendered", "yaml_stream", "yaml_text"]

_RENDERED: Final[dict[str, str]] = {}
_MOST: Final = 64

_PLAIN: Final = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./+()@*-]|:(?=[^\s])|=|,| (?=[A-Za-z0-9(]))*")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_BLOCK: Final = re.compile(r"[\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]*")
_ODD: Final = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid over it, as a JSON merge patch: mappings go deep, a null removes, all else replaces."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def yaml_text(document: Mapping[str, Any]) -> str:
    """One document, in block style."""
    return "\n".join(_mapping(document, 0)) + "\n" if document else "{}\n"


def yaml_stream(documents: Iterable[Mapping[str, Any]]) -> str:
    """Several documents, `---` between them."""
    whole = list(documents)
    text = "---\n".join(yaml_text(document) for document in whole)
    try:
        _RENDERED[text] = json.dumps(whole)
    except TypeError:
        return text  # what JSON does not have is read from the text
    if len(_RENDERED) > _MOST:
        del _RENDERED[next(iter(_RENDERED))]
    return text


def rendered(text: str) -> list[Any] | None:
    """The documents of a stream made here of late, as new data; None for any other. Reading YAML takes long."""
    known = _RENDERED.get(text)
    return None if known is None else list(json.loads(known, parse_float=_number))


def _number(text: str) -> int | float:
    """As YAML's readers have it: what is whole is an integer."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _mapping(value: Mapping[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    for key, content in value.items():
        name = "  " * depth + _scalar(str(key)) + ":"
        lines += _after(name, content, depth)
    return lines


def _after(head: str, content: Any, depth: int, *, in_list: bool = False) -> list[str]:
    """The lines of a value that follows `key:` or `-`."""
    if isinstance(content, Mapping) and content:
        below = _mapping(content, depth + 1)
        # The first key of an entry of a list stands beside its dash.
        return [f"{head} {below[0].lstrip()}", *below[1:]] if in_list else [head, *below]
    if isinstance(content, Sequence) and not isinstance(content, str) and content:
        inner = depth + 1 if in_list else depth
        dash = "  " * inner + "-"
        return [head, *(line for item in content for line in _after(dash, item, inner, in_list=True))]
    if isinstance(content, str) and _is_block(content):
        body = content.rstrip("\n")
        kept = len(content) - len(body)
        mark = "|" if kept == 1 else "|-" if kept == 0 else "|+"
        lines = [f"{'  ' * (depth + 1)}{line}" if line else "" for line in body.split("\n")]
        return [f"{head} {mark}", *lines, *([""] * (kept - 1))]
    return [f"{head} {_scalar(content)}"]


def _is_block(text: str) -> bool:
    """True for text of several lines that can stand as it is."""
    return "\n" in text.rstrip("\n") and text[0] not in " \n" and _BLOCK.fullmatch(text) is not None


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return json.dumps(value)
        case str():
            plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
            return value if plain else _quoted(value)
        case Mapping():
            return "{}"
        case Sequence():
            return "[]"
    raise TypeError(f"{type(value).__name__} is no value of YAML")


def _quoted(text: str) -> str:
    """As JSON has it, which is good YAML but for characters that YAML does not let stand."""
    return _ODD.sub(lambda found: f"\\U{ord(found[0]):08x}", json.dumps(text, ensure_ascii=False))
