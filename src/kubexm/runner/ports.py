"""Ports: which are taken and by whom, and whether another host's can be reached. Must not know what listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import Enum

from kubexm.connector.base import shell
from kubexm.runner.base import Operations
from kubexm.runner.facts.model import Port
from kubexm.runner.facts.network import parse_proc_ports, parse_ss
from kubexm.runner.facts.sections import split_files

__all__ = ["Ports", "Reach"]

_LIST = """if command -v ss >/dev/null; then echo ss; ss -H -l -t -u -n -p; else
echo proc; head -v -c 262144 /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6 2>/dev/null
printf '\\0'; ls -l /proc/[0-9]*/fd 2>/dev/null | grep -E '^/proc/|socket:'
printf '\\0'; grep -s '' /proc/[0-9]*/comm; fi; :"""


class Reach(Enum):
    """What came of trying a port on another host."""

    OPEN = "open"
    REFUSED = "refused"
    """The host answers, nothing listens."""
    FILTERED = "filtered"
    """No answer: a firewall drops it, or the host is down."""
    UNREACHABLE = "unreachable"
    """No route, or an answer that says so."""
    UNKNOWN = "unknown"
    """This host has no program to try with."""


@dataclass(frozen=True, slots=True)
class Ports(Operations):
    """Ports of the host."""

    async def listening(self) -> tuple[Port, ...]:
        """Every listening port, with its process where the host can tell."""
        text = self._checked(await self._read(_LIST, "list listening ports")).stdout.decode(errors="replace")
        kind, _, rest = text.partition("\n")
        if kind == "ss":
            return parse_ss(rest.split("\n"))
        tables, fds, comms = [*rest.split("\0", 2), "", ""][:3]
        return parse_proc_ports(split_files(tables), fds.split("\n"), comms.split("\n"))

    async def taken(self, port: int, *, protocol: str = "tcp", address: str = "") -> Port | None:
        """Who has the port (on this address, or any), or None if it is free."""
        return next((p for p in await self.listening() if _clashes(p, port, protocol, address)), None)

    async def reach(self, address: str, port: int, *, within: float = 3.0) -> Reach:
        """Whether a TCP connection from this host to that address and port comes about."""
        ipaddress.ip_address(address)
        script = f"""kx_a={shell(address)} kx_p={shell(port)} kx_w={shell(f"{within:g}")}
if command -v bash >/dev/null; then
  kx_out=$(timeout "$kx_w" bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$kx_a" "$kx_p" 2>&1)
elif command -v nc >/dev/null; then kx_out=$(timeout "$kx_w" nc -z -v "$kx_a" "$kx_p" 2>&1 </dev/null)
elif command -v curl >/dev/null; then
  kx_out=$(curl -sS -o /dev/null --connect-timeout "$kx_w" --max-time "$kx_w" "telnet://[$kx_a]:$kx_p" 2>&1 </dev/null)
else echo unknown; exit 0; fi
kx_rc=$?
case $kx_rc:$kx_out in
  0:*) echo open ;;
  *efused*) echo refused ;;
  *oute*|*nreachable*) echo unreachable ;;
  *) echo filtered ;;
esac"""
        result = await self._read(script, f"try {address} port {port}", within=within + 15, long=True)
        return Reach(self._checked(result).text)


def _clashes(listening: Port, port: int, protocol: str, address: str) -> bool:
    if listening.port != port or listening.protocol != protocol:
        return False
    everywhere = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
    return listening.address in everywhere or address in everywhere or listening.address == address
