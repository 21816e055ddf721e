"""How a host is, as far as anybody could care: taken before create and after delete or rollback, it must be the same.

What may differ is written in docs/delete.md and docs/rollback.md and read from there, so that the pages and the proof
cannot part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kubexm.lab import Lab

__all__ = ["Snapshot", "allowed_to_differ", "take"]

_DOCS = Path(__file__).parents[2] / "docs"
_SCRIPT = r"""
s() { printf '\n=== %s\n' "$1"; }
# The bus starts it for whoever asks the time, and it ends by itself after half a minute.
n=0; while systemctl is-active -q systemd-timedated && [ "$n" -lt 90 ]; do n=$((n + 1)); sleep 1; done
s files
find / \( -path /proc -o -path /sys -o -path /dev \) -prune -o ! -type f -printf '%p\t%y %m %U:%G %l\n'
s sums
find / \( -path /proc -o -path /sys -o -path /dev -o -path /var/log/journal \) -prune -o -type f \
  -printf '%p\t%m %U:%G\n' | sort >/tmp/snapshot.files
cut -f1 /tmp/snapshot.files | tr '\n' '\0' | xargs -0 sha256sum 2>/dev/null | sed 's/^\([0-9a-f]*\)  /\1\t/'
s modes
cat /tmp/snapshot.files
s unit-files; systemctl list-unit-files --no-legend --no-pager --plain | sort
s units; systemctl list-units --all --no-legend --no-pager --plain | cut -c1-400 | sort
s mounts; sed 's/.* - //; ' /proc/self/mountinfo >/dev/null; while read -r _ _ _ root path options rest; do
  printf '%s\t%s %s\n' "$path" "$root" "${rest#* - }"; done </proc/self/mountinfo | sort
