"""Where the boxes of a picture go: columns by longest path, one lane for each module, few crossings. Pure numbers.

A lane has as many rows as its fullest column needs. Rows never share a box and a gap, so that long links can run
through the gaps and no link ever passes behind a box it has nothing to do with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubexm.plan.render.picture import Picture

__all__ = ["Placed", "place"]

_SWEEPS = 6
_TALLEST = 6
_Key = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Placed:
    """The grid: (column, row) of each box, and the rows of each lane."""

    cells: dict[str, tuple[int, int]]
    lanes: tuple[tuple[str, int, int], ...]
    """(module, first row, number of rows), from top to bottom."""
    columns: int


def place(picture: Picture) -> Placed:
    """The same picture always gets the same places."""
    return _Layout(picture).place()


class _Layout:
    def __init__(self, picture: Picture) -> None:
        self._order = {box.id: index for index, box in enumerate(picture.boxes)}
        self._group = {box.id: box.group for box in picture.boxes}
        self._up: dict[str, list[str]] = {box.id: [] for box in picture.boxes}
        self._down: dict[str, list[str]] = {box.id: [] for box in picture.boxes}
        for link in picture.links:
            if self._order[link.source] < self._order[link.target]:  # others lead back, and do not shape the picture
                self._up[link.target].append(link.source)
                self._down[link.source].append(link.target)
        self._column = self._columns()
        self._stacks = self._first_stacks()
        self._lanes = self._lane_rows()
        self._row: dict[str, int] = {}

    def place(self) -> Placed:
        self._spread(lambda box: float(self._order[box]))
        for sweep in range(_SWEEPS):
            near = self._up if sweep % 2 == 0 else self._down
            columns = sorted({column for _, column in self._stacks}, reverse=sweep % 2 == 1)
            for column in columns:
                self._settle(column, near)
        cells = {box: (self._column[box], self._row[box]) for box in self._order}
        return Placed(cells, tuple(self._lanes), 1 + max(self._column.values(), default=-1))

    def _columns(self) -> dict[str, int]:
        """The longest path that leads to each box; what waits for nothing stands just before its first follower."""
        column: dict[str, int] = {}
        for box in self._order:
            column[box] = max((column[other] + 1 for other in self._up[box]), default=0)
        for box in reversed(self._order):
            if not self._up[box] and self._down[box]:
                column[box] = min(column[other] for other in self._down[box]) - 1
        self._spread_loners(column)
        return column

    def _spread_loners(self, column: dict[str, int]) -> None:
        """Boxes that wait for nobody and nobody waits for would make one tall stack: they stand in rows instead."""
        loners: dict[str, list[str]] = {}
        for box in self._order:
            if not self._up[box] and not self._down[box]:
                loners.setdefault(self._group[box], []).append(box)
        wide = 1 + max(column.values(), default=0)
        for boxes in loners.values():
            across = max(wide, min(-(-len(boxes) // _TALLEST), _TALLEST))
            if len(boxes) > _TALLEST:
                column.update({box: index % across for index, box in enumerate(boxes)})

    def _first_stacks(self) -> dict[tuple[str, int], list[str]]:
        stacks: dict[tuple[str, int], list[str]] = {}
        for box in self._order:
            stacks.setdefault((self._group[box], self._column[box]), []).append(box)
        return stacks

    def _lane_rows(self) -> list[tuple[str, int, int]]:
        lanes, first = [], 0
        for group in dict.fromkeys(self._group.values()):
            rows = max(len(stack) for (name, _), stack in self._stacks.items() if name == group)
            lanes.append((group, first, rows))
            first += rows
        return lanes

    def _spread(self, key: _Key) -> None:
        for (group, _), stack in self._stacks.items():
            first, _ = self._lane(group)
            for row, box in enumerate(sorted(stack, key=key)):
                self._row[box] = first + row

    def _settle(self, column: int, near: dict[str, list[str]]) -> None:
        """Orders the boxes of one column by where their neighbours are, and moves them towards them."""
        for (group, where), stack in self._stacks.items():
            if where != column:
                continue
            wish = {box: _mean((self._row[other] for other in near[box]), self._row[box]) for box in stack}
            stack.sort(key=lambda box: (wish[box], self._row[box], self._order[box]))
            first, rows = self._lane(group)
            lowest = first
            for index, box in enumerate(stack):
                left_over = len(stack) - index - 1
                self._row[box] = max(lowest, min(round(wish[box]), first + rows - 1 - left_over))
                lowest = self._row[box] + 1

    def _lane(self, group: str) -> tuple[int, int]:
        return next((first, rows) for name, first, rows in self._lanes if name == group)


def _mean(numbers: Iterable[float], otherwise: float) -> float:
    found = list(numbers)
    return sum(found) / len(found) if found else otherwise
