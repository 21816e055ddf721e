"""From the entries of the file to the hosts they stand for, with every default applied and every group resolved.

A file may break the cross-field rules: what does not fit together is left out here, and reported by `rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, TypedDict

from kubexm.apis.v1alpha1.host import Bastion, Global, HostEntry, Login
from kubexm.apis.v1alpha1.labels import Taint
from kubexm.apis.v1alpha1.networks import IpAddress, parse_addresses, parse_ip
from kubexm.apis.v1alpha1.ranges import expand, expand_list
from kubexm.apis.v1alpha1.roles import ALL, RoleGroups
from kubexm.apis.v1alpha1.secret import SecretSource

__all__ = ["Credentials", "Host", "Jump", "expand_entry", "expand_hosts", "resolve_groups", "resolve_target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who logs in, and how, with every default applied."""

    user: str
    password: SecretSource | None = None
    private_key: SecretSource | None = None
    private_key_path: str | None = None
    private_key_passphrase: SecretSource | None = None
    certificate_path: str | None = None
    agent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """One bastion of a chain."""

    address: str
    port: int
    credentials: Credentials
    host_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host with everything the file says about it."""

    name: str
    type: Literal["ssh", "local"]
    address: str
    """Where to connect to; `127.0.0.1` for a local host that names none."""
    port: int
    credentials: Credentials
    sudo_password: SecretSource | None
    connection_timeout: timedelta
    bastion: tuple[Jump, ...]
    host_key: str | None
    known_hosts_file: str
    internal_addresses: tuple[IpAddress, ...]
    """How other hosts reach it; empty if only the host itself can tell."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    taints: tuple[Taint, ...] = ()
    arch: Literal["amd64", "arm64"] | None = None
    roles: frozenset[str] = frozenset()
    """Every group it is in: roles by their names in the file, and groups of the user's own."""
    entry: int = 0
    """Index of its entry in spec.hosts."""

    def has_role(self, *roles: str) -> bool:
        """Whether it has any of these roles."""
        return not self.roles.isdisjoint(roles)


class _Places(TypedDict):
    name: str
    address: str
    internal_addresses: tuple[IpAddress, ...]


def credentials_of(login: Login, defaults: Global) -> Credentials:
    """The login's own settings, then the defaults; the settings of the key go together.

    A bastion is never sent the password of the hosts behind it.
    """
    keys = login if login.private_key is not None or login.private_key_path is not None else defaults
    password = login.password if isinstance(login, Bastion) else login.password or defaults.password
    agent = login.agent if login.agent is not None else defaults.agent
    if agent is None:
        agent = password is None and keys.private_key is None and keys.private_key_path is None
    return Credentials(
        user=login.user or defaults.user,
        password=password,
        private_key=keys.private_key,
        private_key_path=None if keys.private_key is not None else keys.private_key_path,
        private_key_passphrase=keys.private_key_passphrase,
        certificate_path=login.certificate_path or keys.certificate_path,
        agent=agent,
    )


def _jump(bastion: Bastion, defaults: Global) -> Jump:
    return Jump(
        address=bastion.address,
        port=bastion.port,
        credentials=credentials_of(bastion, defaults),
        host_key=bastion.host_key,
    )


def _column(text: str | None, count: int, *, listed: bool = False) -> list[str | None]:
    """The values of a field for each host of an entry; None where the file leaves it open or ranges do not fit."""
    values: list[str | None] = list((expand_list if listed else expand)(text)) if text is not None else [None]
    if len(values) == 1 and count > 1:
        return values * count if text is None else values + [None] * (count - 1)
    return (values + [None] * count)[:count]


def expand_entry(entry: HostEntry) -> list[_Places]:
    """Name and addresses of each host an entry stands for."""
    names = expand(entry.name)
    addresses = _column(entry.address, len(names))
    internal = _column(entry.internal_address, len(names), listed=True)
    places: list[_Places] = []
    for name, address, own in zip(names, addresses, internal, strict=True):
        fallback = parse_ip(address) if address is not None and entry.type == "ssh" else None
        places.append(
            {
                "name": name,
                "address": address or ("127.0.0.1" if entry.type == "local" else ""),
                "internal_addresses": parse_addresses(own) if own else (fallback,) if fallback is not None else (),
            }
        )
    return places


def resolve_groups(groups: RoleGroups, names: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The hosts of every group, in order, each once; unknown names and cycles are left out."""
    written = groups.members()

    def hosts_of(group: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        seen = {group}
        waiting = [iter(written[group])]
        while waiting:
            member = next(waiting[-1], None)
            if member is None:
                waiting.pop()
            elif member.startswith("group:"):
                other = member.removeprefix("group:")
                if other not in seen:
                    seen.add(other)
                    waiting.append(iter(written.get(other, ())))
            else:
                found.update((name, None) for name in expand(member) if name in names)
        return tuple(found)

    return {group: hosts_of(group) for group in written}


def resolve_target(
    target: str, groups: Mapping[str, tuple[str, ...]], names: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts that `all`, a group (as `NAME` or `group:NAME`), a host or a range means, and names nobody has.

    Where a host is called like a group, the group is meant.
    """
    bare = target.removeprefix("group:")
    if bare == ALL:
        return tuple(names), ()
    if bare in groups:
        return groups[bare], ()
    if bare != target:
        return (), (bare,)
    try:
        meant = expand(target)
    except ValueError:
        meant = (target,)
    return tuple(name for name in meant if name in names), tuple(name for name in meant if name not in names)


def expand_hosts(entries: tuple[HostEntry, ...], groups: RoleGroups, defaults: Global) -> tuple[Host, ...]:
    """Every host of the file, in its order; of two with the same name the first."""
    places: dict[str, tuple[int, _Places]] = {}
    for index, entry in enumerate(entries):
        for place in expand_entry(entry):
            places.setdefault(place["name"], (index, place))
    members: dict[str, set[str]] = {name: set() for name in places}
    for group, names in resolve_groups(groups, frozenset(places)).items():
        for name in names:
            members[name].add(group)
    chain = tuple(_jump(bastion, defaults) for bastion in defaults.bastion)
    logins = [credentials_of(entry, defaults) for entry in entries]
    hosts: list[Host] = []
    for index, place in places.values():
        entry = entries[index]
        hosts.append(
            Host(
                **place,
                type=entry.type,
                port=entry.port or defaults.port,
                credentials=logins[index],
                sudo_password=entry.sudo_password or defaults.sudo_password,
                connection_timeout=entry.connection_timeout or defaults.connection_timeout,
                bastion=chain if entry.bastion is None else tuple(_jump(step, defaults) for step in entry.bastion),
                host_key=entry.host_key,
                known_hosts_file=defaults.known_hosts_file,
                labels=entry.labels,
                taints=entry.taints,
                arch=entry.arch,
                roles=frozenset(members[place["name"]]),
                entry=index,
            )
        )
    return tuple(hosts)
