"""Plans as SVG, drawn here: no other program is needed, and the same plan gives the same bytes.

Columns from left to right are what must come before what; each module has a lane of its own.
"""

from __future__ import annotations

import unicodedata
from xml.sax.saxutils import escape

from kubexm.plan.render.layout import Placed, place
from kubexm.plan.render.picture import Box, Link, Picture

__all__ = ["to_svg"]

_TITLE, _LINE = 7.3, 6.1  # widths of a character of either font, px
_BOX_HEIGHT, _ROW_GAP = 54, 22
_LANE_TOP, _LANE_BOTTOM, _LANE_GAP = 34, 12, 10
_GUTTER, _MARGIN, _HEAD = 46, 20, 64
_PAD, _NARROWEST = 12, 110

_STYLE = """
  text { font: 10.2px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #4a5262; }
  .head { font-size: 16px; font-weight: 600; fill: #1c2430; }
  .lane-name, .title { font-size: 12.2px; font-weight: 600; fill: #1c2430; }
  .page { fill: #fbfbfd; }
  .lane { fill: #f1f3f7; }
  .box rect { fill: #ffffff; stroke: #8a93a5; }
  .optional rect { stroke-dasharray: 6 3; }
  .on-demand rect { stroke-dasharray: 2 3; }
  .link { fill: none; stroke: #5b6475; stroke-width: 1.3; }
  .same-host { stroke-dasharray: 6 4; }
  .demanded { stroke-dasharray: 1 4; stroke-linecap: round; }
  .tip { fill: #5b6475; }
  .succeeded rect, .added rect { fill: #d7f0dd; stroke: #2e8b57; }
  .satisfied rect { fill: #eef6f0; stroke: #8fb79c; }
  .failed rect, .interrupted rect, .removed rect { fill: #f8d0d0; stroke: #c0392b; stroke-width: 2; }
  .blocked rect, .changed rect { fill: #f7e4c4; stroke: #b7791f; }
  .cancelled rect, .excluded rect { fill: #e9eaee; stroke: #b3b8c4; }
  .link.added { stroke: #2e8b57; }
  .link.removed { stroke: #c0392b; }
  @media (prefers-color-scheme: dark) {
    text { fill: #aab3c2; }
    .head, .lane-name, .title { fill: #eef1f6; }
    .page { fill: #12161d; }
    .lane { fill: #1a2029; }
    .box rect { fill: #232b37; stroke: #6b7688; }
    .link { stroke: #8793a8; }
    .tip { fill: #8793a8; }
    .succeeded rect, .added rect { fill: #1d3b29; stroke: #4fae78; }
    .satisfied rect { fill: #1f2d27; stroke: #5c8a6f; }
    .failed rect, .interrupted rect, .removed rect { fill: #4a1f22; stroke: #e06c60; }
    .blocked rect, .changed rect { fill: #453418; stroke: #d69e3a; }
    .cancelled rect, .excluded rect { fill: #1d222b; stroke: #4a5262; }
  }"""

_DEFS = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'
)


def to_svg(picture: Picture) -> str:
    """A page of its own, light or dark as the reader's screen is."""
    return _Drawing(picture, place(picture)).text()


