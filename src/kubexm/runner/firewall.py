"""The host's firewall: which one is active, and openings in it. Must not know what the ports are for."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations
from kubexm.runner.files import Files
from kubexm.runner.services import Services

__all__ = ["Firewall", "FirewallState", "Opening"]

_UNIT = "kubexm-firewall.service"
_UNIT_PATH = PurePosixPath("/etc/systemd/system") / _UNIT
_DETECT = """if command -v firewall-cmd >/dev/null && [ "$(firewall-cmd --state 2>/dev/null)" = running ]; then
  echo firewalld; exit 0; fi
if command -v ufw >/dev/null && ufw status 2>/dev/null | grep -q '^Status: active'; then echo ufw; exit 0; fi
if command -v nft >/dev/null && nft list ruleset 2>/dev/null | grep -E 'hook input' | grep -q 'policy drop'; then
  # Chains that iptables made through nft take iptables' rules.
  if nft list chain ip filter INPUT 2>/dev/null | grep -q 'policy drop' && command -v iptables >/dev/null; then
    echo iptables; else echo nftables; fi; exit 0; fi
if command -v iptables >/dev/null && iptables -S INPUT 2>/dev/null | grep -qE '^-P INPUT DROP|-j (REJECT|DROP)'; then
  echo iptables; exit 0; fi
