"""The host's firewall: which one is active, and openings in it. Must not know what the ports are for.

What kubexm opened is kept among the originals (firewalld, ufw), or is a unit whose stop closes it again (plain rules).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, library
from kubexm.runner.files import Files
from kubexm.runner.originals import Originals, Restored
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


@lru_cache(maxsize=1024)
def _version(network: str) -> int:
    """The IP version of a network; the same few are asked for on every host."""
    return ipaddress.ip_network(network, strict=False).version


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A port (or a range up to `to`) that is to be reachable, from everywhere or from one network.

    Port 0 is everything that comes from the network, and everything that is forwarded from it or to it.
    """

    port: int
    to: int | None = None
    protocol: str = "tcp"
    source: str = ""

    def __post_init__(self) -> None:
        least = 0 if self.source else 1
        if self.protocol not in ("tcp", "udp") or not least <= self.port <= (self.to or self.port) <= 65535:
            raise ValueError(f"not an opening: {self}")
        if self.source:
            _version(self.source)

    @classmethod
    def network(cls, source: str) -> Opening:
        """Everything from and to a network."""
        return cls(port=0, source=source)

    @property
    def version(self) -> int:
        """The IP version of its source, 0 for both."""
        return _version(self.source) if self.source else 0

    def ports(self, separator: str) -> str:
        """The port or the range."""
        return f"{self.port}{separator}{self.to}" if self.to else str(self.port)

    def __str__(self) -> str:
        where = f" from {self.source}" if self.source else ""
        return f"{self.ports('-')}/{self.protocol}{where}" if self.port else f"all{where}"


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

    async def open(
        self, openings: Sequence[Opening], *, keep: bool = True, snapshot: PurePosixPath | None = None
    ) -> bool:
        """The active firewall has these openings, now and after a boot. False if it had already, or none is active."""
        state = await self.look(openings)
        if not state.missing:
            return False
        if state.kind in ("nftables", "iptables"):
            await self._open_rules(state.kind, openings, keep, snapshot)
            return True
        roots = [self._root(True)] if keep else []
        roots += [str(snapshot)] if snapshot is not None else []
        lines = []
        for opening in state.missing:
            name = _name(state.kind, opening)
            lines += [f"kx_note {shell(root)} firewall {shell(name)} absent || exit 1" for root in roots]
            lines.append(f"{_add(state.kind, opening)} || exit 1")
        script = library("originals") + "\n".join(lines)
        self._checked(await self._change(script, f"open {len(state.missing)} ports in {state.kind}"))
        return True

    async def opened(self, *, under: PurePosixPath | None = None) -> tuple[str, ...]:
        """What kubexm opened in firewalld or ufw and has not closed again; plain rules go when their unit stops."""
        root = shell(self._root(True) if under is None else str(under))
        script = f'for e in {root}/firewall/*; do if [ -d "$e" ]; then cat -- "$e/name"; fi; done'
        text = self._checked(await self._read(script, "list what kubexm opened")).text
        return tuple(name for name in text.split("\n") if name)

    async def close_opened(self, *, under: PurePosixPath | None = None) -> tuple[str, ...]:
        """What kubexm opened, or just a run whose snapshot is `under`, is closed again; what there was of it."""
        found = await self.opened(under=under)
        roots = [self._root(True), *([str(under)] if under is not None else [])]
        lines = []
        for name in found:
            kind, o = _parsed(name)
            lines.append(f"if {_present(kind)}; then {_delete(kind, o)}; fi")
            lines += [f'kx_entry {shell(root, "firewall", name)}; rm -rf -- "$kx_e"' for root in roots]
        if lines:
            script = library("originals") + "\n".join([*lines, ":"])
            self._checked(await self._change(script, f"close {len(found)} openings", long=True))
        return found

    async def undo(self, snapshot: PurePosixPath) -> tuple[Restored, ...]:
        """The openings are those from before the run whose snapshot this is; what came of its files, if it had any."""
        await self.close_opened(under=snapshot)
        originals = Originals(self.connector, self.facts, state=self.state)
        paths = {str(_UNIT_PATH), str(self._script_path)}
        kept = [item for item in await originals.list(under=snapshot) if item.kind == "file" and item.name in paths]
        if not kept:
            return ()
        services = Services(self.connector, self.facts, state=self.state)
        is_new = any(item.name == str(_UNIT_PATH) and item.was_absent for item in kept)
        if is_new:  # closes what it opened, so before its script is gone
            await services.stop(_UNIT)
            await services.disable(_UNIT)
        restored = [await originals.restore_path(item.name, under=snapshot) for item in kept]
        await services.daemon_reload()
        if not is_new:
            await services.restart(_UNIT, [self._script_path])
        return tuple(restored)

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

    async def _open_rules(
        self, kind: str, openings: Sequence[Opening], keep: bool, snapshot: PurePosixPath | None
    ) -> None:
        """Plain rules live until the next boot only, so a unit of ours puts them in, now and then."""
        files = Files(self.connector, self.facts, state=self.state)
        rules = "\n".join(f"{_query(kind, o)} >/dev/null 2>&1 || {_add(kind, o)} || exit 1" for o in openings)
        undo = _close_all(kind)
        head = "#!/bin/sh\n# Managed by kubexm: lets the cluster's ports in.\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
        script = f'{head}if [ "${{1-}}" = close ]; then\n{undo}\n  exit 0\nfi\n{rules}\n'
        unit = (
            "[Unit]\nDescription=Ports of the Kubernetes cluster, opened by kubexm\n"
            "After=nftables.service iptables.service netfilter-persistent.service network-pre.target\n\n"
            f"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh {self._script_path}\n"
            f"ExecStop=/bin/sh {self._script_path} close\n\n"
            "[Install]\nWantedBy=multi-user.target\n"
        )
        await files.write(self._script_path, script, mode=0o700, keep=False, snapshot=snapshot)
        await files.write(_UNIT_PATH, unit, keep=keep, snapshot=snapshot)
        await Services(self.connector, self.facts, state=self.state).restart(_UNIT, [self._script_path], keep=keep)

    @property
    def _script_path(self) -> PurePosixPath:
        return self.state / "firewall.sh"


