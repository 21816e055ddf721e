"""Addresses, routes and listening ports, from what `ip` and `ss` print or, without them, from /proc/net."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

from kubexm.runner.facts.model import Interface, Network, Port, Route
from kubexm.runner.facts.sections import Sections

__all__ = ["parse_network", "parse_ports", "parse_proc_ports", "parse_ss"]


def parse_network(found: Sections) -> Network:
    """Interfaces with their addresses, the default routes and the resolvers."""
    addresses = _ip_addresses(found.lines("ip-addr")) if "ip-addr" in found else _proc_addresses(found)
    interfaces = []
    for line in found.lines("links"):
        parts = line.split()
        if len(parts) != 5:
            continue
        name, mac, mtu, state, kind = parts
        interfaces.append(
            Interface(
                name=name,
                mac="" if mac in ("-", "00:00:00:00:00:00") else mac.lower(),
                mtu=int(mtu) if mtu.isdigit() else 0,
                up=state in ("up", "unknown"),
                physical=kind == "physical",
                addresses=tuple(addresses.get(name, ())),
            )
        )
    known = tuple(sorted(interfaces, key=lambda i: i.name))
    if "ip-addr" in found:
        route4, route6 = _ip_route(found.lines("ip-route"), known), _ip_route(found.lines("ip-route6"), known)
    else:
        route4, route6 = _proc_route(found, known), _proc_route6(found, known)
    resolv = [line.split() for line in found.file("/etc/resolv.conf").split("\n")]
    return Network(
        interfaces=known,
        route4=route4,
        route6=route6,
        nameservers=tuple(words[1] for words in resolv if len(words) > 1 and words[0] == "nameserver"),
        search=tuple(w for words in resolv if words and words[0] in ("search", "domain") for w in words[1:]),
    )


def _ip_addresses(lines: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        words = line.split()
        if len(words) >= 4 and words[2] in ("inet", "inet6"):
            # An address with a peer is printed without a prefix: 10.0.0.1 peer 10.0.0.2/32
            address = words[3] if "/" in words[3] else f"{words[3]}/{32 if words[2] == 'inet' else 128}"
            if _is_interface(address):
                found.setdefault(words[1].split("@")[0], []).append(address)
    return found


def _ip_route(lines: Iterable[str], interfaces: tuple[Interface, ...]) -> Route | None:
    best: tuple[int, Route] | None = None
    for line in lines:
        words = line.split()
        values = dict(pairwise(words))
        if "dev" not in values:
            continue
        metric = int(values["metric"]) if values.get("metric", "").isdigit() else 0
        gateway = values.get("via", "")
        if gateway in ("inet6", "inet"):  # "via inet6 fe80::1": an IPv4 route over an IPv6 gateway
            gateway = values.get(gateway, "")
        six = ":" in line.split("dev")[0] and not gateway.count(".")
        route = Route(interface=values["dev"], gateway=gateway, source=values.get("src", ""))
        route = route if route.source else _with_source(route, interfaces, 6 if six else 4)
        if best is None or metric < best[0]:
            best = (metric, route)
    return best[1] if best else None


def _with_source(route: Route, interfaces: tuple[Interface, ...], version: int) -> Route:
    """The route with the address the host would use: one in the gateway's network, else the first global one."""
    link = next((i for i in interfaces if i.name == route.interface), None)
    usable = [ipaddress.ip_interface(a) for a in link.addresses] if link else []
    usable = [a for a in usable if a.version == version and not a.is_link_local]
    if not usable:
        return route
    near = [a for a in usable if route.gateway and _inside(route.gateway, a)]
    return Route(interface=route.interface, gateway=route.gateway, source=str((near or usable)[0].ip))


def _is_interface(address: str) -> bool:
    try:
        return bool(ipaddress.ip_interface(address))
    except ValueError:
        return False


