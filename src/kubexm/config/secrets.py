"""From a secret's source to the secret: the environment, a file, or the person at the terminal."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from kubexm.apis.v1alpha1 import EnvSecret, FileSecret, LiteralSecret, PromptSecret, SecretSource, StoredSecret
from kubexm.errors import ConfigError
from kubexm.redact import Secret

__all__ = ["local_path", "resolve"]

_MOST_BYTES = 2**20


def local_path(path: str, base_dir: Path) -> Path:
    """A path as the file means it: `~` is the home directory, relative paths start at the directory of the file."""
    return base_dir / Path(path).expanduser()


def resolve(
    source: SecretSource,
    *,
    base_dir: Path,
    ask: Callable[[str], str] | None,
    what: str = "a secret",
    environ: Mapping[str, str] | None = None,
) -> Secret:
    """The secret itself. `what` says which one in errors and at the prompt; `ask` is None where nobody can be asked."""
    match source:
        case LiteralSecret(secret=secret):
            return secret
        case EnvSecret(name=name):
            return _from_environment(name, what, os.environ if environ is None else environ)
        case FileSecret(path=path):
            return _from_file(local_path(path, base_dir), what)
        case PromptSecret():
            return _from_person(ask, what)
        case StoredSecret(name=name):
            raise ConfigError(
                f"{what}: secret:{name} names a secret on a kubexm server, and this is not one",
                hint="use `env:NAME`, `file:path` or `prompt` here; `kubexm --server` resolves these for a server",
            )
        case _:
            raise AssertionError(f"a secret of an unknown kind: {type(source).__name__}")


def _from_environment(name: str, what: str, environ: Mapping[str, str]) -> Secret:
    value = environ.get(name)
    if value is None:
        raise ConfigError(
            f"{what}: the environment variable {name} is not set", hint=f"set it: read -rs {name} && export {name}"
        )
    if not value:
        raise ConfigError(f"{what}: the environment variable {name} is empty", hint=f"give {name} a value")
    return Secret(value)


def _from_file(path: Path, what: str) -> Secret:
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise ConfigError(f"{what}: {path} is a directory", hint="name a file")
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(
            f"{what}: there is no file {path}", hint="relative paths start at the directory of cluster.yaml"
        ) from None
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{what}: {path} cannot be read: {reason}") from None
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{what}: {path} is too large for a secret")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{what}: {path} is not UTF-8 text") from None
    # Editors end a file with a newline; a key in a file needs it, a password must not have it.
    value = text if text.startswith("-----BEGIN ") else text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ConfigError(f"{what}: {path} is empty")
    return Secret(value)


def _from_person(ask: Callable[[str], str] | None, what: str) -> Secret:
    if ask is None:
        raise ConfigError(
            f"{what} is to be asked for, but there is no terminal",
            hint="run kubexm in a terminal, or use `env:NAME` or `file:path` instead of `prompt`",
        )
    value = ask(what)
    if not value:
        raise ConfigError(f"{what}: nothing was entered")
    return Secret(value)
