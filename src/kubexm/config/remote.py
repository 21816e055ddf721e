"""What a file may name when it does not come from this machine: uploaded files and stored secrets, nothing else.

Whoever sends a file to a server must not get at the server's own environment, files, keys or processes. `refused` says
what does; `references` and `with_stored` put in place what the file names instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args, get_origin

from pydantic import WithJsonSchema
from pydantic.fields import FieldInfo

from kubexm.apis.v1alpha1 import Cluster, Credentials, Finding, LiteralSecret, Model, SecretSource
from kubexm.apis.v1alpha1.base import TYPE_KEY
from kubexm.apis.v1alpha1.secret import StoredSecret
from kubexm.config.document import Path
from kubexm.config.load import Loaded
from kubexm.errors import ConfigError
from kubexm.redact import Secret

__all__ = ["FILE_NAME", "References", "references", "refused", "walk", "with_stored"]

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_UPLOAD = "upload it, and write its name alone, such as `id_ed25519`"


@dataclass(frozen=True, slots=True)
class References:
    """What a file names that the server must have been given."""

    secrets: frozenset[str]
    files: frozenset[str]


def references(cluster: Cluster) -> References:
    """The stored secrets and uploaded files a cluster names."""
    found = list(walk(cluster, ()))
    secrets = {value.name for _, value, _ in found if isinstance(value, StoredSecret)}
    files = {value for _, value, path in found if path and isinstance(value, str) and value}
    return References(frozenset(secrets), frozenset(name for name in files if FILE_NAME.fullmatch(name)))


def refused(cluster: Cluster) -> Iterator[Finding]:
    """Everything in the file that would reach into the machine that carries it out."""
    for place, value, is_path in walk(cluster, ()):
        if isinstance(value, SecretSource):
            yield from _secret(place, value)
        elif is_path and value and place[-1] == "workDir":
            yield Finding(path=place, message="the server has its own work directory", hint="remove this line")
        elif is_path and value and FILE_NAME.fullmatch(value) is None:
            yield Finding(path=place, message=f"`{value}` is a path on the server", hint=_UPLOAD)
    yield from _hosts(cluster)


def _secret(place: Path, source: SecretSource) -> Iterator[Finding]:
    if isinstance(source, StoredSecret):
        return
    if isinstance(source, LiteralSecret):
        message = "a secret stands in the file itself, where everybody who may see the cluster can read it"
    else:
        message = f"`{source}` would be read on the server"
    yield Finding(
        path=place, message=message, hint="store it as a secret of this cluster, and write `secret:` and its name"
    )


def _hosts(cluster: Cluster) -> Iterator[Finding]:
    """Hosts that would be the server, or be logged in to with what is the server's; each place once."""
    found: dict[tuple[Path, str], Finding] = {}
    for host in cluster.hosts:
        place: Path = ("spec", "hosts", host.entry)
        if host.type == "local":
            finding = Finding(
                path=(*place, "type"),
                message=f"{host.name} would be the server itself",
                hint="a server is no part of a cluster: write `type: ssh` and an address",
            )
            found.setdefault((finding.path, finding.message), finding)
            continue
        bastion: Path = ("spec", "global", "bastion")
        for login, where in ((host.credentials, place), *((jump.credentials, bastion) for jump in host.bastion)):
            for finding in _login(login, where):
                found.setdefault((finding.path, finding.message), finding)
    yield from found.values()


def _login(login: Credentials, place: Path) -> Iterator[Finding]:
    hint = "store a key or a password as a secret: `privateKey: secret:NAME`"
    if not (login.password or login.private_key or login.private_key_path):
        yield Finding(
            path=place,
            also=(("spec", "global"),),
            message=f"there is nothing to log in with as {login.user}: the server's agent and keys are its own",
            hint=hint,
        )
    elif login.agent:
        path = (*place, "agent")
        yield Finding(
            path=path,
            also=(("spec", "global", "agent"), place),
            message="the SSH agent would be the server's",
            hint=hint,
        )


def with_stored(loaded: Loaded, stored: Mapping[str, Secret]) -> Loaded:
    """The same cluster with every stored secret in its place; ConfigError names all that are missing."""
    missing = sorted(references(loaded.cluster).secrets - set(stored))
    if missing:
        raise ConfigError(
            f"{loaded.cluster.name} names secrets that are not stored: {', '.join(missing)}",
            hint="store them, or write others: `kubexm --server` does so by itself",
        )

    def opened(value: SecretSource) -> SecretSource:
        return LiteralSecret(stored[value.name]) if isinstance(value, StoredSecret) else value

    return replace(loaded, cluster=_replaced(loaded.cluster, opened))


# The model, walked

_Found = tuple[Path, Any, bool]


def walk(value: Any, place: Path, is_path: bool = False) -> Iterator[_Found]:
    """Every secret and text with its place, and whether it is a path on the machine kubexm runs on. No defaults."""
    match value:
        case Model():
            for name, info in type(value).model_fields.items():
                inner = getattr(value, name)
                if inner != info.default:
                    yield from walk(inner, (*place, str(info.alias)), _is_path(info))
        case tuple():
            for index, part in enumerate(value):
                yield from walk(part, (*place, index), is_path)
        case dict():
            for key, part in value.items():
                yield from walk(part, (*place, str(key)), is_path)
        case SecretSource() | str():
            yield place, value, is_path


def _is_path(info: FieldInfo) -> bool:
    return any(map(_says_path, info.metadata)) or _annotated_path(info.annotation)


def _annotated_path(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return any(map(_says_path, metadata)) or _annotated_path(inner)
    return any(_annotated_path(inner) for inner in get_args(annotation))


def _says_path(metadata: Any) -> bool:
    return isinstance(metadata, WithJsonSchema) and (metadata.json_schema or {}).get(TYPE_KEY) == "path"


def _replaced(value: Any, change: Callable[[SecretSource], SecretSource]) -> Any:
    match value:
        case SecretSource():
            return change(value)
        case Model():
            old = {name: getattr(value, name) for name in type(value).model_fields}
            new = {name: _replaced(inner, change) for name, inner in old.items()}
            if all(new[name] is inner for name, inner in old.items()):
                return value
            return type(value).model_construct(value.model_fields_set, **new)
        case tuple():
            parts = tuple(_replaced(part, change) for part in value)
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        case dict():
            items = {key: _replaced(part, change) for key, part in value.items()}
            return value if all(items[key] is part for key, part in value.items()) else items
    return value
