"""What an edit of cluster.yaml means for a cluster that exists, and the digest that guards a resume.

Which class a field is in stands in the model beside the field; this module only reads it. No secret is ever shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from kubexm.apis.v1alpha1.base import EDIT_KEY, OUTSIDE_KEY, EditKind, Model
from kubexm.apis.v1alpha1.cluster import Cluster, Metadata, Spec
from kubexm.apis.v1alpha1.host import HostEntry
from kubexm.apis.v1alpha1.inventory import Host
from kubexm.apis.v1alpha1.networks import IpAddress
from kubexm.apis.v1alpha1.roles import ROLES
from kubexm.apis.v1alpha1.versions import KubernetesVersion

__all__ = ["Edit", "digest", "edits", "guarded", "recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One difference between two versions of the file, and what may be done about it."""

    path: str
    """Place in the file; hosts are named, not numbered: `spec.hosts[w01].labels`."""
    old: Any
    new: Any
    kind: EditKind
    note: str = ""
    """What else the user should know."""


def edits(old: Cluster, new: Cluster) -> list[Edit]:
    """Every difference, in the order of the model; secrets are compared but shown as a mask."""
    found = list(_model_edits(old.metadata, new.metadata, "metadata"))
    for name, field in type(old.spec).model_fields.items():
        match name:
            case "hosts":
                found += _host_edits(old, new)
            case "role_groups":
                found += _role_edits(old, new)
            case _:
                found += _field_edits(name, field, old.spec, new.spec, "spec")
    return found


def _extra(field: FieldInfo) -> Mapping[str, Any]:
    extra = field.json_schema_extra
    return extra if isinstance(extra, dict) else {}


def _model_edits(old: Model, new: Model, path: str, skip: frozenset[str] = frozenset()) -> Iterator[Edit]:
    for name, field in type(old).model_fields.items():
        if name not in skip:
            yield from _field_edits(name, field, old, new, path)


def _field_edits(name: str, field: FieldInfo, old: Model, new: Model, path: str) -> Iterator[Edit]:
    before, after = getattr(old, name), getattr(new, name)
    if before == after:
        return
    extra, inner = _extra(field), f"{path}.{field.alias}"
    if isinstance(before, Model) and isinstance(after, Model) and EDIT_KEY not in extra:
        yield from _model_edits(before, after, inner)
        return
    kind = EditKind(extra.get(EDIT_KEY, EditKind.LIVE))
    note = "this version of kubexm cannot upgrade a cluster" if kind is EditKind.UPGRADE else ""
    if isinstance(before, KubernetesVersion) and isinstance(after, KubernetesVersion) and after < before:
        kind, note = EditKind.FIXED, "Kubernetes cannot be downgraded"
    yield Edit(path=inner, old=_shown(old, name), new=_shown(new, name), kind=kind, note=note)


def _shown(model: Model, name: str) -> Any:
    """The value of a field as the file would say it, secrets masked."""
    dumped = model.model_dump(mode="json", include={name}, exclude_none=True)
    return next(iter(dumped.values()), None)


def _joined(addresses: tuple[IpAddress, ...]) -> str:
    return ",".join(map(str, addresses))


def _entry(cluster: Cluster, host: Host) -> HostEntry:
    return cluster.spec.hosts[host.entry]


def _host_edits(old: Cluster, new: Cluster) -> Iterator[Edit]:
    before, after = ({host.name: host for host in cluster.hosts} for cluster in (old, new))
    for name, host in after.items():
        path = f"spec.hosts[{name}]"
        if name not in before:
            yield Edit(path=path, old=None, new=sorted(host.roles), kind=EditKind.ADDED)
            continue
        was = before[name]
        known = bool(was.internal_addresses and host.internal_addresses)
        moved = known and was.internal_addresses != host.internal_addresses
        if moved:
            key = (
                "internalAddress"
                if _entry(old, was).internal_address or _entry(new, host).internal_address
                else "address"
            )
            yield Edit(
                path=f"{path}.{key}",
                old=_joined(was.internal_addresses),
                new=_joined(host.internal_addresses),
                kind=EditKind.FIXED,
                note="etcd and certificates hold this address: remove the host and add it again under another name",
            )
        if was.address != host.address and not (moved and key == "address"):
            yield Edit(path=f"{path}.address", old=was.address, new=host.address, kind=EditKind.LIVE)
        skip = frozenset({"name", "address", "internal_address"})
        yield from _model_edits(_entry(old, was), _entry(new, host), path, skip)
    for name, host in before.items():
        if name not in after:
            yield Edit(path=f"spec.hosts[{name}]", old=sorted(host.roles), new=None, kind=EditKind.REMOVED)