s links; ip -o -d link show | sed 's/^[0-9]*: //' | sort
s addresses; ip -o addr show | sed 's/^[0-9]*: //' | sort
s routes; ip route show table all; ip -6 route show table all; ip rule; ip -6 rule
s iptables; for p in iptables ip6tables; do if command -v $p-save >/dev/null; then $p-save; fi; done
s nft; if command -v nft >/dev/null; then nft list ruleset; fi
s sets; if command -v ipset >/dev/null; then ipset list -n; fi
s processes; ps -eo ppid=,comm=,args= | sed 's/^ *//' | sort
s listening; ss -H -l -t -u -n | sed 's/  */ /g' | cut -d' ' -f1,5 | sort
s sysctl; sysctl -a 2>/dev/null | sort
s packages; dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n'
s cgroups; find /sys/fs/cgroup -type d -name 'kubepods*' 2>/dev/null; :
s namespaces; ls -1 /run/netns 2>/dev/null; :
rm -f /tmp/snapshot.files
"""
_SHELLS = re.compile(r"^\d+ (sshd|sh|bash|ps|sed|sort|sudo|systemd-userwor|\(sd-pam\))\b|\[.*\]$")
_COUNTERS = re.compile(r"\[\d+:\d+\]")
_EMPTY_CHAIN = re.compile(r"^:[A-Z]+ ACCEPT \[\d+:\d+\]$")


@dataclass(frozen=True)
class Snapshot:
    """Sections of things, each by a name of its own."""

    sections: Mapping[str, Mapping[str, str]]

    def differences(self, later: Snapshot, allowed: Mapping[str, tuple[str, ...]]) -> list[str]:
        """What is gone, new or other, but for what may differ."""
        found = []
        for section, before in self.sections.items():
            after = later.sections[section]
            for name in sorted(before.keys() | after.keys()):
                if before.get(name) == after.get(name) or _matches(name, allowed.get(section, ())):
                    continue
                found.append(f"{section} {name}: {before.get(name, 'nothing')!r} → {after.get(name, 'nothing')!r}")
        return found


def allowed_to_differ(*pages: str) -> dict[str, tuple[str, ...]]:
    """The written list: patterns by section, from docs/delete.md's table and others'; a `!` takes names out again."""
    text = "\n".join((_DOCS / f"{page}.md").read_text() for page in ("delete", *pages))
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE)
    found: dict[str, list[str]] = {}
    for section, pattern in rows:
        found.setdefault(section, []).append(pattern)
    return {section: tuple(patterns) for section, patterns in found.items()}


def take(lab: Lab, host: str) -> Snapshot:
    """How the host is now."""
    text = lab.run(host, _SCRIPT, user="root", timeout=300)
    raw: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.split("\n"):
        if line.startswith("=== "):
            current = raw.setdefault(line[4:], [])
        elif line:
            current.append(line)
    files = _pairs(raw["files"])
    sums = {path: digest for digest, _, path in (line.partition("\t") for line in raw["sums"])}
    files |= {path: f"{mode} {sums.get(path, '')}" for path, mode in _pairs(raw["modes"]).items()}
    return Snapshot(
        {
            "file": {path: state for path, state in files.items() if not path.startswith("/tmp/snapshot.")},
            "unit": _units(raw),
            "mount": _counted(raw["mounts"]),
            "interface": _counted(_plain_link(line) for line in raw["links"]),
            "address": _counted(re.sub(r"valid_lft.*", "", line) for line in raw["addresses"]),
            "route": _counted(raw["routes"]),
            "rule": _counted(_rules(raw["iptables"])) | _counted(raw["nft"]) | _counted(raw["sets"]),
            "process": _counted(_processes(raw["processes"])),
            "port": _counted(raw["listening"]),
            "sysctl": dict(_setting(line) for line in raw["sysctl"] if " = " in line),
            "package": _counted(raw["packages"]),
            "cgroup": _counted([*raw.get("cgroups", []), *raw.get("namespaces", [])]),
        }
    )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    found = [pattern for pattern in patterns if fnmatchcase(name, pattern.removeprefix("!"))]
    return bool(found) and not any(pattern.startswith("!") for pattern in found)


def _pairs(lines: list[str]) -> dict[str, str]:
    return {path: rest for path, _, rest in (line.partition("\t") for line in lines)}


def _counted(lines: object) -> dict[str, str]:
    counts: dict[str, int] = {}
    for line in lines:  # type: ignore[attr-defined]
        counts[line] = counts.get(line, 0) + 1
    return {line: str(count) for line, count in counts.items()}


def _units(raw: Mapping[str, list[str]]) -> dict[str, str]:
    found = {}
    for line in raw["unit-files"]:
        name, state, *_ = line.split()
        found[name] = state
    for line in raw["units"]:
        name, load, active, sub, *_ = line.split()
        found[name] = f"{found.get(name, '')} {load} {active} {sub}"
    return found


def _plain_link(line: str) -> str:
    """Without what changes by itself: queue lengths, states of the other end, random MAC addresses of new ones."""
    name = line.split(":", maxsplit=1)[0]
    mtu = re.search(r"mtu (\d+)", line)
    return f"{name.partition('@')[0]} mtu {mtu[1] if mtu else '?'}"


def _rules(lines: list[str]) -> list[str]:
    """Rules and chains, in their tables; one of the kernel's own that is empty and lets all pass is as good as none."""
    found, table = [], ""
    for line in lines:
        if line.startswith("*"):
            table = line
        elif not line.startswith("#") and line != "COMMIT" and _EMPTY_CHAIN.match(line) is None:
            found.append(f"{table} {_COUNTERS.sub('', line)}")
    return found


def _processes(lines: list[str]) -> list[str]:
    """Their command lines; neither those of logins nor those that the kernel starts."""
    return [line.split(" ", 2)[2] for line in lines if _SHELLS.search(line) is None and line.count(" ") >= 2]


def _setting(line: str) -> tuple[str, str]:
    key, _, value = line.partition(" = ")
    return key, value
