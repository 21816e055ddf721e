"""Processes: which run, and ending them. Must not know what they do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.connector.base import shell
from kubexm.runner.base import Operations
from kubexm.runner.facts.sections import split_files

__all__ = ["Process", "Processes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process; its start time tells it from a later one with the same number."""

    pid: int
    parent: int
    name: str
    started: int
    """In clock ticks after boot."""
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Its command line."""
        return " ".join(self.arguments) or f"[{self.name}]"


@dataclass(frozen=True, slots=True)
class Processes(Operations):
    """Processes of the host."""

    async def list(self) -> tuple[Process, ...]:
        """Every process, by number."""
        script = "head -v -c 4096 /proc/[0-9]*/stat /proc/[0-9]*/cmdline 2>/dev/null; :"
        result = await self._read(script, "list processes", long=True)
        return _parse(self._checked(result).stdout.decode(errors="replace"))

    async def named(self, name: str) -> tuple[Process, ...]:
        """Those whose program has this name."""
        return tuple(p for p in await self.list() if p.name == name[:15] or _program(p) == name)

    async def end(self, processes: Iterable[Process], *, grace: float = 10.0) -> bool:
        """They are gone: asked to end, and after `grace` seconds made to. False if none was there any more."""
        pairs = [f"{process.pid}:{process.started}" for process in processes]
        script = f"""kx_alive() {{
  for kx_p in {shell(*pairs) or "''"}; do
    kx_s=
    {{ IFS= read -r kx_s </proc/"${{kx_p%:*}}"/stat; }} 2>/dev/null || continue
    kx_pid=${{kx_p%:*}} kx_at=${{kx_p#*:}}
    set -- ${{kx_s##*) }}
    if [ "${{20}}" = "$kx_at" ] && [ "$1" != Z ]; then printf '%s ' "$kx_pid"; fi
  done
}}
kx_pids=$(kx_alive)
if [ -z "$kx_pids" ]; then echo same; exit 0; fi
kill -TERM $kx_pids 2>/dev/null
kx_left={max(1, round(grace * 5))}
while [ "$kx_left" -gt 0 ]; do
  kx_pids=$(kx_alive)
  if [ -z "$kx_pids" ]; then echo changed; exit 0; fi
  sleep 0.2; kx_left=$((kx_left - 1))
done
kill -KILL $kx_pids 2>/dev/null
for kx_left in 1 2 3 4 5 6 7 8 9 10; do
  if [ -z "$(kx_alive)" ]; then echo changed; exit 0; fi
  sleep 0.2
done
echo "still there: $(kx_alive)" >&2
exit 1"""
        result = await self._change(script, f"end processes {' '.join(pairs)}", within=grace + 60, long=True)
        hint = (
            "They hang in the kernel, often on a dead disk or NFS mount: `ps -o stat,wchan` shows it; a reboot helps."
        )
        return self._checked(result, hint=hint if "still there" in result.error_text else "").text == "changed"


def _parse(text: str) -> tuple[Process, ...]:
    files = split_files(text)
    found = []
    for path, stat in files.items():
        at = re.match(r"^/proc/(\d+)/stat$", path)
        fields = re.match(r"^\d+ \((.*)\) (.+)$", stat.strip(), re.DOTALL)
        if not at or not fields:
            continue
        rest = fields[2].split()
        line = files.get(f"/proc/{at[1]}/cmdline", "").rstrip("\n\0")
        found.append(
            Process(
                pid=int(at[1]),
                parent=int(rest[1]),
                name=fields[1],
                started=int(rest[19]),
                arguments=tuple(line.split("\0")) if line else (),
            )
        )
    return tuple(sorted(found, key=lambda process: process.pid))


def _program(process: Process) -> str:
    return process.arguments[0].split(" ")[0].rsplit("/", 1)[-1] if process.arguments else process.name
