"""Objects as they are in the cluster, asked for many at a time and in few bytes. Must not know what they should be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubexm.components.api.documents import LABEL, Ref
from kubexm.components.api.kubectl import FIELD_MANAGER, Kubectl, is_transient, list_of
from kubexm.connector import CommandResult

__all__ = [
    "INVENTORY",
    "SEEN",
    "ApiAway",
    "Seen",
    "fields_owned",
    "read_documents",
    "see",
    "see_labelled",
    "seen_applied",
    "seen_as",
]

INVENTORY: Final = "kubexm.io/inventory"
"""Annotation of inventories, which holds what they say."""
_AT_ONCE = 150


def _escaped(key: str) -> str:
    return key.replace(".", r"\.")


_COLUMNS: Final = '{"\\t"}'.join(
    (
        "{.apiVersion}",
        "{.kind}",
        "{.metadata.namespace}",
        "{.metadata.name}",
        "{.metadata.uid}",
        "{.metadata.deletionTimestamp}",
        f"{{.metadata.labels.{_escaped(LABEL)}}}",
        f"{{.metadata.annotations.{_escaped(INVENTORY)}}}",
        f'{{.metadata.managedFields[?(@.manager=="{FIELD_MANAGER}")]}}',
    )
)
# kubectl prints a list, or one object by itself: the list is a row of its own then, which is left out.
_ROWS: Final = f'jsonpath={{range .items[*]}}{_COLUMNS}{{"\\n"}}{{end}}{_COLUMNS}{{"\\n"}}'


SEEN: Final = ("--show-managed-fields", "-o", _ROWS)
"""Words that make kubectl print of objects what `Seen` is made of."""


class ApiAway(Exception):
    """The API does not answer, or there is no way to ask it yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What tells whether an object is still as it was left."""

    ref: Ref
    left: str
    """Digest of its UID and of the fields that are kubexm's.

    Whoever changes the value of a field takes it over, so that the set of fields alone tells all.
    """
    going: bool = False
    """It is being deleted."""
    owner: str = ""
    """The manifests it came with."""
    inventory: str = ""


async def see(kubectl: Kubectl, refs: Sequence[Ref], *, patience: float = 5.0) -> list[Seen]:
    """Those of these objects that are there. ApiAway where nobody answers; CommandError for anything else."""
    found: list[Seen] = []
    for start in range(0, len(refs), _AT_ONCE):
        part = [ref.stub() for ref in refs[start : start + _AT_ONCE]]
        result = await _get(kubectl, "-f", "-", stdin=list_of(part), output=_ROWS, wait=patience)
        found += _rows(result.text)
    return found


def seen_applied(result: CommandResult) -> list[Seen] | None:
    """The objects as an apply that was told to print them (SEEN) left them; None if they were too many to keep."""
    return None if result.truncated else _rows(result.text)


async def see_labelled(kubectl: Kubectl, kind: str, label: str, *, patience: float = 5.0) -> list[Seen]:
    """The objects of a kind in kube-system that carry a label."""
    result = await _get(kubectl, kind, "-n", "kube-system", "-l", label, output=_ROWS, wait=patience)
    return _rows(result.text)


async def read_documents(kubectl: Kubectl, refs: Iterable[Ref], *, patience: float = 5.0) -> list[dict[str, Any]]:
    """These objects whole, as far as they are there and not too large to be read."""
    stdin = list_of(ref.stub() for ref in refs)
    result = await _get(kubectl, "-f", "-", stdin=stdin, output="json", wait=patience)
    if result.truncated or not result.text.strip():
        return []
    data = json.loads(result.text)
    return list(data.get("items", [data] if data else []))


def seen_as(ref: Ref, seen: Iterable[Seen]) -> Seen | None:
    """What was seen of an object."""
    return next((one for one in seen if ref.means(one.ref)), None)


def fields_owned(entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The fields kubexm applied and nobody took over since, of an object's managedFields."""
    for entry in entries:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource"):
            owned: Mapping[str, Any] = entry.get("fieldsV1") or {}
            return owned
    return {}


async def _get(kubectl: Kubectl, *words: str, output: str, wait: float, stdin: bytes | None = None) -> CommandResult:
    result = await kubectl.read(
        *("get", "--ignore-not-found", "--show-managed-fields", "-o", output, *words),
        stdin=stdin,
        patience=wait,
        display="ask for objects",
    )
    if result.ok or "no matches for kind" in result.error_text:
        return result
    if result.exit_code == 127 or "admin.conf" in result.error_text or is_transient(result):
        raise ApiAway(result.error_text.strip())
    raise kubectl.error(result)


def _rows(text: str) -> list[Seen]:
    found = []
    for row in text.splitlines():
        version, kind, namespace, name, uid, deleted, owner, inventory, fields = row.split("\t", 8)
        if not name:
            continue
        group, _, number = version.rpartition("/")
        ref = Ref(group, kind, namespace, name, number)
        found.append(Seen(ref, _left(uid, fields_owned(_several(fields))), bool(deleted), owner, inventory))
    return found


def _several(text: str) -> Iterable[Mapping[str, Any]]:
    """JSON values one after the other, as kubectl prints what a filter finds."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        value, position = decoder.raw_decode(text, position)
        yield value


def _left(uid: str, owned: Mapping[str, Any]) -> str:
    text = json.dumps([uid, owned], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
