"""Checks of a host's own network: its addresses, the cluster's networks beside them, names, ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubexm.cache import Key, Scope
from kubexm.components.needs import KUBELET, PortUse
from kubexm.components.networks import PLUGINS
from kubexm.components.preflight.check import Finding, HostCheck, Share, few, share_of
from kubexm.components.preflight.identity import known, worked_out
from kubexm.connector.base import shell
from kubexm.runner.facts.model import Port
from kubexm.runtime import StepContext
from kubexm.step import Resources, resources

__all__ = ["AddressesOwn", "NamesResolve", "NetworksApart", "PortsFree"]

_CARRIERS: Key[Mapping[str, list[str]]] = Key("preflight.carriers", scope=Scope.STEP)
_OURS = ("kube-ipvs0", "nodelocaldns", *(name for plugin in PLUGINS for name in plugin.interfaces))
_ANY = ("0.0.0.0", "::", "*", "")  # noqa: S104 - compared, not bound
_RESOLVERS = 3
_IN_TIME, _AT_ALL = 1, 5
"""Seconds within which a name server says that it knows no such name, and within which names that must resolve do."""
_ASKED = 16
"""Names one host looks up at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressesOwn(HostCheck):
    """The addresses the file gives a host are its own, and no other host has them."""

    addresses: tuple[Share, ...]
    """Internal addresses of each host."""
    hosts: tuple[str, ...]

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares with the addresses of this host's interfaces, and with those of all others."""
        own = ctx.facts.network.addresses
        carriers = worked_out(ctx, _CARRIERS, lambda: self._carriers(ctx))
        for address in share_of(self.addresses, ctx.host.name):
            if not any(_same(address, other) for other in own):
                yield Finding(
                    f"{address} is not an address of this host, which has {few(own) or 'none'}",
                    f"set internalAddress of {ctx.host.name} to the address other hosts reach it by",
                )
            others = [name for name in carriers.get(_normal(address), ()) if name != ctx.host.name]
            if others:
                yield Finding(
                    f"its address {address} is also one of {few(others)}",
                    "give each host an address of its own, and name each machine once in the file",
                )

    def _carriers(self, ctx: StepContext) -> Mapping[str, list[str]]:
        carriers: dict[str, list[str]] = {}
        for name, facts in known(ctx, self.hosts):
            for address in facts.network.addresses:
                carriers.setdefault(_normal(address), []).append(name)
        return carriers

    def describe(self) -> str:
        """The state."""
        return "addresses as in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworksApart(HostCheck):
    """The networks of pods and services hold no address of the host, its gateway or its name servers."""

    networks: tuple[tuple[str, str], ...]
    """Settings and networks."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks at interfaces other than those a cluster makes."""
        network = ctx.facts.network
        places = [
            (address.split("/")[0], f"{address} on {interface.name}")
            for interface in network.interfaces
            if not interface.name.startswith(_OURS)
            for address in interface.addresses
        ]
        routes = (network.route4, network.route6)
        places += [(route.gateway, f"its gateway {route.gateway}") for route in routes if route and route.gateway]
        places += [(server, f"its name server {server}") for server in network.nameservers]
        for setting, text in self.networks:
            reserved = ipaddress.ip_network(text)
            inside = [what for address, what in places if _inside(address, reserved)]
            if inside:
                yield Finding(
                    f"{few(inside)} is inside {setting} {text}",
                    f"choose a network for {setting} that nothing around the hosts uses",
                )

    def describe(self) -> str:
        """The state."""
        return "pod and service networks apart from the host's"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesResolve(HostCheck):
    """The host has name servers, they answer in time, and names the cluster needs resolve."""

    own_upstream: bool
    """CoreDNS is given name servers in the file."""
    names: tuple[str, ...] = ()
    """Names that kubexm will not write into /etc/hosts."""

    async def find(self, ctx: StepContext) -> list[Finding]:
        """Looks at resolv.conf, then asks for a name that does not exist and for those that must, all in one read."""
        found = list(self._servers(ctx))
        names = self._asked(ctx.host.name)
        # Of its own for each host and run: what the first of them waits for, name servers remember for the others.
        unknown_name = f"{ctx.host.name}.{ctx.run}.kubexm-preflight.invalid"
        asked = [(unknown_name, _IN_TIME), *((name, _AT_ALL) for name in names)]
        tries = [
            f"{{ timeout {within} getent ahosts {shell(name)} >/dev/null 2>&1; echo {index} $?; }} &"
            for index, (name, within) in enumerate(asked)
        ]
        script = "\n".join(["command -v getent >/dev/null || exit 0", *tries, "wait", ":"])
        # Apart from other reads: name servers that do not answer would hold up all of them.
        result = await ctx.host.command.read(script, long=True, display="look up names")
        codes = dict(line.split(" ", 1) for line in result.text.splitlines() if " " in line)
        if codes.get("0") == "124" and ctx.facts.network.nameservers:
            found.append(
                Finding(
                    f"its name servers ({few(ctx.facts.network.nameservers)}) do not answer",
                    "look-ups of unknown names hang for seconds: name servers that answer, or none, are better",
                    warning=True,
                )
            )
        unknown = [name for index, name in enumerate(names, 1) if codes.get(str(index), "0") != "0"]
        if unknown:
            found.append(
                Finding(
                    f"it cannot resolve {few(unknown)}",
                    "add them to your DNS, or set system.manageHostsFile to true",
                )
            )
        return found

    def _asked(self, own: str) -> tuple[str, ...]:
        """All names, or in a large cluster the host's own and those after it: every name is asked for by somebody."""
        if len(self.names) <= _ASKED:
            return self.names
        place = self.names.index(own) if own in self.names else 0
        return (self.names[place:] + self.names[:place])[:_ASKED]

    def _servers(self, ctx: StepContext) -> Iterable[Finding]:
        servers = ctx.facts.network.nameservers
        if not servers and not self.own_upstream:
            yield Finding(
                "/etc/resolv.conf names no name server",
                "add one (CoreDNS does not start without), or set dns.coredns.upstream",
            )
        if len(servers) > _RESOLVERS:
            yield Finding(
                f"/etc/resolv.conf names {len(servers)} name servers",
                f"pods get the first {_RESOLVERS} only",
                warning=True,
            )
        resolved = ctx.facts.unit("systemd-resolved")
        by_resolved = resolved is not None and resolved.active == "active"
        loops = [server for server in servers if server.startswith("127.") or server == "::1"]
        if loops and not by_resolved and not self.own_upstream:
            yield Finding(
                f"its name server {few(loops)} is on the host itself",
                "CoreDNS would ask itself: set dns.coredns.upstream to the real name servers",
                warning=True,
            )

    def reads(self) -> Resources:
        """What names are looked up by."""
        return resources("file:/etc/hosts", "file:/etc/resolv.conf")

    def describe(self) -> str:
        """The state."""
        return "names resolve"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsFree(HostCheck):
    """The ports this host's roles need are free, or this cluster's own programs listen there."""

    uses: tuple[Share, ...]
    cluster: str
    node_ports: tuple[int, int]

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares with the ports in use when facts were gathered."""
        facts = ctx.facts
        ours = facts.marker is not None and facts.marker.name == self.cluster
        uses: tuple[PortUse, ...] = share_of(self.uses, ctx.host.name)
        taken: dict[int, tuple[PortUse, Port]] = {}
        for use in uses:
            for port in facts.ports:
                if _clash(use, port) and not (ours and _is_own(use, port)):
                    taken.setdefault(use.port, (use, port))
        for use, port in taken.values():
            who = f"{port.process} (pid {port.pid})" if port.process else "something"
            setting = f", or choose another with {use.setting}" if use.setting else ""
            yield Finding(f"{use.protocol} port {use.port}, for {use.user}, is used by {who}", f"stop it{setting}")
        first, last = self.node_ports
        is_node = any(use.user == KUBELET for use in uses)
        strays = {
            port.port: port.process or "something"
            for port in facts.ports
            if is_node and first <= port.port <= last and port.process != "kube-proxy" and port.protocol == "tcp"
        }
        if strays:
            listed = few(f"{port} ({process})" for port, process in sorted(strays.items()))
            yield Finding(
                f"ports that services of type NodePort may get are in use: {listed}",
                "a service that is given one cannot be reached on this host; see kubernetes.serviceNodePorts",
                warning=True,
            )

    def describe(self) -> str:
        """The state."""
        return "ports free"


def _clash(use: PortUse, port: Port) -> bool:
    if (use.port, use.protocol) != (port.port, port.protocol):
        return False
    return not use.address or port.address in _ANY or port.address == use.address


def _is_own(use: PortUse, port: Port) -> bool:
    """True for the program that belongs there; the kernel and other namespaces name none."""
    return not port.process or any(port.process == name[:15] for name in use.processes)


def _normal(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def _same(one: str, other: str) -> bool:
    return _normal(one) == _normal(other)


def _inside(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return found.version == network.version and found in network
