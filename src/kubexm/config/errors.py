"""What is wrong with a file, place by place, and how it is shown. Must not know the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from kubexm.errors import ConfigError

__all__ = ["ConfigErrors", "Problem"]

_WIDTH = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, or doubtful, at one place of a file."""

    file: str
    line: int
    """From 1; 0 if the file could not be read at all."""
    column: int
    """From 1, in characters."""
    path: str
    """Place in the document, such as `spec.hosts[2].address`; empty if it concerns the text itself."""
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"
    excerpt: str = ""
    """The line of the file, with secrets masked."""
    span: tuple[int, int] = (0, 0)
    """First character and length of what is meant within the excerpt."""

    @property
    def place(self) -> str:
        """`cluster.yaml:12:7`."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def render(self) -> str:
        """The problem as a compiler shows it: place, message, line with a caret, hint."""
        where = f"{self.path}: " if self.path else ""
        lines = [f"{self.place}: {self.severity}: {where}{self.message}"]
        margin = " " * max(4, len(str(self.line)))
        if self.excerpt:
            text, start, length = _window(self.excerpt, *self.span)
            lines.append(f"{self.line:>{len(margin)}} | {text}")
            lines.append(f"{margin} | {' ' * start}{'^' * length}")
        if self.hint:
            lines.append(f"{margin} = {self.hint}")
        return "\n".join(_printable(line) for line in lines)

    def as_json(self) -> dict[str, Any]:
        """The problem for programs."""
        return {
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
        }


def _window(text: str, start: int, length: int) -> tuple[str, int, int]:
    """The part of a long line that holds the span."""
    length = max(1, min(length, _WIDTH // 2, max(1, len(text) - start)))
    if len(text) <= _WIDTH:
        return text, start, length
    first = max(0, min(start - _WIDTH // 3, len(text) - _WIDTH))
    head, tail = ("…" if first else ""), ("…" if first + _WIDTH < len(text) else "")
    return f"{head}{text[first : first + _WIDTH]}{tail}", start - first + len(head), length


def _printable(line: str) -> str:
    """No control characters: a file must not be able to steer the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


class ConfigErrors(ConfigError):
    """Everything that is wrong with a file, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem], warnings: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        count = len(self.problems)
        files = ", ".join(dict.fromkeys(problem.file for problem in self.problems))
        summary = f"{files}: {count} {'problem' if count == 1 else 'problems'}"
        super().__init__("\n".join([*(problem.render() for problem in self.problems), summary]))
