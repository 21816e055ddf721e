"""A kubeconfig merged into the user's own: what is there of others stays, comments and all, and a copy is kept.

Must not know where the kubeconfig comes from.
"""

from __future__ import annotations

import os
import secrets as random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from kubexm.errors import ConflictError, KubexmError, UsageError

__all__ = ["Merged", "merge_into", "merged", "place", "through"]

_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of it."""

    path: Path
    context: str
    changed: bool
    backup: Path | None
    current: bool
    """True if kubectl uses it from now on."""


def place(environment: Mapping[str, str]) -> Path:
    """The file kubectl would change: of those KUBECONFIG lists the first that is there, else the last."""
    listed = [Path(part).expanduser() for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    if not listed:
        return Path.home() / ".kube" / "config"
    return next((path for path in listed if path.exists()), listed[-1])


def through(kubeconfig: str, host: str) -> str:
    """The kubeconfig with one way to the cluster only, that through this control plane; UsageError if it has none."""
    config = _load(kubeconfig, "the cluster's kubeconfig")
    own = str(config["current-context"])
    ways = {str(entry["name"]).removeprefix(f"{own}-"): entry for entry in config["contexts"][1:]}
    if host not in ways:
        known = f"control planes: {', '.join(ways)}" if ways else "it has one control plane: leave --via out"
        raise UsageError(f"--via: {own} has no control plane {host!r} in its kubeconfig", hint=known)
    chosen = ways[host]
    clusters = [entry for entry in config["clusters"] if entry["name"] == chosen["context"]["cluster"]]
    config["contexts"], config["clusters"], config["current-context"] = [chosen], clusters, chosen["name"]
    return _dump(config)


def merge_into(path: Path, kubeconfig: str, *, name: str = "", use: bool = False, force: bool = False) -> Merged:
    """Merges the kubeconfig into the file, which is whole at any time and only the user's to read afterwards."""
    target = path.resolve()  # the file a link points to, not the link
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(target):
            before = target.read_text("utf-8") if target.exists() else ""
            after, context, current = merged(before, kubeconfig, name=name, use=use, force=force, where=str(path))
            changed = after != before
            backup = _copy(target, before) if changed and before else None
            if changed or target.stat().st_mode & 0o077:
                _write(target, after)
    except OSError as error:
        raise KubexmError(
            f"{path} cannot be changed: {error.strerror}", hint="name another file in KUBECONFIG, or print it instead"
        ) from error
    return Merged(path, context, changed, backup, current)


def merged(
    before: str, kubeconfig: str, *, name: str = "", use: bool = False, force: bool = False, where: str = "kubeconfig"
) -> tuple[str, str, bool]:
    """The user's kubeconfig with this one in it, the name of its context, and whether that is the current one.

    An entry of the same name is replaced if it is of the same cluster; else that is refused, unless forced.
    """
    new = _load(kubeconfig, "the cluster's kubeconfig")
    cluster, user, context = (new[kind][0] for kind in ("clusters", "users", "contexts"))
    if name:
        cluster["name"], user["name"], context["name"] = name, f"{name}-admin", name
    context["context"]["cluster"], context["context"]["user"] = cluster["name"], user["name"]
    old = _load(before, where) if before.strip() else _empty()
    if not force:
        _refuse_strangers(old, cluster, user, context, where)
    unchanged = _plain(old)
    for kind, entry in (("clusters", cluster), ("users", user), ("contexts", context)):
        _put(old, kind, entry)
    if use or not old.get("current-context"):
        old["current-context"] = context["name"]
    current = old["current-context"] == context["name"]
    return before if _plain(old) == unchanged and before.strip() else _dump(old), str(context["name"]), current


def _refuse_strangers(old: Any, cluster: Any, user: Any, context: Any, where: str) -> None:
    known = {
        kind: {entry.get("name"): entry for entry in old.get(kind) or ()} for kind in ("clusters", "users", "contexts")
    }
    there = known["clusters"].get(cluster["name"])
    key = "certificate-authority-data"
    if there is not None:
        same = (there.get("cluster") or {}).get(key) == cluster["cluster"][key]
    else:
        known_user = known["users"].get(user["name"])
        same = known_user is None or _plain(known_user) == _plain(user)
    mapped = known["contexts"].get(context["name"])
    if mapped is not None:
        wanted = (cluster["name"], user["name"])
        inner = mapped.get("context") or {}
        same = same and (inner.get("cluster"), inner.get("user")) == wanted
    if not same:
        raise ConflictError(
            f"{where} has a {cluster['name']!r} already, and it is another cluster",
            hint="give this one a name of its own with --name, or replace that one with --force (a copy is kept)",
        )


def _put(config: Any, kind: str, entry: Any) -> None:
    if config.get(kind) is None:
        config[kind] = []
    entries = config[kind]
    for index, there in enumerate(entries):
        if there.get("name") == entry["name"]:
            if _plain(there) != _plain(entry):
                entries[index] = entry
            return
    entries.append(entry)


def _empty() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}


def _yaml() -> Any:
    from ruamel.yaml import YAML

    yaml = YAML(pure=True)
    yaml.width = 1 << 30  # certificates stay on one line
    yaml.preserve_quotes = True
    return yaml


def _load(text: str, what: str) -> Any:
    from ruamel.yaml.error import YAMLError

    try:
        found = _yaml().load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the error itself shows lines, which may hold tokens
        line = f": line {mark.line + 1}" if mark is not None else ""
        raise KubexmError(f"{what} is no YAML{line}", hint="mend it first; nothing was changed") from None
    lists = found.get("clusters", found.get("users")) if isinstance(found, dict) else 0
    if not isinstance(found, dict) or not (lists is None or isinstance(lists, list)):
        raise KubexmError(f"{what} is no kubeconfig", hint="mend it first; nothing was changed")
    return found


def _dump(config: Any) -> str:
    text = StringIO()
    _yaml().dump(config, text)
    return text.getvalue()


def _plain(value: Any) -> Any:
    """The same as plain data, for comparing."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """As kubectl does it, so that the two do not get into each other's way."""
    lock = path.with_name(f"{path.name}.lock")
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise ConflictError(
                    f"{path} is being changed by somebody else", hint=f"if nobody does, remove {lock}"
                ) from None
            time.sleep(0.1)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            lock.unlink()


def _copy(path: Path, content: str) -> Path:
    backup = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    _write(backup, content, like=path)
    return backup


def _write(path: Path, content: str, *, like: Path | None = None) -> None:
    temporary = path.with_name(f".{path.name}.{random.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        model = like or path
        if os.geteuid() == 0 and model.exists():  # under sudo the file stays its owner's
            os.chown(temporary, model.stat().st_uid, model.stat().st_gid)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
