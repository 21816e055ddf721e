"""Small values as people write them: durations, sizes, counts, ports. Must not know where they are used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    StrictBool,
    StrictInt,
)
from pydantic_core import CoreSchema, core_schema

from kubexm.apis.v1alpha1.base import TYPE_KEY, invalid, schema, shown

__all__ = [
    "Count",
    "CountOrPercent",
    "Duration",
    "Flag",
    "FreeMapping",
    "FromText",
    "Memory",
    "Port",
    "PortRange",
    "Size",
    "format_duration",
    "format_memory",
    "parse_duration",
    "parse_memory",
    "text_of",
]

Flag = StrictBool
_MOST: Final = 2**31 - 1


def _countable(value: int) -> int:
    if value > _MOST:
        raise invalid(f"must be at most {_MOST}, found a larger number")
    return value


Count = Annotated[StrictInt, Field(ge=0), AfterValidator(_countable)]
Size = Annotated[StrictInt, Field(ge=1), AfterValidator(_countable)]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
FreeMapping = dict[str, Any]


def text_of(value: object, what: str, example: str) -> str:
    """The value if it is text, or an error that says what was expected."""
    if not isinstance(value, str):
        raise invalid(f"expected {what}, found {shown(value)}", f"write it like `{example}`")
    return value


_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_LONGEST: Final = timedelta(days=365 * 200)


def parse_duration(value: object) -> timedelta:
    """A duration such as `10s`, `1h30m`, `500ms` or `365d`."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise invalid(f"a duration needs a unit, found {shown(value)}", f"write `{value}s`, `{value}m` or `{value}h`")
    text = text_of(value, "a duration", "1h30m")
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise invalid(f"{shown(text)} is not a duration", "write it like `10s`, `1h30m` or `8760h`")
    days, hours, minutes, seconds, millis = match.groups(default="0")
    try:
        result = timedelta(
            days=int(days),
            hours=int(hours),
            minutes=int(minutes),
            milliseconds=int(millis),
            microseconds=int(Decimal(seconds) * 1_000_000),
        )
    except (OverflowError, ValueError):
        result = timedelta.max
    if result > _LONGEST:
        raise invalid(f"{shown(text)} is longer than 200 years")
    return result


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads as this duration, in hours, minutes, seconds and milliseconds."""
    micros = value // timedelta(microseconds=1)
    hours, micros = divmod(micros, 3_600_000_000)
    minutes, micros = divmod(micros, 60_000_000)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    seconds, rest = divmod(micros, 1_000_000)
    if rest and (seconds or rest % 1000):
        parts.append(f"{seconds}.{rest:06d}".rstrip("0") + "s")
    else:
        parts += [f"{seconds}s" if seconds else "", f"{rest // 1000}ms" if rest else ""]
    return "".join(parts) or "0s"


def _longer_than_zero(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise invalid("a duration here must be longer than zero")
    return value


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    AfterValidator(_longer_than_zero),
    PlainSerializer(format_duration, return_type=str),
    schema("duration", pattern=r"^(?=.)(\d+d)?(\d+h)?(\d+m)?(\d+(\.\d+)?s)?(\d+ms)?$"),
]

_UNITS: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", re.ASCII)


def parse_memory(value: object) -> int:
    """An amount of bytes such as `1700Mi` or `8Gi`."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise invalid(f"an amount of memory or disk needs a unit, found {shown(value)}", f"write `{value}Mi`")
    text = text_of(value, "an amount of memory or disk", "1700Mi")
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise invalid(f"{shown(text)} is not an amount of memory or disk", "write it like `1700Mi` or `8Gi`")
    amount = int(Decimal(match[1]) * _UNITS[match[2]])
    if amount >= 2**63:
        raise invalid(f"{shown(text)} is more than any machine has", "write it like `1700Mi` or `8Gi`")
    return amount


def format_memory(value: int) -> str:
    """The bytes in the largest unit that divides them."""
    for unit in ("Ti", "Gi", "Mi", "Ki", "k"):
        if value and value % _UNITS[unit] == 0:
            return f"{value // _UNITS[unit]}{unit}"
    return f"{Decimal(value) / 1000}k"


Memory = Annotated[
    int,
    BeforeValidator(parse_memory),
    PlainSerializer(format_memory, return_type=str),
    schema("size", pattern=r"^\d+(\.\d+)?(Ki|Mi|Gi|Ti|k|M|G|T)$"),
]


class FromText:
    """A value written as one scalar: subclasses parse it; `str()` gives the canonical text back."""

    __slots__ = ()
    _schema: ClassVar[dict[str, Any]]

    @classmethod
    def parse(cls, value: object) -> Any:
        """The value of a scalar, or an error that says how to write it."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        parse: Callable[[object], Any] = cls.parse
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else parse(value),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.written),
        )

    def written(self) -> str | int:
        """As it stands in a file."""
        return str(self)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(cls._schema)


@dataclass(frozen=True, slots=True)
class CountOrPercent(FromText):
    """A number of things, or a share of them."""

    value: int
    percent: bool = False
    _schema: ClassVar[dict[str, Any]] = {
        TYPE_KEY: "count or percentage",
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^(100|\d{1,2})%$"},
        ],
    }

    @classmethod
    def parse(cls, value: object) -> CountOrPercent:
        """`3` or `10%`."""
        match value:
            case bool():
                pass
            case int() if 0 <= value <= _MOST:
                return cls(value)
            case str() if re.fullmatch(r"(100|[0-9]{1,2})%", value):
                return cls(int(value[:-1]), percent=True)
        raise invalid(f"expected a count or a percentage, found {shown(value)}", "write it like `2` or `10%`")

    def of(self, total: int) -> int:
        """How many of this total are meant; a share is rounded down, but to no less than one, unless that is all."""
        if not self.percent:
            return min(self.value, total)
        least = 1 if self.value and total > 1 else 0
        return max(total * self.value // 100, least)

    def written(self) -> str | int:
        """A count is a number: as text it could not be read again."""
        return str(self) if self.percent else self.value

    def __str__(self) -> str:
        return f"{self.value}%" if self.percent else str(self.value)


@dataclass(frozen=True, slots=True)
class PortRange(FromText):
    """Ports from first to last, both included."""

    first: int
    last: int
    _schema: ClassVar[dict[str, Any]] = {
        "type": "string",
        TYPE_KEY: "range of ports",
        "pattern": r"^\d{1,5}-\d{1,5}$",
    }

    @classmethod
    def parse(cls, value: object) -> PortRange:
        """`30000-32767`."""
        match = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", text_of(value, "a range of ports", "30000-32767"))
        if match is None:
            raise invalid(f"{shown(value)} is not a range of ports", "write it like `30000-32767`")
        first, last = int(match[1]), int(match[2])
        if not 1 <= first <= last <= 65535:
            raise invalid(f"{shown(value)} is not a range of ports: they rise, from 1 to 65535")
        return cls(first, last)

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"