def _query(kind: str, o: Opening) -> str:
    if kind == "firewalld":
        now, later = _firewalld(o, "query"), _firewalld(o, "query", permanent=True)
        return f"{now} && {later}"
    if kind == "ufw":
        added = "ufw show added | sed \"s/ comment '.*'$//\""
        return " && ".join(f"{added} | grep -qxF -- {shell(' '.join(words))}" for words in _ufw(o))
    if kind == "iptables":
        return " && ".join(_iptables(o, "-C"))
    return f"nft list ruleset | grep -qF -- {shell(_nft_comment(o))}"


def _add(kind: str, o: Opening) -> str:
    if kind == "firewalld":
        return f"{_firewalld(o, 'add')} && {_firewalld(o, 'add', permanent=True)}"
    if kind == "ufw":
        return " && ".join(shell(*words, "comment", "kubexm") for words in _ufw(o))
    if kind == "iptables":
        pairs = zip(_iptables(o, "-C"), _iptables(o, "-I"), strict=True)
        return " && ".join(f"{{ {there} 2>/dev/null || {insert}; }}" for there, insert in pairs)
    return _each_nft(o)


def _delete(kind: str, o: Opening) -> str:
    if kind == "firewalld":
        return f"{_firewalld(o, 'remove')}; {_firewalld(o, 'remove', permanent=True)}"
    if kind == "ufw":
        return "; ".join(_ufw_delete(words) for words in _ufw(o))
    if kind == "iptables":
        return "; ".join(
            f"while {there} 2>/dev/null && {drop}; do :; done"
            for there, drop in zip(_iptables(o, "-C"), _iptables(o, "-D"), strict=True)
        )
    find = f'nft -a list chain "$f" "$t" "$c" | grep -F -- {shell(_nft_comment(o))} | sed "s/.*# handle //"'
    drop = f'{find} | while read -r h; do nft delete rule "$f" "$t" "$c" handle "$h"; done'
    hooks = ("input",) if o.port else ("input", "forward")
    return "; ".join(f"{_nft_chains(hook)} | while read -r f t c; do {drop}; done" for hook in hooks)


def _firewalld(o: Opening, verb: str, *, permanent: bool = False) -> str:
    words = ["firewall-cmd", "-q", *(["--permanent"] if permanent else [])]
    if not o.port:
        return shell(*words, "--zone=trusted", f"--{verb}-source={o.source}")
    if not o.source:
        return shell(*words, f"--{verb}-port={o.ports('-')}/{o.protocol}")
    rule = (
        f'rule family="ipv{o.version}" source address="{o.source}" '
        f'port port="{o.ports("-")}" protocol="{o.protocol}" accept'
    )
    return shell(*words, f"--{verb}-rich-rule={rule}")