def _role_edits(old: Cluster, new: Cluster) -> Iterator[Edit]:
    both = {host.name for host in old.hosts} & {host.name for host in new.hosts}
    for group in dict.fromkeys((*old.groups, *new.groups)):
        before, after = old.groups.get(group, ()), new.groups.get(group, ())
        path = f"spec.roleGroups.{group}"
        if group not in ROLES:
            if before != after:
                yield Edit(path=path, old=list(before), new=list(after), kind=EditKind.LIVE)
            continue
        for name in after:
            if name in both and name not in before:
                yield Edit(path=path, old=None, new=name, kind=EditKind.ADDED)
        for name in before:
            if name in both and name not in after:
                yield Edit(path=path, old=name, new=None, kind=EditKind.REMOVED)


def guarded(cluster: Cluster) -> dict[str, Any]:
    """The part of the file that a resumed run must find unchanged, as plain data.

    Connection settings, secrets and asset sources are left out; ranges and groups are resolved, so that another way of
    writing the same hosts is no difference.
    """
    spec = _guarded_model(cluster.spec, frozenset({"hosts", "role_groups"}))
    spec["hosts"] = [
        {
            "name": host.name,
            "internalAddresses": [str(address) for address in host.internal_addresses],
            "labels": dict(host.labels),
            "taints": [str(taint) for taint in host.taints],
            "arch": host.arch,
            "roles": sorted(host.roles),
        }
        for host in cluster.hosts
    ]
    return {
        "apiVersion": cluster.api_version,
        "kind": cluster.kind,
        "metadata": _guarded_model(cluster.metadata),
        "spec": spec,
    }


def _guarded_model(model: Model, skip: frozenset[str] = frozenset()) -> dict[str, Any]:
    dumped = model.model_dump(mode="json")
    result: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        if name in skip or OUTSIDE_KEY in _extra(field):
            continue
        value = getattr(model, name)
        alias = str(field.alias)
        if isinstance(value, Model):
            result[alias] = _guarded_model(value)
        elif isinstance(value, tuple) and value and all(isinstance(part, Model) for part in value):
            result[alias] = [_guarded_model(part) for part in value]
        else:
            result[alias] = dumped[alias]
    return result


def recorded(data: Mapping[str, Any]) -> Cluster:
    """The cluster that `guarded` gave this data of, as far as `create` cannot change it: all else has its default.

    So `edits` against it tells every edit that is not live. Fields this version does not know are passed over. Raises
    ValueError for anything else that is no such data.
    """
    try:
        spec = dict(data["spec"])
        hosts = spec.pop("hosts")
        spec = _lasting(Spec, spec) | {"hosts": [_entry_of(host) for host in hosts], "roleGroups": _groups_of(hosts)}
        return Cluster.model_validate({"metadata": _lasting(Metadata, data["metadata"]), "spec": spec})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("this is no record of a cluster") from error


def _lasting(model: type[Model], data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of those fields of the model whose edits are not live."""
    found = {}
    for field in model.model_fields.values():
        alias = str(field.alias)
        if alias not in data:
            continue
        below = field.annotation
        if isinstance(below, type) and issubclass(below, Model) and EDIT_KEY not in _extra(field):
            found[alias] = _lasting(below, data[alias])
        elif _extra(field).get(EDIT_KEY, EditKind.LIVE) != EditKind.LIVE:
            found[alias] = data[alias]
    return found


def _entry_of(host: Mapping[str, Any]) -> dict[str, Any]:
    addresses = [str(address) for address in host["internalAddresses"]]
    # One address may have been written either way; with none only the host itself can tell.
    place = (
        {"internalAddress": ",".join(addresses)} if len(addresses) > 1 else {"address": (*addresses, host["name"])[0]}
    )
    return {"name": host["name"], "arch": host["arch"], **place}


def _groups_of(hosts: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for host in hosts:
        for role in host["roles"]:
            groups.setdefault(role, []).append(host["name"])
    return groups


def digest(cluster: Cluster) -> str:
    """SHA-256 over the guarded part of the file."""
    text = json.dumps(guarded(cluster), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
