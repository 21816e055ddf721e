"""Secrets of a cluster, kept as files of mode 0600; everything else holds their names and keyed digests."""

from __future__ import annotations

import os
import re
import secrets as random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from kubexm.errors import KubexmError
from kubexm.redact import Redactor, Secret, SecretRef

__all__ = ["SecretStore", "Secrets"]

_WRITERS = 16


class Secrets(Protocol):
    """Where a step finds the secrets it uses, and keeps those it makes."""

    def get(self, ref: SecretRef) -> Secret:
        """The secret of this name."""
        ...

    def __contains__(self, ref: SecretRef) -> bool: ...

    def put_all(self, secrets: Mapping[str, Secret]) -> None:
        """Keeps these secrets, each replacing an older one whole."""
        ...


class SecretStore:
    """Named secrets in a directory. Whatever is put in or taken out is masked in all output from then on."""

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        self._directory = directory
        self._redactor = redactor

    def put(self, name: str, secret: Secret) -> SecretRef:
        """Keeps the secret under this name, replacing an older one whole."""
        path = self._path(name)
        self._write(path, secret.reveal().encode())
        self._redactor.add(secret)
        return SecretRef(name)

    def put_all(self, secrets: Mapping[str, Secret]) -> None:
        """Keeps many at once: a disk that takes its time over each does so for several together."""
        paths = [self._path(name) for name in secrets]
        contents = [secret.reveal().encode() for secret in secrets.values()]
        if len(paths) > 1:
            with ThreadPoolExecutor(max_workers=min(_WRITERS, len(paths))) as pool:
                list(pool.map(self._write, paths, contents))
        else:
            for path, content in zip(paths, contents, strict=True):
                self._write(path, content)
        for secret in secrets.values():
            self._redactor.add(secret)

    def get(self, ref: SecretRef) -> Secret:
        """The secret of this name."""
        try:
            secret = Secret(self._path(ref.name).read_bytes().decode())  # read_text would change line ends
        except FileNotFoundError:
            raise KubexmError(
                f"the secret {ref.name!r} is not in the work directory", hint="run the command that makes it again"
            ) from None
        self._redactor.add(secret)
        return secret

    def __contains__(self, ref: SecretRef) -> bool:
        return self._path(ref.name).exists()

    def names(self) -> list[str]:
        """The names of all secrets that are kept."""
        return sorted(path.name for path in self._directory.iterdir() if not path.name.startswith("."))

    def digest(self, secret: Secret) -> str:
        """A digest that tells secrets apart, keyed with a key of this work directory."""
        path = self._directory / ".digest-key"
        if not path.exists():
            self._write(path, random.token_bytes(32))
        return secret.digest(path.read_bytes())

    def _path(self, name: str) -> Path:
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]*", name) is None:
            raise KubexmError(f"{name!r} is not a name for a secret")
        return self._directory / name

    def _write(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{random.token_hex(4)}")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.rename(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