def _ufw(o: Opening) -> list[tuple[str, ...]]:
    if not o.port:
        allow = ("ufw", "allow", "from", o.source)
        return [allow, *(("ufw", "route", "allow", way, o.source) for way in ("from", "to"))]
    if o.source:
        return [("ufw", "allow", "from", o.source, "to", "any", "port", o.ports(":"), "proto", o.protocol)]
    return [("ufw", "allow", f"{o.ports(':')}/{o.protocol}")]


def _ufw_delete(words: tuple[str, ...]) -> str:
    at = 2 if words[1] == "route" else 1
    return shell(*words[:at], "delete", *words[at:])


def _iptables(o: Opening, verb: str) -> list[str]:
    """A command for each IP version; a host without ip6tables has no IPv6 rules that could be in the way."""
    if o.port:
        rules = [["INPUT", "-p", o.protocol, *(["-s", o.source] if o.source else []), "--dport", o.ports(":")]]
    else:
        rules = [["INPUT", "-s", o.source], ["FORWARD", "-s", o.source], ["FORWARD", "-d", o.source]]
    commands = []
    for rule in rules:
        words = [verb, *rule, "-m", "comment", "--comment", "kubexm", "-j", "ACCEPT"]
        commands += [shell("iptables", "-w", *words)] if o.version in (0, 4) else []
        if o.version in (0, 6):
            missing = "true" if verb in ("-C", "-I") else "false"
            six = shell("ip6tables", "-w", *words)
            commands.append(f"if command -v ip6tables >/dev/null; then {six}; else {missing}; fi")
    return commands


def _nft_comment(o: Opening) -> str:
    return f'comment "kubexm {o.ports("-")}/{o.protocol} {o.source or "any"}"'


def _nft_chains(hook: str = "input") -> str:
    """Family, table and name of each chain that filters what comes in, or is forwarded."""
    return (
        r"nft list chains | sed -n -e 's/^table \([a-z0-9]*\) \([^ ]*\) {/T \1 \2/p' "
        r"-e 's/^[[:space:]]*chain \([^ ]*\) {/C \1/p' "
        rf"-e 's/.*type filter hook {hook}.*/H/p' | "
        r"while read -r k a b; do case $k in T) f=$a t=$b ;; C) c=$a ;; "
        r'H) case $f in ip|ip6|inet) printf "%s %s %s\n" "$f" "$t" "$c" ;; esac ;; esac; done'
    )


def _each_nft(o: Opening) -> str:
    family = f"ip{'6' if o.version == 6 else ''}"
    source = f"{family} saddr {o.source} " if o.source else ""
    if o.port:
        rules = [("input", f"{source}{o.protocol} dport {o.ports('-')}")]
    else:
        rules = [("input", source), ("forward", source), ("forward", f"{family} daddr {o.source}")]
    fits = {4: "ip|inet", 6: "ip6|inet", 0: "ip|ip6|inet"}[o.version]
    commands = []
    for hook, match in rules:
        rule = shell(*match.split(), "accept", *_nft_comment(o).split(" ", 1))
        insert = f'case $f in {fits}) nft insert rule "$f" "$t" "$c" {rule} ;; esac'
        commands.append(f"{_nft_chains(hook)} | while read -r f t c; do {insert}; done")
    return " && ".join(commands)


def _close_all(kind: str) -> str:
    """Takes every rule of ours away, also those of openings that are not wanted any more."""
    if kind == "iptables":
        find = "$p -w -S $c 2>/dev/null | grep -e '--comment kubexm -j ACCEPT' | sed 's/^-A/-D/'"
        return (
            f"for p in iptables ip6tables; do for c in INPUT FORWARD; do {find} | "
            "while read -r r; do $p -w $r; done; done; done"
        )
    find = """nft -a list chain "$f" "$t" "$c" | grep -F 'comment "kubexm ' | sed 's/.*# handle //'"""
    drop = f'{find} | while read -r h; do nft delete rule "$f" "$t" "$c" handle "$h"; done'
    return "; ".join(f"{_nft_chains(hook)} | while read -r f t c; do {drop}; done" for hook in ("input", "forward"))


def _present(kind: str) -> str:
    """A firewall that was switched off or removed since has nothing to close."""
    program = {"firewalld": "firewall-cmd"}.get(kind, kind)
    return f"command -v {program} >/dev/null"


def _name(kind: str, o: Opening) -> str:
    return f"{kind} {o.protocol} {o.port} {o.to or '-'} {o.source or '-'}"


def _parsed(name: str) -> tuple[str, Opening]:
    kind, protocol, port, to, source = name.split(" ")
    return kind, Opening(
        port=int(port),
        to=None if to == "-" else int(to),
        protocol=protocol,
        source="" if source == "-" else source,
    )
