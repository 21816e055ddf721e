"""Texts as every database takes them: no NUL, which PostgreSQL refuses, and valid Unicode. And JSON in columns."""

from __future__ import annotations

from typing import Any

import orjson

__all__ = ["clean", "from_json", "to_json"]


def clean(text: str) -> str:
    """The text with whatever cannot be kept replaced."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "replace").decode()
    return text


def to_json(data: Any) -> str:
    """Compact JSON that every database keeps."""
    try:
        return orjson.dumps(data).decode()
    except TypeError:  # text that is not valid Unicode, from somebody's file name
        return orjson.dumps(_cleaned(data)).decode()


def from_json(text: str) -> Any:
    """What `to_json` wrote."""
    return orjson.loads(text)


def _cleaned(data: Any) -> Any:
    match data:
        case str():
            return clean(data)
        case dict():
            return {clean(str(key)): _cleaned(value) for key, value in data.items()}
        case list() | tuple():
            return [_cleaned(value) for value in data]
    return data
