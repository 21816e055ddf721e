"""Texts with a form: names, paths, URLs, schedules. Must not know where they are used."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from kubexm.apis.v1alpha1.base import invalid, schema, shown

__all__ = [
    "AbsolutePath",
    "DataDir",
    "Domain",
    "DomainOrEmpty",
    "FilePath",
    "FilePathOrEmpty",
    "Name",
    "Schedule",
    "Text",
    "Url",
    "matching",
]


def matching(pattern: str, what: str, example: str, *, longest: int = 253) -> AfterValidator:
    """A check that the whole text has a form, with an error that shows the form by example."""
    compiled = re.compile(pattern)

    def hint(value: str) -> str:
        near = re.sub(r"[_\s]+", "-", value.strip().lower())
        return f"did you mean `{near}`?" if compiled.fullmatch(near) else f"write it like `{example}`"

    def check(value: str) -> str:
        if len(value) > longest:
            raise invalid(f"{what} has at most {longest} characters, this one has {len(value)}")
        if compiled.fullmatch(value) is None:
            raise invalid(f"{shown(value)} is not {what}", hint(value))
        return value

    return AfterValidator(check)


_LABEL: Final = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"

Text = Annotated[str, Field(min_length=1)]
Name = Annotated[
    str,
    matching(_LABEL, "a name of lower-case letters, digits and `-`", "node-1", longest=63),
    schema("name", pattern=f"^{_LABEL}$", maxLength=63),
]
Domain = Annotated[
    str,
    matching(rf"{_LABEL}(\.{_LABEL})*", "a DNS name", "k8s.example.com"),
    schema("DNS name", pattern=rf"^{_LABEL}(\.{_LABEL})*$", maxLength=253),
]
DomainOrEmpty = Annotated[
    str,
    matching(rf"({_LABEL}(\.{_LABEL})*)?", "a DNS name", "k8s.example.com"),
    schema("DNS name", pattern=rf"^({_LABEL}(\.{_LABEL})*)?$", maxLength=253),
]
AbsolutePath = Annotated[
    str,
    matching(r"/[^\0\n]*", "an absolute path", "/var/lib/etcd", longest=4096),
    schema("absolute path", pattern="^/"),
]
_SHARED: Final = frozenset(
    {"/run/systemd", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin"}
    | {"/var/backups", "/var/cache", "/var/lib", "/var/log", "/var/run"}
)


def _own_directory(value: str) -> str:
    """An absolute path that can belong to one service alone, since delete removes what is in it."""
    path = PurePosixPath(value)
    if ".." in path.parts or not path.is_absolute():
        raise invalid(f"{shown(value)} is not an absolute path", "write it like `/var/lib/etcd`")
    if len(path.parts) < 3 or str(path) in _SHARED or path.parts[1] in {"dev", "proc", "sys", "boot"}:
        raise invalid(f"{shown(value)} is a directory of the system", f"give it one of its own, like `{path}/kubexm`")
    return str(path)


DataDir = Annotated[str, AfterValidator(_own_directory), schema("absolute path", pattern="^/[^/]+/.")]
FilePath = Annotated[
    str,
    matching(r"[^\0\n]+", "a path", "./file.yaml", longest=4096),
    schema("path", minLength=1),
]
FilePathOrEmpty = Annotated[str, matching(r"[^\0\n]*", "a path", "./file.yaml", longest=4096), schema("path")]


_CRON_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("weekday", 0, 7))


def _cron(value: str) -> str:
    """Five fields of numbers, lists, ranges and steps; empty means never."""
    fields = value.split()
    if fields and len(fields) != len(_CRON_FIELDS):
        raise invalid(
            f"a schedule has five fields (minute, hour, day of month, month, weekday), this one has {len(fields)}",
            "write it like `0 3 * * *`",
        )
    for text, (what, low, high) in zip(fields, _CRON_FIELDS, strict=False):
        for part in text.split(","):
            match = re.fullmatch(r"(?:\*|([0-9]{1,2})(?:-([0-9]{1,2}))?)(?:/([0-9]{1,2}))?", part)
            numbers = [int(group) for group in match.groups()[:2] if group] if match else []
            if match is None or numbers != sorted(numbers) or any(not low <= number <= high for number in numbers):
                raise invalid(f"`{part}` is not a {what} of a schedule ({low} to {high})", "write it like `0 3 * * *`")
            if match[3] is not None and int(match[3]) == 0:
                raise invalid(f"`{part}`: a step of a schedule is at least 1")
    if fields and fields[4] == "*":
        first = min(_first_number(part, 1) for part in fields[2].split(","))
        months = {month for part in fields[3].split(",") for month in _numbers(part, 1, 12)}
        if all(first > _LONGEST_MONTHS.get(month, 31) for month in months):
            raise invalid(f"`{value}` never comes: no such month has a day {first}", "write it like `0 3 1 * *`")
    return " ".join(fields)


_LONGEST_MONTHS: Final = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


def _numbers(part: str, low: int, high: int) -> range:
    """The numbers a part of a field of a schedule stands for."""
    span, _, step = part.partition("/")
    first, _, last = span.partition("-")
    if span == "*":
        return range(low, high + 1, int(step or 1))
    return range(int(first), int(last or (high if step else first)) + 1, int(step or 1))


def _first_number(part: str, low: int) -> int:
    return _numbers(part, low, 31)[0]


Schedule = Annotated[str, AfterValidator(_cron), schema("schedule")]


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if "@" in value.partition("://")[2].partition("/")[0]:
        raise invalid("a URL must not hold a user name or a password", "put them under spec.registry.auths")
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(char.isspace() for char in value):
        raise invalid(f"{shown(value)} is not a URL", "write it like `https://mirror.example.com/v2`")
    return value


Url = Annotated[str, AfterValidator(_url), schema("URL", pattern=r"^https?://[^\s/@]+(/\S*)?$")]
