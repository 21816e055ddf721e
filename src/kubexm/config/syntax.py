"""YAML's own error messages in plain English. Must not know what the file describes."""

from __future__ import annotations

import re

from ruamel.yaml.error import MarkedYAMLError

__all__ = ["explain"]

Explained = tuple[tuple[int, int], str, str]


def explain(error: MarkedYAMLError, text: str) -> list[Explained]:
    """Places (line and column, from 1), what is wrong, and what to do."""
    problem, context = str(error.problem or ""), str(error.context or "")
    place = _place(error.problem_mark)
    opened = _place(error.context_mark)
    if place[0] > len(text.splitlines()):
        place = opened  # the end of the file is no place to look at
    if "'\\t'" in problem:
        return _tabs(text, place)
    if "another document" in problem:
        return [
            (
                place,
                "a second document begins here; a file holds one cluster",
                "remove it, or put it into a file of its own",
            )
        ]
    if "quoted scalar" in context:
        return [
            (opened, "a quote is opened here and never closed", "close it, or write the quote twice inside the text")
        ]
    if "flow mapping" in context or "flow sequence" in context or "flow node" in context:
        bracket, closing = ("{", "}") if "mapping" in context else ("[", "]")
        line = opened[0]
        if "flow node" in context:
            return [(place, "a list or mapping is not closed", "close every `[` with `]` and every `{` with `}`")]
        return [
            (
                place,
                f"expected `,` or `{closing}` for the `{bracket}` in line {line}",
                "check brackets, commas and quotes",
            )
        ]
    for pattern, message, hint in _TABLE:
        match = re.search(pattern, problem)
        if match:
            return [(place, message.format(*match.groups()), hint)]
    return [(place, problem or context or "this is not YAML", "")]


_TABLE = (
    (
        r"mapping values are not allowed",
        "a `:` is not allowed here",
        "put the text in quotes if the colon belongs to it; else check the indentation",
    ),
    (r"undefined alias '(.*)'", "no anchor is called `{}`", "define it before it is used: `&name`"),
    (
        r"expected <block end>|did not find expected|expected the node content",
        "the line does not fit the lines above it",
        "check its indentation, and whether a key or a `-` is missing",
    ),
    (r"could not find expected ':'", "expected `:` after a key", "write it like `name: value`"),
    (r"found character '(.+)' that cannot start", "a value cannot begin with `{}`", "put it in quotes"),
    (r"incompatible YAML document", "this version of YAML is not supported", "remove the %YAML line"),
)


def _place(mark: object) -> tuple[int, int]:
    line, column = getattr(mark, "line", None), getattr(mark, "column", None)
    return (line + 1, column + 1) if isinstance(line, int) and isinstance(column, int) else (1, 1)


def _tabs(text: str, first: tuple[int, int]) -> list[Explained]:
    """Every line that is indented with a tab, from the one YAML stopped at."""
    found = [
        ((number, line.index("\t") + 1), "a tab is used for indentation", "YAML wants spaces here")
        for number, line in enumerate(text.splitlines(), 1)
        if number >= first[0] and re.match(r" *\t\s*[^\s#]", line)
    ]
    return found or [(first, "a tab cannot stand here", "use spaces")]
