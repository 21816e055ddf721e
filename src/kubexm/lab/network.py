"""The network of a lab: a private subnet, a bridge and the hosts' links to it. Must not know what runs on the hosts.

Nothing here lets a packet out: no forwarding is switched on, no address is translated, and the hosts' gateway is an
address that nobody has.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from kubexm.errors import LabError
from kubexm.lab.commands import run

__all__ = ["MOST_HOSTS", "LabNetwork", "choose_subnet", "networks_in_use", "read_networks", "unused_prefix"]

MOST_HOSTS = 200
_FIRST_HOST = 10  # n1 is .11: easy to read, and room below for what a cluster may want (a virtual address)
_POOLS = tuple(IPv4Network(pool) for pool in ("10.210.0.0/16", "172.29.0.0/16", "192.168.0.0/16"))
_INTERFACES = Path("/sys/class/net")
_UP = 0x1


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNetwork:
    """The network of one lab: `prefix` starts the name of every interface it has on this machine."""

    prefix: str
    subnet: IPv4Network

    @property
    def bridge(self) -> str:
        return self.prefix

    @property
    def machine_address(self) -> IPv4Address:
        """This machine's own address in the subnet."""
        return self.subnet[1]

    @property
    def gateway(self) -> IPv4Address:
        """The hosts' gateway, an address that nobody has."""
        return self.subnet[254]

    def address(self, number: int) -> IPv4Interface:
        """The address of the lab's n-th host, counted from 1."""
        return IPv4Interface((self.subnet[_FIRST_HOST + number], self.subnet.prefixlen))

    def machine_name(self, host: str) -> str:
        """The name of a host that is unique on this machine and short enough to name an interface after."""
        return f"{self.prefix}-{host}"

    def link(self, host: str) -> str:
        """This machine's end of the host's network cable."""
        return f"vb-{self.machine_name(host)}"

    @property
    def exists(self) -> bool:
        return (_INTERFACES / self.bridge).exists()

    def collides(self) -> bool:
        """Whether this machine uses addresses of the subnet for something else."""
        return any(self.subnet.overlaps(network) for network in networks_in_use())

    def make_bridge(self) -> None:
        """Make the bridge with this machine's address on it; what is there is left alone."""
        if not self.exists:
            run("ip", "link", "add", "name", self.bridge, "type", "bridge")
        address = f"{self.machine_address}/{self.subnet.prefixlen}"
        run("ip", "address", "replace", address, "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def is_connected(self, host: str) -> bool:
        """Whether the host's cable is plugged in."""
        try:
            flags = (_INTERFACES / self.link(host) / "flags").read_text(encoding="utf-8")
        except OSError:
            return False
        return bool(int(flags, 16) & _UP)

    def connect(self, host: str, *, up: bool) -> None:
        """Plug the host's cable in, or pull it."""
        run("ip", "link", "set", self.link(host), "up" if up else "down")

    def remove_link(self, host: str) -> None:
        """Remove the host's cable; it would linger while the host's own namespaces die."""
        _remove(self.link(host))

    def remove(self) -> None:
        """Remove every interface of this lab."""
        for name in self.interfaces():
            _remove(name)

    def interfaces(self) -> list[str]:
        """Every interface of this lab on this machine, the bridge last."""
        present = [path.name for path in _INTERFACES.iterdir()]
        links = sorted(name for name in present if name.startswith(f"vb-{self.prefix}-"))
        return links + [name for name in present if name == self.bridge]


def choose_subnet(taken: Iterable[IPv4Network]) -> IPv4Network:
    """The first private /24 that overlaps nothing in `taken`."""
    used = list(taken)
    for pool in _POOLS:
        for subnet in pool.subnets(new_prefix=24):
            if not any(subnet.overlaps(network) for network in used):
                return subnet
    raise LabError("Every private subnet the lab may use is taken on this machine.", hint="Take labs down first.")


def unused_prefix() -> str:
    """A start for interface names that no interface of this machine has."""
    present = [path.name for path in _INTERFACES.iterdir()]
    while True:
        prefix = f"kx{secrets.token_hex(2)}"
        if not any(prefix in name for name in present):
            return prefix


def networks_in_use() -> list[IPv4Network]:
    """Every network this machine has an address in, a route to, or a name server in."""
    addresses = run("ip", "-json", "-4", "address", "show")
    routes = run("ip", "-json", "-4", "route", "show", "table", "all")
    try:
        resolver = Path("/etc/resolv.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        resolver = ""
    return list(read_networks(addresses, routes, resolver))


def read_networks(addresses: str, routes: str, resolver: str) -> Iterator[IPv4Network]:
    """The networks named in the output of `ip` and in a resolv.conf; a default route names none."""
    for interface in json.loads(addresses or "[]"):
        for entry in interface.get("addr_info", []):
            yield IPv4Interface(f"{entry['local']}/{entry['prefixlen']}").network
    for route in json.loads(routes or "[]"):
        for key in ("dst", "gateway"):
            network = _network(str(route.get(key, "")))
            if network is not None and network.prefixlen > 0:
                yield network
    for line in resolver.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver" and (server := _network(words[1])) is not None:
            yield server


def _network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text, strict=False)
    except ValueError:
        return None


def _remove(interface: str) -> None:
    try:
        run("ip", "link", "delete", interface)
    except LabError:
        if (_INTERFACES / interface).exists():  # else it went away by itself
            raise