def _inside(address: str, network: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> bool:
    try:
        return ipaddress.ip_address(address) in network.network
    except ValueError:
        return False


def _proc_addresses(found: Sections) -> dict[str, list[str]]:
    addresses: dict[str, list[str]] = {}
    networks = []  # (network, interface) from the routing table, to tell which interface has an IPv4 address
    for words in _table(found.file("/proc/net/route")):
        with suppress(ValueError, IndexError):
            if words[7] != "00000000":
                prefix = int(words[7], 16).bit_count()
                networks.append((ipaddress.ip_network(f"{_hex4(words[1])}/{prefix}", strict=False), words[0]))
    networks.sort(key=lambda item: -item[0].prefixlen)
    last = ""
    for line in found.file("/proc/net/fib_trie").split("\n"):
        word = line.strip().split(" ")[-1] if "|--" in line else ""
        if _is_interface(word):
            last = word
        elif "/32 host LOCAL" in line and last:
            name, prefix = ("lo", 8) if last.startswith("127.") else ("", 32)
            for network, interface in networks:
                if not name and ipaddress.ip_address(last) in network:
                    name, prefix = interface, network.prefixlen
            if name and f"{last}/{prefix}" not in addresses.setdefault(name, []):
                addresses[name].append(f"{last}/{prefix}")
    for line in found.file("/proc/net/if_inet6").split("\n"):
        words = line.split()
        with suppress(ValueError, IndexError):
            address = f"{ipaddress.IPv6Address(int(words[0], 16))}/{int(words[2], 16)}"
            if _is_interface(address):
                addresses.setdefault(words[5], []).append(address)
    return addresses


def _proc_route(found: Sections, interfaces: tuple[Interface, ...]) -> Route | None:
    routes = []
    for words in _table(found.file("/proc/net/route")):
        with suppress(ValueError, IndexError):
            if words[1] == words[7] == "00000000":
                gateway = "" if words[2] == "00000000" else _hex4(words[2])
                routes.append((int(words[6]), Route(interface=words[0], gateway=gateway)))
    return _with_source(min(routes, key=lambda r: r[0])[1], interfaces, 4) if routes else None


def _proc_route6(found: Sections, interfaces: tuple[Interface, ...]) -> Route | None:
    routes = []
    for line in found.file("/proc/net/ipv6_route").split("\n"):
        words = line.split()
        with suppress(ValueError, IndexError):
            # Flag 0x200 is the kernel's reject entry, which is always there.
            if words[0] == "0" * 32 and words[1] == "00" and not int(words[8], 16) & 0x200:
                gateway = "" if words[4] == "0" * 32 else str(ipaddress.IPv6Address(int(words[4], 16)))
                routes.append((int(words[5], 16), Route(interface=words[9], gateway=gateway)))
    return _with_source(min(routes, key=lambda r: r[0])[1], interfaces, 6) if routes else None


def parse_ports(found: Sections) -> tuple[Port, ...]:
    """Listening ports, from whichever source the host had."""
    if "ss" in found:
        return parse_ss(found.lines("ss"))
    return parse_proc_ports(found.files, found.lines("proc-fd"), found.lines("proc-comm"))


def parse_ss(lines: Iterable[str]) -> tuple[Port, ...]:
    """From `ss -H -l -t -u -n -p`."""
    ports = []
    for line in lines:
        words = line.split(None, 6)
        if len(words) < 5 or words[0] not in ("tcp", "udp"):
            continue
        address, _, port = words[4].rpartition(":")
        if not port.isdigit():
            continue
        who = re.search(r'users:\(\("([^"]*)",pid=(\d+)', line)
        ports.append(
            Port(
                protocol=words[0],
                address=_plain(address),
                port=int(port),
                process=who[1] if who else "",
                pid=int(who[2]) if who else 0,
            )
        )
    return _sorted(ports)


def parse_proc_ports(files: dict[str, str], fds: Iterable[str], comms: Iterable[str]) -> tuple[Port, ...]:
    """From /proc/net/{tcp,udp}{,6} and what `ls -l /proc/*/fd` says of sockets."""
    owners: dict[str, int] = {}
    pid = 0
    for line in fds:
        if at := re.match(r"^/proc/(\d+)/fd:", line):
            pid = int(at[1])
        elif inode := re.search(r"socket:\[(\d+)\]", line):
            owners.setdefault(inode[1], pid)
    names = {int(m[1]): m[2] for line in comms if (m := re.match(r"^/proc/(\d+)/comm:(.*)$", line))}
    ports = []
    for protocol, state in (("tcp", "0A"), ("udp", "07")):
        for table in (f"/proc/net/{protocol}", f"/proc/net/{protocol}6"):
            for words in _table(files.get(table, "")):
                with suppress(ValueError, IndexError):
                    if words[3] == state:
                        ports.append(_proc_port(protocol, words, owners, names))
    return _sorted(ports)


def _proc_port(protocol: str, words: list[str], owners: dict[str, int], names: dict[int, str]) -> Port:
    host, port = words[1].split(":")
    owner = owners.get(words[9], 0)
    return Port(
        protocol=protocol,
        address=_hex4(host) if len(host) == 8 else _hex6(host),
        port=int(port, 16),
        process=names.get(owner, ""),
        pid=owner,
    )


def _sorted(ports: Iterable[Port]) -> tuple[Port, ...]:
    return tuple(sorted(set(ports), key=lambda p: (p.protocol, p.port, p.address, p.pid)))


def _plain(address: str) -> str:
    address = address.split("%", maxsplit=1)[0].strip("[]")
    return "::" if address == "*" else address


def _table(text: str) -> list[list[str]]:
    return [line.split() for line in text.split("\n")[1:] if line.strip()]


def _hex4(word: str) -> str:
    return str(ipaddress.IPv4Address(bytes.fromhex(word)[::-1]))


def _hex6(word: str) -> str:
    groups = b"".join(bytes.fromhex(word[i : i + 8])[::-1] for i in range(0, 32, 8))
    return str(ipaddress.IPv6Address(groups))
