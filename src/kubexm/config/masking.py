"""Lines of a file as they may be shown: literal secrets masked. Must not know what is wrong with them.

It errs on the side of masking: also keys that are misspelt or only look like secrets are covered.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from kubexm.config.document import Document, Path
from kubexm.redact import MASK

__all__ = ["SourceLines"]

_REFERENCE: Final = re.compile(r"(env|file):\S.*|secret:[\w.-]+|prompt")
_REFERENCE_IN_LINE: Final = re.compile(r"(env:[A-Za-z_]\w*|file:[\w./~-]+|secret:[\w.-]+|prompt)\s*([,}\]#]|$)")
_SUSPICIOUS: Final = re.compile(r"pass|secret|token|credential|private.?key", re.IGNORECASE)
_KEY_IN_LINE: Final = re.compile(r"([\w.-]+)[\"']?\s*:\s*")
_URL_USER: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)")

Span = tuple[int, int, int, int]


class SourceLines:
    """The lines of one file, and what of them may be shown."""

    def __init__(self, text: str, document: Document, secret: frozenset[str], plain: frozenset[str]) -> None:
        self._lines = text.splitlines()
        self._secret = secret
        self._plain = plain
        self._judged: dict[str, bool] = {}
        self._parsed = document.data is not None
        self._spans = [span for path, value, span in document.scalars if self._hidden(path, value)]

    def _hidden(self, path: Path, value: str) -> bool:
        if _REFERENCE.fullmatch(value):
            return False
        keys = [part for part in path if isinstance(part, str)]
        if len(keys) >= 2 and keys[-2] == "auths":
            return True
        return any(self.looks_secret(key) for key in keys)

    def looks_secret(self, key: str) -> bool:
        """Whether values of this key are masked: secret fields, and unknown keys that are like one."""
        if key in self._plain:
            return False
        if key not in self._judged:
            near = _SUSPICIOUS.search(key) or get_close_matches(key, self._secret, 1, 0.75)
            self._judged[key] = key in self._secret or bool(near)
        return self._judged[key]

    def excerpt(self, line: int, column: int, length: int) -> tuple[str, tuple[int, int]]:
        """The line (from 1) as it may be shown, and where (from 0) and how long the span is in it."""
        if not 1 <= line <= len(self._lines):
            return "", (0, 0)
        text = self._lines[line - 1]
        start, end = column - 1, column - 1 + length
        for first, last in sorted(self._hidden_parts(line - 1, text), reverse=True):
            shift = len(MASK) - (last - first)
            text = text[:first] + MASK + text[last:]
            start = start + shift if start >= last else min(start, first) if start > first else start
            end = end + shift if end >= last else min(end, first + len(MASK)) if end > first else end
        return text.replace("\t", " "), (start, max(1, end - start))

    def _hidden_parts(self, line: int, text: str) -> list[tuple[int, int]]:
        parts = [(match.start(), match.end()) for match in _URL_USER.finditer(text)]
        if not self._parsed:
            return self._by_guess(line, text) or parts
        for first_line, first_column, last_line, last_column in self._spans:
            if first_line <= line <= last_line:
                begin = first_column if line == first_line else len(text) - len(text.lstrip())
                end = last_column if line == last_line else len(text)
                if re.match(r"\s+#", text[end:]):
                    end = len(text)  # a comment, or the part of a secret behind a ` #` that was not quoted
                if end > begin and not (line == first_line and text[begin:].strip()[:1] in {"|", ">"}):
                    parts.append((begin, end))
        return _disjoint(parts)

    def _by_guess(self, line: int, text: str) -> list[tuple[int, int]]:
        """For text that is not YAML: what follows a key that looks secret, and blocks under such a key."""
        start = self._secret_in(text)
        if start is not None:
            return [(start, len(text))]
        indent = len(text) - len(text.lstrip())
        for above in range(line - 1, max(-1, line - 200), -1):
            before = self._lines[above]
            if before.strip() and len(before) - len(before.lstrip()) < indent:
                keys = [match[1] for match in _KEY_IN_LINE.finditer(before)]
                secret = bool(keys) and (keys[-1] == "auths" or self.looks_secret(keys[-1]))
                return [(indent, len(text))] if secret and indent < len(text) else []
        return []

    def _secret_in(self, text: str) -> int | None:
        """Where the first value begins that belongs to a secret key and is no reference."""
        for match in _KEY_IN_LINE.finditer(text):
            rest = text[match.end() :]
            secret = match[1] == "auths" or self.looks_secret(match[1])
            if secret and rest.strip() and not _REFERENCE_IN_LINE.match(rest):
                return match.end()
        return None


def _disjoint(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if result and first < result[-1][1]:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result
