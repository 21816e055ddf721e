"""Rules about hosts: names, addresses, logins. Must not know roles or networks of pods."""

from __future__ import annotations

from collections.abc import Iterator

from kubexm.apis.v1alpha1.cluster import Cluster
from kubexm.apis.v1alpha1.host import HostEntry, Login
from kubexm.apis.v1alpha1.inventory import expand_entry
from kubexm.apis.v1alpha1.networks import is_unusable, parse_ip
from kubexm.apis.v1alpha1.ranges import expand, expand_list
from kubexm.apis.v1alpha1.rules.base import Finding, Path, Rule, dotted, listed
from kubexm.apis.v1alpha1.secret import PromptSecret

__all__ = ["RULES"]

_HOSTS: Path = ("spec", "hosts")


def _at_least_one(cluster: Cluster) -> Iterator[Finding]:
    if not cluster.spec.hosts:
        yield Finding(path=_HOSTS, message="there are no hosts", hint="write at least one, with a name and an address")


def _lengths(cluster: Cluster) -> Iterator[Finding]:
    for index, entry in enumerate(cluster.spec.hosts):
        names = len(expand(entry.name))
        meant = f"`{entry.name}` for {_count(names, 'host')}"
        for key, text, count in (
            ("address", entry.address, len(expand(entry.address)) if entry.address else 0),
            (
                "internalAddress",
                entry.internal_address,
                len(expand_list(entry.internal_address)) if entry.internal_address else 0,
            ),
        ):
            if text is not None and count != names:
                yield Finding(
                    path=(*_HOSTS, index, key),
                    message=f"`{text}` stands for {_count(count, 'address')}, but {meant}",
                    hint="give both ranges the same length, like `cp[1:3]` and `10.0.0.[11:13]`",
                )


def _count(number: int, what: str) -> str:
    plural = what + ("es" if what.endswith("s") else "s")
    return f"one {what}" if number == 1 else f"{number} {plural}"


def _reachable(cluster: Cluster) -> Iterator[Finding]:
    local: int | None = None
    for index, entry in enumerate(cluster.spec.hosts):
        if entry.type == "ssh" and entry.address is None:
            yield Finding(
                path=(*_HOSTS, index),
                message=f"host `{entry.name}` has no address",
                hint="add `address`, or `type: local` if it is the machine kubexm runs on",
            )
        if entry.type != "local":
            continue
        if local is not None or len(expand(entry.name)) > 1:
            yield Finding(
                path=(*_HOSTS, index, "type"),
                message="only one host can be the machine kubexm runs on",
                hint="use `type: ssh` for the others",
            )
        local = index


def _names(cluster: Cluster) -> Iterator[Finding]:
    owner: dict[str, int] = {}
    for index, entry in enumerate(cluster.spec.hosts):
        again: dict[int, list[str]] = {}
        for name in expand(entry.name):
            first = owner.setdefault(name, index)
            if first != index:
                again.setdefault(first, []).append(name)
        for first, names in again.items():
            yield Finding(
                path=(*_HOSTS, index, "name"),
                message=f"{listed(names)}: already defined at {dotted((*_HOSTS, first))}",
                hint="give every host a name of its own",
            )


def _bastions(entry: HostEntry, cluster: Cluster) -> tuple[tuple[str, int], ...]:
    chain = cluster.spec.global_.bastion if entry.bastion is None else entry.bastion
    return tuple((bastion.address, bastion.port) for bastion in chain)


def _addresses(cluster: Cluster) -> Iterator[Finding]:
    endpoints: dict[tuple[object, ...], str] = {}
    for index, entry in enumerate(cluster.spec.hosts):
        if entry.type == "local":
            continue
        port, chain = entry.port or cluster.spec.global_.port, _bastions(entry, cluster)
        again: list[str] = []
        for place in expand_entry(entry):
            if place["address"]:
                first = endpoints.setdefault((_canonical(place["address"]), port, chain), place["name"])
                if first != place["name"]:
                    again.append(f"`{place['name']}` has the same address as `{first}` ({place['address']})")
        if again:
            yield Finding(
                path=(*_HOSTS, index, "address"),
                message=listed(again, 2),
                hint="every host has an address (or at least a port) of its own",
            )


def _canonical(address: str) -> str:
    parsed = parse_ip(address)
    return str(parsed) if parsed is not None else address.lower()


