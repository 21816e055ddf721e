"""Times in cron's form as systemd has them. Pure."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["on_calendar"]

_DAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def on_calendar(schedule: str) -> tuple[str, ...]:
    """The calendar events of five cron fields.

    Where day of month and weekday are both given and neither with a star, either will do for cron; systemd wants both,
    so these are two events.
    """
    fields = schedule.split()
    minute, hour, day, month, weekday = (
        _values(field, low, high) for field, (low, high) in zip(fields, _RANGES, strict=True)
    )
    clock = f"{_listed(hour)}:{_listed(minute)}:00"
    date = f"*-{_listed(month)}-{_listed(day)}"
    if weekday is None:
        return (f"{date} {clock}",)
    names = ",".join(_DAYS[number] for number in sorted(weekday, key=lambda number: number or 7))
    if fields[2].startswith("*") or fields[4].startswith("*"):
        return (f"{names} {date} {clock}",)
    return (f"{date} {clock}", f"{names} *-{_listed(month)}-* {clock}")


def _values(field: str, low: int, high: int) -> tuple[int, ...] | None:
    """The numbers a field stands for; None for all of them."""
    if field == "*":
        return None
    found: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(?:(\*)|(\d+)(?:-(\d+))?)(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f"not a field of a schedule: {field}")
        first = low if match[1] else int(match[2])
        last = high if match[1] or (match[4] and not match[3]) else int(match[3] or first)
        found.update(number % 7 if high == 6 else number for number in range(first, last + 1, int(match[4] or 1)))
    return tuple(sorted(found))


def _listed(numbers: tuple[int, ...] | None) -> str:
    return "*" if numbers is None else ",".join(f"{number:02d}" for number in numbers)