echo none
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A port (or a range up to `to`) that is to be reachable, from everywhere or from some networks."""

    port: int
    to: int | None = None
    protocol: str = "tcp"
    source: str = ""

    def __post_init__(self) -> None:
        if self.protocol not in ("tcp", "udp") or not 0 < self.port <= (self.to or self.port) <= 65535:
            raise ValueError(f"not an opening: {self}")
        if self.source:
            ipaddress.ip_network(self.source, strict=False)

    @property
    def version(self) -> int:
        """The IP version of its source, 0 for both."""
        return ipaddress.ip_network(self.source, strict=False).version if self.source else 0

    def ports(self, separator: str) -> str:
        """The port or the range."""
        return f"{self.port}{separator}{self.to}" if self.to else str(self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirewallState:
    """The active firewall (firewalld, ufw, nftables, iptables) or none, and what is not open in it."""

    kind: str
    missing: tuple[Opening, ...] = ()


@dataclass(frozen=True, slots=True)
class Firewall(Operations):
    """The firewall of the host. One that lets everything in, or is not active, needs no openings."""

    async def detect(self) -> str:
        """firewalld, ufw, nftables, iptables or none."""
        return self._checked(await self._read(_DETECT, "look for a firewall")).text

    async def look(self, openings: Sequence[Opening]) -> FirewallState:
        """Which firewall is active, and which of these openings it does not have."""
        kind = await self.detect()
        if kind == "none":
            return FirewallState(kind=kind)
        script = "\n".join(f"{_query(kind, o)} >/dev/null 2>&1 && echo yes || echo no" for o in openings)
        if kind in ("nftables", "iptables"):
            script = f"if ! [ -e {shell(_UNIT_PATH)} ]; then exit 0; fi\n{script}"
        answers = self._checked(await self._read(script or ":", "look for openings in the firewall")).text.split("\n")
        open_now = [answer == "yes" for answer in answers]
        missing = tuple(o for i, o in enumerate(openings) if not (i < len(open_now) and open_now[i]))
        return FirewallState(kind=kind, missing=missing)

    async def open(self, openings: Sequence[Opening], *, keep: bool = True) -> bool:
        """The active firewall has these openings, now and after a boot. False if it had already, or none is active."""
        state = await self.look(openings)
        if not state.missing:
            return False
        if state.kind in ("nftables", "iptables"):
            await self._open_rules(state.kind, openings, keep)
            return True
        script = "\n".join(f"{_add(state.kind, o)} || exit 1" for o in state.missing)
        self._checked(await self._change(script, f"open {len(state.missing)} ports in {state.kind}"))
        return True

    async def close(self, openings: Sequence[Opening]) -> None:
        """These openings are gone again."""
        kind = await self.detect()
        script = "\n".join(f"{_delete(kind, o)} || :" for o in openings)
        if kind != "none" and openings:
            self._checked(await self._change(script + "\n:", f"close {len(openings)} ports in {kind}"))
        services = Services(self.connector, self.facts, state=self.state)
        if (await services.status(_UNIT)).present:
            files = Files(self.connector, self.facts, state=self.state)
            await services.stop(_UNIT, keep=False)
            await services.disable(_UNIT, keep=False)
            await files.remove(_UNIT_PATH)
            await files.remove(self._script_path, keep=False)
            await services.daemon_reload()

    async def _open_rules(self, kind: str, openings: Sequence[Opening], keep: bool) -> None:
        """Plain rules live until the next boot only, so a unit of ours puts them in, now and then."""
        files = Files(self.connector, self.facts, state=self.state)
        rules = "\n".join(f"{_query(kind, o)} >/dev/null 2>&1 || {_add(kind, o)} || exit 1" for o in openings)
        head = "#!/bin/sh\n# Managed by kubexm: lets the cluster's ports in.\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
        script = f"{head}{rules}\n"
        unit = (
            "[Unit]\nDescription=Ports of the Kubernetes cluster, opened by kubexm\n"
            "After=nftables.service iptables.service netfilter-persistent.service network-pre.target\n\n"
            f"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh {self._script_path}\n\n"
            "[Install]\nWantedBy=multi-user.target\n"
        )
        await files.write(self._script_path, script, mode=0o700, keep=False)
        await files.write(_UNIT_PATH, unit, keep=keep)
        await Services(self.connector, self.facts, state=self.state).restart(_UNIT, [self._script_path], keep=keep)

    @property
    def _script_path(self) -> PurePosixPath:
        return self.state / "firewall.sh"


def _query(kind: str, o: Opening) -> str:
    if kind == "firewalld":
        now, later = _firewalld(o, "query"), _firewalld(o, "query", permanent=True)
        return f"{now} && {later}"
    if kind == "ufw":
        return f"ufw show added | sed \"s/ comment '.*'$//\" | grep -qxF -- {shell(' '.join(_ufw(o)))}"
    if kind == "iptables":
        return " && ".join(_iptables(o, "-C"))
    return f"nft list ruleset | grep -qF -- {shell(_nft_comment(o))}"


def _add(kind: str, o: Opening) -> str:
    if kind == "firewalld":
        return f"{_firewalld(o, 'add')} && {_firewalld(o, 'add', permanent=True)}"
    if kind == "ufw":
        return shell(*_ufw(o), "comment", "kubexm")
    if kind == "iptables":
        pairs = zip(_iptables(o, "-C"), _iptables(o, "-I"), strict=True)
        return " && ".join(f"{{ {there} 2>/dev/null || {insert}; }}" for there, insert in pairs)
    return _each_nft(o)


def _delete(kind: str, o: Opening) -> str:
    if kind == "firewalld":
        return f"{_firewalld(o, 'remove')}; {_firewalld(o, 'remove', permanent=True)}"
    if kind == "ufw":
        return shell("ufw", "delete", *_ufw(o)[1:])
    if kind == "iptables":
        return "; ".join(
            f"while {there} 2>/dev/null && {drop}; do :; done"
            for there, drop in zip(_iptables(o, "-C"), _iptables(o, "-D"), strict=True)
        )
    find = f'nft -a list chain "$f" "$t" "$c" | grep -F -- {shell(_nft_comment(o))} | sed "s/.*# handle //"'
    drop = f'{find} | while read -r h; do nft delete rule "$f" "$t" "$c" handle "$h"; done'
    return f"{_nft_chains()} | while read -r f t c; do {drop}; done"


def _firewalld(o: Opening, verb: str, *, permanent: bool = False) -> str:
    words = ["firewall-cmd", "-q", *(["--permanent"] if permanent else [])]
    if not o.source:
        return shell(*words, f"--{verb}-port={o.ports('-')}/{o.protocol}")
    rule = (
        f'rule family="ipv{o.version}" source address="{o.source}" '
        f'port port="{o.ports("-")}" protocol="{o.protocol}" accept'
    )
    return shell(*words, f"--{verb}-rich-rule={rule}")


def _ufw(o: Opening) -> tuple[str, ...]:
    if o.source:
        return ("ufw", "allow", "from", o.source, "to", "any", "port", o.ports(":"), "proto", o.protocol)
    return ("ufw", "allow", f"{o.ports(':')}/{o.protocol}")


def _iptables(o: Opening, verb: str) -> list[str]:
    """A command for each IP version; a host without ip6tables has no IPv6 rules that could be in the way."""
    words = [verb, "INPUT", "-p", o.protocol, *(["-s", o.source] if o.source else []), "--dport", o.ports(":")]
    words += ["-m", "comment", "--comment", "kubexm", "-j", "ACCEPT"]
    commands = [shell("iptables", "-w", *words)] if o.version in (0, 4) else []
    if o.version in (0, 6):
        missing = "true" if verb in ("-C", "-I") else "false"
        six = shell("ip6tables", "-w", *words)
        commands.append(f"if command -v ip6tables >/dev/null; then {six}; else {missing}; fi")
    return commands


def _nft_comment(o: Opening) -> str:
    return f'comment "kubexm {o.ports("-")}/{o.protocol} {o.source or "any"}"'


def _nft_chains() -> str:
    """Family, table and name of each chain that filters what comes in."""
    return (
        r"nft list chains | sed -n -e 's/^table \([a-z0-9]*\) \([^ ]*\) {/T \1 \2/p' "
        r"-e 's/^[[:space:]]*chain \([^ ]*\) {/C \1/p' -e 's/.*type filter hook input.*/H/p' | "
        r"while read -r k a b; do case $k in T) f=$a t=$b ;; C) c=$a ;; "
        r'H) case $f in ip|ip6|inet) printf "%s %s %s\n" "$f" "$t" "$c" ;; esac ;; esac; done'
    )


def _each_nft(o: Opening) -> str:
    source = f"ip{'6' if o.version == 6 else ''} saddr {o.source} " if o.source else ""
    rule = shell(*f"{source}{o.protocol} dport {o.ports('-')} accept".split(), *_nft_comment(o).split(" ", 1))
    fits = {4: "ip|inet", 6: "ip6|inet", 0: "ip|ip6|inet"}[o.version]
    insert = f'case $f in {fits}) nft insert rule "$f" "$t" "$c" {rule} ;; esac'
    return f"{_nft_chains()} | while read -r f t c; do {insert}; done"
