"""Secret fields: where a secret comes from, without the secret ever showing. Reading it is config's business."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from kubexm.apis.v1alpha1.base import TYPE_KEY, invalid
from kubexm.apis.v1alpha1.scalars import FromText
from kubexm.redact import MASK, Secret

__all__ = ["EnvSecret", "FileSecret", "LiteralSecret", "PromptSecret", "SecretSource", "StoredSecret"]

_STORED = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"


class SecretSource(FromText):
    """Where a secret is read from: a literal, the environment, a file, the person at the terminal, a server's store."""

    __slots__ = ()
    _schema: ClassVar[dict[str, Any]] = {
        "type": "string",
        TYPE_KEY: "secret",
        "minLength": 1,
        "writeOnly": True,
    }

    @classmethod
    def parse(cls, value: object) -> SecretSource:
        """`env:NAME`, `file:path`, `prompt`, or the secret itself; errors never repeat the value."""
        if not isinstance(value, str):
            raise invalid(
                "expected a secret as text", "write `env:NAME`, `file:path`, `prompt`, or the value in quotes"
            )
        if not value.strip():
            raise invalid("this secret is empty", "remove the field, or write `env:NAME`, `file:path` or `prompt`")
        kind, colon, rest = value.partition(":")
        match kind:
            case "prompt" if not colon:
                return PromptSecret()
            case "env" if colon:
                if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", rest) is None:
                    raise invalid("`env:` needs the name of an environment variable", "write it like `env:OPS_SUDO`")
                return EnvSecret(rest)
            case "file" if colon:
                if not rest.strip() or "\0" in rest:
                    raise invalid("`file:` needs a path", "write it like `file:./secrets/sudo`")
                return FileSecret(rest)
            case "secret" if colon:
                if re.fullmatch(_STORED, rest) is None:
                    raise invalid(
                        "`secret:` needs the name of a secret stored on a kubexm server",
                        "letters, digits, `.`, `_` and `-`, like `secret:ops-sudo`; a literal that begins so can "
                        "stand in a file: `file:path`",
                    )
                return StoredSecret(rest)
            case _:
                return _literal(value)


def _literal(value: str) -> LiteralSecret:
    return LiteralSecret(Secret(value))


@dataclass(frozen=True, slots=True)
class LiteralSecret(SecretSource):
    """A secret that stands in the file itself."""

    secret: Secret

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"LiteralSecret({MASK})"


@dataclass(frozen=True, slots=True)
class EnvSecret(SecretSource):
    """A secret in an environment variable of the control machine."""

    name: str

    def __str__(self) -> str:
        return f"env:{self.name}"


@dataclass(frozen=True, slots=True)
class FileSecret(SecretSource):
    """A secret in a file of the control machine; relative paths start at the directory of cluster.yaml."""

    path: str

    def __str__(self) -> str:
        return f"file:{self.path}"


@dataclass(frozen=True, slots=True)
class PromptSecret(SecretSource):
    """A secret asked for at the terminal, once per run."""

    def __str__(self) -> str:
        return "prompt"


@dataclass(frozen=True, slots=True)
class StoredSecret(SecretSource):
    """A secret that was given to a kubexm server, for a cluster it looks after."""

    name: str

    def __str__(self) -> str:
        return f"secret:{self.name}"
