"""Secrets, and how they are kept out of everything that is written down. Must not know where they come from."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

__all__ = ["MASK", "Redactor", "Secret", "SecretRef", "is_maskable"]

MASK = "••••••"
_SHORTEST = 3  # masking shorter strings would garble ordinary output
_SHORTEST_LINE = 4
_STRONG = 8
_ORDINARY = frozenset(
    (
        *("admin", "administrator", "certificate", "cluster", "control", "controlplane", "default", "demo", "etcd"),
        *("false", "host", "kube", "kubernetes", "localhost", "login", "master", "node", "none", "null", "passwd"),
        *("password", "private", "root", "secret", "server", "ssh", "sudo", "system", "test", "token", "true", "user"),
        *("worker", "alpine", "centos", "debian", "fedora", "rocky", "ubuntu", "vagrant"),
    )
)
"""Words that are everywhere in output: where masks stand in their place, anyone can tell what they hide."""
_INDEXED = 16
_PUBLIC = re.compile(r"-----BEGIN (CERTIFICATE|CERTIFICATE REQUEST|PUBLIC KEY)-----.*?-----END \1-----\s*", re.DOTALL)
_HELD = re.compile(r"^[\s-]*(?:client-key-data|token|password|secret): *(\S+)\s*$", re.MULTILINE)
"""Where kubeconfigs and settings for encryption at rest hold a secret; all else in them every such file has."""


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

    __slots__ = ("_long", "_short")

    def __init__(self, secrets: Iterable[str | Secret] = ()) -> None:
        self._short: dict[str, re.Pattern[str]] = {}
        """With how to find them: weak ones only as words of their own, or they would garble others."""
        self._long: dict[str, set[str]] = {}
        """By how they begin: a cluster of a thousand hosts has thousands of keys, and each text is looked at once."""
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str | Secret) -> None:
        """Masks this secret, and each of its lines if it has several, from now on; what is public in it is not."""
        value = secret.reveal() if isinstance(secret, Secret) else secret
        for part in _confidential(value):
            if len(part) >= _INDEXED:
                self._long.setdefault(part[:_INDEXED], set()).add(part)
            elif len(part) >= (_SHORTEST if part == value.strip() else _SHORTEST_LINE):
                self._short[part] = _finder(part)

    def __call__(self, text: str) -> str:
        short = tuple(self._short.items())  # steps that work in threads of their own may add to it meanwhile
        spans = [span for value, finder in short if value in text for span in _spans(value, finder, text)]
        spans = sorted([*spans, *self._long_spans(text)])
        pieces: list[str] = []
        kept = 0
        for start, end in spans:
            if start > kept or not pieces:
                pieces += (text[kept:start], MASK)
            kept = max(kept, end)  # a secret may begin inside another, or right after it: one mask for both
        return "".join((*pieces, text[kept:])) if pieces else text

    def _long_spans(self, text: str) -> Iterator[tuple[int, int]]:
        known = self._long
        if not known:
            return
        for start in range(len(text) - _INDEXED + 1):
            values = known.get(text[start : start + _INDEXED])
            if values is not None:
                yield from ((start, start + len(value)) for value in values if text.startswith(value, start))


def _confidential(value: str) -> Iterable[str]:
    """What of a secret is to be masked: not the certificates in it, nor the words around keys that every file has."""
    rest = _PUBLIC.sub("", value)
    if not rest.strip():
        return (value, value.strip()) if rest == value else ()
    whole = (value, value.strip())
    if rest.startswith("apiVersion:"):
        return (*whole, *(found.strip("\"'") for found in _HELD.findall(rest)))
    return (*whole, *(line for line in rest.splitlines() if not line.startswith("-----")))


def is_maskable(secret: Secret, names: Collection[str] = ()) -> bool:
    """False if masks cannot hide it: too short, or a word that output is full of, such as one of these names."""
    value = secret.reveal().strip()
    return len(value) >= _SHORTEST and value not in names and value.lower() not in _ORDINARY


def _finder(value: str) -> re.Pattern[str]:
    """Finds a secret; one that is short, or letters only, not within words, host names and the like."""
    weak = len(value) < _STRONG or value.isalpha()
    before = r"(?<![\w-])(?<!\w\.)" if weak and value[0].isalnum() else ""
    after = r"(?![\w-])(?!\.\w)" if weak and value[-1].isalnum() else ""
    return re.compile(f"{before}{re.escape(value)}{after}")


def _spans(value: str, finder: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    found = finder.search(text)
    while found is not None:
        yield found.start(), found.start() + len(value)
        found = finder.search(text, found.start() + 1)
