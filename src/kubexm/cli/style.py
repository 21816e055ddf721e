"""Colour, where someone can see it. Nothing but escape codes, so that errors can be shown without loading anything."""

from __future__ import annotations

import os
import sys
from typing import TextIO

__all__ = ["Colour", "colours_on", "paint"]

Colour = str
_CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "dim": "2", "bold": "1"}


def colours_on(stream: TextIO | None = None) -> bool:
    """True if this stream is a terminal that shows colours, and nobody asked for none."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def paint(text: str, *colours: Colour, stream: TextIO | None = None) -> str:
    """The text in these colours, if the stream shows any."""
    if not text or not colours_on(stream):
        return text
    return f"\x1b[{';'.join(_CODES[colour] for colour in colours)}m{text}\x1b[0m"
