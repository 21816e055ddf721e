"""The check that hosts reach each other on the ports the cluster will use.

Nothing listens there yet, so a refused connection is a good answer: the packets got through. No answer, or an answer
that there is no way, is not. Not all pairs are tried: what must work for the cluster to come up is (nodes to API
servers, API servers to etcd, etcd to etcd, API servers to kubelets), and beyond that a ring through all nodes, so that
the number of tries per host stays small however many hosts there are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from kubexm.cache import Key, Scope
from kubexm.components.preflight.check import Finding, HostCheck, few
from kubexm.components.preflight.identity import worked_out
from kubexm.connector.base import shell
from kubexm.runtime import StepContext
from kubexm.step import Resources, resources

__all__ = ["Peer", "PeersReachable", "Target"]

_PARTS: Key[_Parts] = Key("preflight.peers", scope=Scope.STEP)
_SLICE = 16
"""Kubelets one control plane tries at most, beyond its neighbour in the ring."""
_PATIENCE = 3
_WHY = {"refused": "refused", "unreachable": "no way there", "nameless": "its name does not resolve"}

# Each try runs beside the others, so that the slowest alone decides how long it takes. What comes out is one line each:
# index, verdict. With ping alone only the way to the host is known, not to the port.
_TRY = r"""kx_try() {{
  if command -v bash >/dev/null; then
    o=$(timeout {within} bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$2" "$3" 2>&1); r=$?
  elif command -v curl >/dev/null; then
    o=$(curl -sv -o /dev/null --connect-timeout {within} --max-time {within} "http://$4:$3/" 2>&1); r=$?
    case $o in *'* Connected to'*|*'* Established connection'*) r=0 ;; esac
  elif command -v nc >/dev/null; then o=$(timeout {within} nc -z -v "$2" "$3" 2>&1 </dev/null); r=$?
  elif command -v ping >/dev/null; then
    if ping -c 1 -W {within} "$2" >/dev/null 2>&1; then echo "$1 pinged"; else echo "$1 silent"; fi
    return
  else echo "$1 unknown"; return; fi
  case $r:$o in
    0:*) echo "$1 open" ;;
    *efused*) echo "$1 refused" ;;
    *oute\ to*|*nreachable*|*rohibited*) echo "$1 unreachable" ;;
    *not\ known*|*not\ resolve*|*emporary\ failure*|*o\ address\ associated*) echo "$1 nameless" ;;
    *) echo "$1 silent" ;;
  esac
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A host as others reach it."""

    name: str
    address: str
    control_plane: bool = False
    etcd: bool = False
    node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One connection to try."""

    name: str
    address: str
    port: int
    what: str
    must_listen: bool = False
    """It is there already, so a refusal is no good answer either."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The peers by what they are, worked out once for all hosts."""

    peers: Mapping[str, Peer]
    planes: tuple[Peer, ...]
    etcd: tuple[Peer, ...]
    nodes: tuple[Peer, ...]
    place: Mapping[str, int]
    """Of each node among the nodes."""

    @classmethod
    def of(cls, peers: tuple[Peer, ...]) -> _Parts:
        nodes = tuple(peer for peer in peers if peer.node)
        return cls(
            peers={peer.name: peer for peer in peers},
            planes=tuple(peer for peer in peers if peer.control_plane),
            etcd=tuple(peer for peer in peers if peer.etcd),
            nodes=nodes,
            place={peer.name: index for index, peer in enumerate(nodes)},
        )

    def kubelets(self, me: Peer) -> list[Peer]:
        """The next node in the ring; for a control plane also its share of all nodes."""
        if not me.node or len(self.nodes) < 2:
            return []
        ring = self.nodes[(self.place[me.name] + 1) % len(self.nodes)]
        if not me.control_plane:
            return [ring]
        own = self.nodes[[plane.name for plane in self.planes].index(me.name) :: len(self.planes)]
        return [ring, *own[:: max(1, -(-len(own) // _SLICE))]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersReachable(HostCheck):
    """The host reaches those others it will talk to, on the ports it will use."""

    peers: tuple[Peer, ...]
    api_port: int
    etcd_client_port: int
    etcd_peer_port: int
    kubelet_port: int
    outside: tuple[Target, ...] = ()
    """What is not kubexm's: an etcd of the user's (from control planes), a balancer of the user's (from all nodes)."""

    async def find(self, ctx: StepContext) -> list[Finding]:
        """Tries all at once, in one read."""
        targets = self.targets(ctx)
        if not targets:
            return []
        tries = [
            f"kx_try {shell(index, target.address, target.port, _in_url(target.address))} &"
            for index, target in enumerate(targets)
        ]
        script = _TRY.format(within=_PATIENCE) + "\n".join([*tries, "wait", ":"])
        result = await ctx.host.command.read(
            script, within=30.0 + _PATIENCE, display=f"try {len(targets)} ports of peers"
        )
        verdicts = dict(line.split(" ", 1) for line in result.text.splitlines() if " " in line)
        return _findings([(target, verdicts.get(str(index), "unknown")) for index, target in enumerate(targets)])

    def targets(self, ctx: StepContext) -> list[Target]:
        """What this host tries."""
        parts = worked_out(ctx, _PARTS, lambda: _Parts.of(self.peers))
        me = parts.peers.get(ctx.host.name)
        if me is None:
            return []
        found: dict[tuple[str, int], Target] = {}

        def add(peer: Peer, port: int, what: str) -> None:
            if peer.name != me.name:
                found.setdefault(
                    (peer.address, port), Target(name=peer.name, address=peer.address, port=port, what=what)
                )

        for peer in parts.planes:
            add(peer, self.api_port, "kube-apiserver")
        for peer in parts.etcd:
            if me.control_plane:
                add(peer, self.etcd_client_port, "etcd")
            if me.etcd:
                add(peer, self.etcd_peer_port, "etcd")
        for peer in parts.kubelets(me):
            add(peer, self.kubelet_port, "kubelet")
        outside = [target for target in self.outside if me.control_plane or (me.node and not target.must_listen)]
        return [*found.values(), *outside]

    def reads(self) -> Resources:
        """The network, which what is on the host can change too."""
        return resources("network:*")

    def describe(self) -> str:
        """The state."""
        return "peers reachable"


def _findings(tried: list[tuple[Target, str]]) -> list[Finding]:
    found: list[Finding] = []
    bad = [(target, verdict) for target, verdict in tried if _is_bad(target, verdict)]
    for name, verdict in dict.fromkeys((target.name, verdict) for target, verdict in bad):
        targets = [target for target, found_so in bad if (target.name, found_so) == (name, verdict)]
        ports = few(f"{target.port} ({target.what})" for target in targets)
        why = _WHY.get(verdict, f"no answer in {_PATIENCE} s")
        found.append(
            Finding(
                f"it does not reach {name} ({targets[0].address}) on TCP {ports}: {why}",
                "see that what is behind it is running"
                if verdict == "refused"
                else "open these ports between the hosts (firewall, security group), and check routes and addresses",
            )
        )
    unsure = [target for target, verdict in tried if verdict in ("unknown", "pinged")]
    if unsure:
        found.append(
            Finding(
                "it has no bash, curl or nc, so the ports of its peers could not be tried",
                "install one of them for a full check",
                warning=True,
            )
        )
    return found


def _is_bad(target: Target, verdict: str) -> bool:
    return verdict in ("silent", "unreachable", "nameless") or (verdict == "refused" and target.must_listen)


def _in_url(address: str) -> str:
    try:
        return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        return address
