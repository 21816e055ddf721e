"""Short forms of names for people: hosts as ranges, node ids relative to where they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubexm.plan.node import ExecutionNode

__all__ = ["id_parts", "relative", "short_hosts", "shorten"]

_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>[0-9]+)(?P<suffix>[^0-9]*)")
_SHORTEST_RANGE = 3


def short_hosts(hosts: Iterable[str]) -> str:
    """The hosts in their order, three or more with consecutive numbers written as a range: `cp[1:3], edge`."""
    parts: list[str] = []
    run: list[str] = []
    for host in hosts:
        if run and not _follows(run[-1], host):
            parts += _written(run)
            run = []
        run.append(host)
    return ", ".join([*parts, *_written(run)])


def _written(run: list[str]) -> list[str]:
    if len(run) < _SHORTEST_RANGE:
        return run
    first, last = _split(run[0]), _split(run[-1])
    assert first is not None
    assert last is not None
    return [f"{first[0]}[{first[1]}:{last[1]}]{first[2]}"]


def _follows(one: str, other: str) -> bool:
    a, b = _split(one), _split(other)
    if a is None or b is None or (a[0], a[2]) != (b[0], b[2]):
        return False
    padded = a[1].startswith("0") or b[1].startswith("0")
    return int(b[1]) == int(a[1]) + 1 and (len(a[1]) == len(b[1]) or not padded)


def _split(host: str) -> tuple[str, str, str] | None:
    match = _NUMBERED.fullmatch(host)
    return None if match is None else (match["prefix"], match["number"], match["suffix"])


def id_parts(node_id: str) -> tuple[str, str, str]:
    """Module, task and own name of a node. The name of a rolled node keeps its `@host`, dots and all."""
    path, at, batch = node_id.partition("@")
    module, _, rest = path.partition(".")
    task, _, name = rest.rpartition(".")
    return module, task, name + at + batch


def relative(other: str, seen_from: ExecutionNode) -> str:
    """The other node's id without what it shares with this one."""
    module, task, name = id_parts(other)
    own_module, own_task, _ = id_parts(seen_from.id)
    if module != own_module:
        return other
    return name if task == own_task else f"{task}.{name}"


def shorten(text: str, limit: int) -> str:
    """The text on one line, cut to so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
