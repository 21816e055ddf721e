"""Numbers and times as people say them."""

from __future__ import annotations

import time

__all__ = ["clock", "count", "duration", "moment"]


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def clock(seconds: float) -> str:
    """`1:05`, `1:02:03`: for what changes while one looks."""
    whole = max(int(seconds), 0)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 host`, `1,000 hosts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def moment(when: float | None) -> str:
    """A point in time, as it was here."""
    return "" if when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