def _impossible(cluster: Cluster) -> Iterator[Finding]:
    for index, entry in enumerate(cluster.spec.hosts):
        addresses = [address for place in expand_entry(entry) for address in place["internal_addresses"]]
        key = "internalAddress" if entry.internal_address is not None else "address"
        wrong = next((address for address in addresses if is_unusable(address)), None)
        if wrong is None:
            reached = [parse_ip(place["address"]) for place in expand_entry(entry)]
            key = "address"
            wrong = next((address for address in reached if address is not None and is_unusable(address)), None)
        if wrong is not None:
            yield Finding(path=(*_HOSTS, index, key), message=f"{wrong} cannot be the address of a host")


def _internal_addresses(cluster: Cluster) -> Iterator[Finding]:
    owners: dict[object, tuple[str, HostEntry]] = {}
    for index, entry in enumerate(cluster.spec.hosts):
        refused: list[str] = []
        doubtful: list[str] = []
        for place in expand_entry(entry):
            for address in place["internal_addresses"]:
                first, other = owners.setdefault(address, (place["name"], entry))
                if first == place["name"]:
                    continue
                both = f"`{place['name']}` and `{first}` ({address})"
                if entry.internal_address is not None or other.internal_address is not None:
                    refused.append(both)
                elif (entry.port, _bastions(entry, cluster)) != (other.port, _bastions(other, cluster)):
                    doubtful.append(both)
        path: Path = (*_HOSTS, index, "address" if entry.internal_address is None else "internalAddress")
        if refused:
            yield Finding(
                path=path,
                message=f"hosts with the same internal address: {listed(refused, 2)}",
                hint="every host needs an internal address of its own",
            )
        if doubtful:
            yield Finding(
                path=path,
                message=f"hosts with the same address on different ports: {listed(doubtful, 2)}",
                hint="set internalAddress: in a cluster every host needs an address of its own",
                warning=True,
            )


def _logins(cluster: Cluster) -> Iterator[Finding]:
    spec = cluster.spec
    logins: list[tuple[Path, Login]] = [(("spec", "global"), spec.global_)]
    logins += [(("spec", "global", "bastion", index), bastion) for index, bastion in enumerate(spec.global_.bastion)]
    for index, entry in enumerate(spec.hosts):
        logins.append(((*_HOSTS, index), entry))
        logins += [((*_HOSTS, index, "bastion", place), step) for place, step in enumerate(entry.bastion or ())]
    for path, login in logins:
        if login.private_key is not None and login.private_key_path is not None:
            yield Finding(
                path=(*path, "privateKey"),
                message="privateKey and privateKeyPath exclude each other",
                hint="keep one of them",
            )
        if isinstance(login.private_key, PromptSecret):
            yield Finding(
                path=(*path, "privateKey"),
                message="a private key cannot be typed at a prompt",
                hint="use privateKeyPath, `env:NAME` or `file:path`",
            )
        if login.private_key_passphrase is not None and login.private_key is None and login.private_key_path is None:
            yield Finding(
                path=(*path, "privateKeyPassphrase"),
                message="there is a passphrase here, but no private key that it belongs to",
                hint="write it beside privateKey or privateKeyPath",
            )


def _one_each(cluster: Cluster) -> Iterator[Finding]:
    for index, entry in enumerate(cluster.spec.hosts):
        if entry.host_key is not None and len(expand(entry.name)) > 1:
            yield Finding(
                path=(*_HOSTS, index, "hostKey"),
                message=f"one key for {len(expand(entry.name))} hosts: hosts that share a key cannot be told apart",
                hint="write an entry for each host, with its own key",
                warning=True,
            )
        seen: set[tuple[str, str]] = set()
        for place, taint in enumerate(entry.taints):
            if (taint.key, taint.effect) in seen:
                yield Finding(
                    path=(*_HOSTS, index, "taints", place),
                    message=f"a node has one taint `{taint.key}` with effect {taint.effect}; this is the second",
                )
            seen.add((taint.key, taint.effect))


RULES = (
    Rule(_at_least_one, needs=(_HOSTS,)),
    Rule(_lengths),
    Rule(_reachable),
    Rule(_names),
    Rule(_addresses),
    Rule(_impossible),
    Rule(_internal_addresses),
    Rule(_logins),
    Rule(_one_each),
)
