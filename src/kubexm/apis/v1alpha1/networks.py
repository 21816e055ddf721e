"""Addresses and networks, IPv4, IPv6 or both. Must not know which part of the cluster uses them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Final, TypeVar

from pydantic import BeforeValidator, PlainSerializer

from kubexm.apis.v1alpha1.base import invalid, schema, shown
from kubexm.apis.v1alpha1.scalars import text_of

__all__ = [
    "Cidrs",
    "IpAddress",
    "IpNetwork",
    "Resolver",
    "families",
    "is_domain",
    "is_unusable",
    "overlap",
    "parse_addresses",
    "parse_cidrs",
    "parse_endpoint",
    "parse_ip",
    "refuse_unusable",
]

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network
_Part = TypeVar("_Part", IpAddress, IpNetwork)

_DOMAIN: Final = re.compile(r"(?=.{1,253}$)(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


_BROADCAST: Final = IPv4Address("255.255.255.255")
_SPECIAL: Final[dict[IpNetwork, str]] = {
    IPv4Network("0.0.0.0/8"): "this host",
    IPv4Network("127.0.0.0/8"): "loopback addresses",
    IPv4Network("169.254.0.0/16"): "link-local addresses",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("255.255.255.255/32"): "broadcasts",
    IPv6Network("::/127"): "loopback addresses",
    IPv6Network("fe80::/10"): "link-local addresses",
    IPv6Network("ff00::/8"): "multicast",
}


def is_domain(text: str) -> bool:
    """Whether the text can be a DNS name; four numbers with dots between them cannot."""
    return _DOMAIN.fullmatch(text) is not None and not text.rpartition(".")[2].isdigit()


def parse_ip(text: str) -> IpAddress | None:
    """The IP address the text is, or None."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_unusable(address: IpAddress) -> bool:
    """Whether no host can have it: `0.0.0.0`, multicast, broadcast."""
    return address.is_unspecified or address.is_multicast or address == _BROADCAST


def refuse_unusable(text: str) -> None:
    """Raises for an address that no host can have."""
    address = parse_ip(text)
    if address is not None and is_unusable(address):
        raise invalid(f"{shown(text)} cannot be the address of a host")


def _refuse_special(net: IpNetwork) -> None:
    for special, what in _SPECIAL.items():
        if overlap(net, special):
            raise invalid(
                f"`{net}` overlaps {special}, which is for {what}",
                f"choose a private network, such as `{'10.244.0.0/16' if net.version == 4 else 'fd00:244::/56'}`",
            )


def _one_of_each(parts: list[_Part], what: str) -> tuple[_Part, ...]:
    if len(parts) > 2 or len({part.version for part in parts}) != len(parts):
        raise invalid(f"expected one {what}, or an IPv4 and an IPv6 one with a comma between them")
    return tuple(parts)


def parse_addresses(text: str) -> tuple[IpAddress, ...]:
    """One address, or an IPv4 and an IPv6 one: `10.0.0.4,fd00::4`."""
    parts: list[IpAddress] = []
    for part in (part.strip() for part in text.split(",")):
        address = parse_ip(part)
        if address is None:
            raise invalid(f"{shown(part)} is not an IP address", "write it like `10.0.0.4` or `10.0.0.4,fd00::4`")
        parts.append(address)
    return _one_of_each(parts, "address")


def parse_cidrs(value: object) -> tuple[IpNetwork, ...]:
    """One network, or an IPv4 and an IPv6 one: `10.244.0.0/16,fd00:244::/56`."""
    if isinstance(value, tuple):
        return value
    parts: list[IpNetwork] = []
    for part in (part.strip() for part in text_of(value, "a network", "10.244.0.0/16").split(",")):
        if "/" not in part:
            raise invalid(f"{shown(part)} is not a network in CIDR form", "write it like `10.244.0.0/16`")
        try:
            net = ipaddress.ip_network(part)
        except ValueError:
            try:
                meant = ipaddress.ip_network(part, strict=False)
            except ValueError:
                raise invalid(f"{shown(part)} is not a network in CIDR form", "write it like `10.244.0.0/16`") from None
            raise invalid(f"{shown(part)} has bits set outside its prefix", f"did you mean `{meant}`?") from None
        if re.search(r"/[0-9]{1,3}$", part) is None:
            raise invalid(f"{shown(part)} is not a network in CIDR form", f"did you mean `{net}`?")
        _refuse_special(net)
        parts.append(net)
    return _one_of_each(parts, "network")


def families(parts: Iterable[IpAddress | IpNetwork]) -> frozenset[int]:
    """The IP versions in use: 4, 6 or both."""
    return frozenset(part.version for part in parts)


def overlap(one: IpNetwork, other: IpNetwork) -> bool:
    """Whether an address lies in both networks."""
    return one.version == other.version and one.overlaps(other)


def parse_endpoint(text: str) -> tuple[str, int | None] | None:
    """Host and port of `host`, `host:port`, `10.0.0.1:53` or `[fd00::1]:53`, or None."""
    if parse_ip(text) is not None:
        return text, None
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?", text)
    if match is None:
        return None
    host, port = match[1] or match[2], int(match[3]) if match[3] else None
    known = parse_ip(host) is not None or (match[2] is not None and is_domain(host))
    return (host, port) if known and (port is None or 1 <= port <= 65535) else None


def _joined(parts: tuple[object, ...]) -> str:
    return ",".join(map(str, parts))


def _resolver(value: object) -> str:
    text = text_of(value, "the address of a name server", "10.0.0.53")
    endpoint = parse_endpoint(text)
    if endpoint is None or parse_ip(endpoint[0]) is None:
        raise invalid(
            f"{shown(text)} is not the address of a name server", "write it like `10.0.0.53` or `[fd00::53]:53`"
        )
    refuse_unusable(endpoint[0])
    return text


_CIDR: Final = r"[0-9a-fA-F:.]+/\d{1,3}"

Cidrs = Annotated[
    tuple[IpNetwork, ...],
    BeforeValidator(parse_cidrs),
    PlainSerializer(_joined, return_type=str),
    schema("CIDR", pattern=rf"^{_CIDR}(\s*,\s*{_CIDR})?$"),
]
Resolver = Annotated[str, BeforeValidator(_resolver), schema("IP address or IP:port")]