class _Drawing:
    def __init__(self, picture: Picture, placed: Placed) -> None:
        self._picture = picture
        self._placed = placed
        self._taken = set(placed.cells.values())
        self._place_columns()
        self._place_rows()

    def _place_columns(self) -> None:
        widths = [float(_NARROWEST)] * self._placed.columns
        for box in self._picture.boxes:
            column = self._placed.cells[box.id][0]
            widths[column] = max(widths[column], _box_width(box))
        self._widths = widths
        self._left: list[float] = []
        x = float(_MARGIN + _GUTTER)
        for width in widths:
            self._left.append(x)
            x += width + _GUTTER
        legend = _MARGIN + 520
        head = _MARGIN * 2 + _width(self._picture.title, 9.8) + _width(self._picture.subtitle, _LINE) + 24
        self._page_width = max(x + _MARGIN, legend, head)

    def _place_rows(self) -> None:
        self._top: list[float] = []
        self._lane_boxes: list[tuple[str, float, float]] = []
        y = float(_HEAD)
        for name, _, rows in self._placed.lanes:
            height = _LANE_TOP + rows * _BOX_HEIGHT + (rows - 1) * _ROW_GAP + _LANE_BOTTOM
            self._lane_boxes.append((name, y, height))
            self._top += [y + _LANE_TOP + row * (_BOX_HEIGHT + _ROW_GAP) for row in range(rows)]
            y += height + _LANE_GAP
        self._page_height = y + _MARGIN

    def text(self) -> str:
        width, height = _number(self._page_width), _number(self._page_height)
        size = f'width="{width}" height="{height}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" role="img">',
            f"<title>{_text(self._picture.title)}: {_text(self._picture.subtitle)}</title>",
            f"<style>{_STYLE}\n</style>",
            _DEFS,
            f'<rect class="page" {size}/>',
            *self._head(),
            *self._lanes(),
            *(self._link(link) for link in self._picture.links),
            *(self._box(box) for box in self._picture.boxes),
            "</svg>",
            "",
        ]
        return "\n".join(parts)

    def _head(self) -> list[str]:
        title = self._picture.title
        after = _number(_MARGIN + _width(title, 9.8) + 16)
        return [
            f'<text class="head" x="{_MARGIN}" y="28">{_text(title)}</text>',
            f'<text x="{after}" y="28">{_text(self._picture.subtitle)}</text>',
            *_legend(_MARGIN, 48),
        ]

    def _lanes(self) -> list[str]:
        parts = []
        for name, y, height in self._lane_boxes:
            width = _number(self._page_width - 2 * _MARGIN)
            parts.append(
                f'<rect class="lane" x="{_MARGIN}" y="{_number(y)}" width="{width}" height="{_number(height)}" rx="8"/>'
            )
            parts.append(f'<text class="lane-name" x="{_MARGIN + 12}" y="{_number(y + 20)}">{_text(name)}</text>')
        return parts

    def _box(self, box: Box) -> str:
        column, row = self._placed.cells[box.id]
        x, y, width = self._left[column], self._top[row], self._widths[column]
        classes = " ".join(
            name
            for name, holds in (
                ("box", True),
                ("optional", box.optional),
                ("on-demand", box.on_demand),
                (box.mark, bool(box.mark)),
            )
            if holds
        )
        lines = "".join(
            f'<text x="{_number(x + _PAD)}" y="{_number(y + 33 + 14 * index)}">{_text(line)}</text>'
            for index, line in enumerate(box.lines[:2])
        )
        return (
            f'<g class="{classes}"><title>{_text(box.tooltip)}</title>'
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_BOX_HEIGHT}" rx="6"/>'
            f'<text class="title" x="{_number(x + _PAD)}" y="{_number(y + 18)}">{_text(box.title)}</text>{lines}</g>'
        )

    # Links leave a box on its right and enter on its left. What spans several columns runs in the gap above a row.

    def _link(self, link: Link) -> str:
        (from_column, from_row), (to_column, to_row) = self._placed.cells[link.source], self._placed.cells[link.target]
        x1 = self._left[from_column] + self._widths[from_column]
        y1 = self._top[from_row] + _BOX_HEIGHT / 2
        x2 = self._left[to_column]
        y2 = self._top[to_row] + _BOX_HEIGHT / 2
        if to_column == from_column + 1 or self._clear(from_column, to_column, from_row, to_row):
            path = _curve(x1, y1, x2, y2)
        else:
            channel = self._channel(from_row, to_row)
            enter, leave = x1 + _GUTTER * 0.8, x2 - _GUTTER * 0.8
            path = f"{_curve(x1, y1, enter, channel)}H{_number(leave)}{_bend(leave, channel, x2, y2)}"
        classes = "link" + (" demanded" if link.on_demand else " same-host" if link.same_host else "")
        classes += f" {link.mark}" if link.mark else ""
        return f'<path class="{classes}" marker-end="url(#tip)" d="{path}"/>'

    def _clear(self, from_column: int, to_column: int, from_row: int, to_row: int) -> bool:
        """True if a straight line meets no box."""
        between = range(from_column + 1, to_column)
        return from_row == to_row and to_column > from_column and all((c, to_row) not in self._taken for c in between)

    def _channel(self, from_row: int, to_row: int) -> float:
        """The height at which a long link runs: below the target's row if it comes from below, else above it."""
        if from_row > to_row:
            return self._top[to_row] + _BOX_HEIGHT + _ROW_GAP * 0.4
        return self._top[to_row] - _ROW_GAP * 0.4


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"M{_number(x1)} {_number(y1)}{_bend(x1, y1, x2, y2)}"


def _bend(x1: float, y1: float, x2: float, y2: float) -> str:
    if y1 == y2:
        return f"H{_number(x2)}"
    middle = (x1 + x2) / 2
    return f"C{_number(middle)} {_number(y1)} {_number(middle)} {_number(y2)} {_number(x2)} {_number(y2)}"


def _legend(x: float, y: float) -> list[str]:
    parts = []
    for classes, words in (("", "after all hosts"), ("same-host", "after the same host"), ("demanded", "on demand")):
        names = f"link {classes}".strip()
        parts.append(f'<path class="{names}" marker-end="url(#tip)" d="M{_number(x)} {_number(y - 4)}h34"/>')
        parts.append(f'<text x="{_number(x + 42)}" y="{_number(y)}">{words}</text>')
        x += 42 + _width(words, _LINE) + 22
    return parts


def _box_width(box: Box) -> float:
    lines = [_width(box.title, _TITLE), *(_width(line, _LINE) for line in box.lines)]
    return max(lines) + 2 * _PAD


def _width(text: str, each: float) -> float:
    return sum(2 * each if unicodedata.east_asian_width(char) in "WF" else each for char in text)


def _text(text: str) -> str:
    """Text for XML: escaped, without the characters XML cannot hold."""
    return escape("".join(char for char in text if char in "\t\n" or ord(char) >= 32))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
