"""Secrets, and how they are kept out of everything that is written down. Must not know where they come from."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["MASK", "Redactor", "Secret", "SecretRef"]

MASK = "••••••"
_SHORTEST = 4  # masking shorter strings would garble ordinary output


class Secret:
    """A value that never shows itself: only `reveal()` gives it out."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself; call it only at the point of use."""
        return self._value

    def digest(self, key: bytes) -> str:
        """A keyed digest that tells two secrets apart without telling either."""
        return hmac.new(key, self._value.encode(), hashlib.sha256).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a Secret is never pickled")


@dataclass(frozen=True, slots=True)
class SecretRef:
    """The name of a secret kept in the work directory; safe to plan, journal and print."""

    name: str


class Redactor:
    """Replaces every known secret in a text."""

    __slots__ = ("_values",)

    def __init__(self, secrets: Iterable[str | Secret] = ()) -> None:
        self._values: set[str] = set()
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str | Secret) -> None:
        """Masks this secret, and each of its lines if it has several, from now on."""
        value = secret.reveal() if isinstance(secret, Secret) else secret
        parts = (value, value.strip(), *value.splitlines())
        self._values.update(part for part in parts if len(part) >= _SHORTEST)

    def __call__(self, text: str) -> str:
        spans = sorted(span for value in self._values if value in text for span in _spans(value, text))
        pieces: list[str] = []
        kept = 0
        for start, end in spans:
            if start > kept or not pieces:
                pieces += (text[kept:start], MASK)
            kept = max(kept, end)  # a secret may begin inside another, or right after it: one mask for both
        return "".join((*pieces, text[kept:])) if pieces else text


def _spans(value: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(value)
    while start >= 0:
        yield start, start + len(value)
        start = text.find(value, start + 1)
