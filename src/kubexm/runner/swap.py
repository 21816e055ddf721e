"""Swap: what is on, and switching it off for good. Must not know who cannot bear it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, library
from kubexm.runner.facts.model import SwapDevice
from kubexm.runner.facts.parse import parse_swaps
from kubexm.runner.files import Files

__all__ = ["Swap", "SwapState", "with_swap", "without_swap"]

_FSTAB = PurePosixPath("/etc/fstab")
_MARK = "# switched off by kubexm: "


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapState:
    """Swap areas in use now, and those /etc/fstab switches on at the next boot."""

    active: tuple[SwapDevice, ...] = ()
    configured: tuple[str, ...] = ()

    @property
    def off(self) -> bool:
        """True if there is no swap, now or at the next boot."""
        return not self.active and not self.configured


@dataclass(frozen=True, slots=True)
class Swap(Operations):
    """Swap of the host."""

    async def look(self) -> SwapState:
        """What is on now and what /etc/fstab would switch on."""
        script = "cat /proc/swaps 2>/dev/null; printf '\\0'; cat /etc/fstab 2>/dev/null; :"
        active, _, fstab = self._checked(await self._read(script, "look at swap")).text.partition("\0")
        return SwapState(active=parse_swaps(active), configured=_entries(fstab))

    async def off(self, *, keep: bool = True, snapshot: PurePosixPath | None = None) -> bool:
        """No swap, now and at the next boot: fstab's lines become comments. False if there was none."""
        files = Files(self.connector, self.facts, state=self.state)
        edited = await files.edit(_FSTAB, without_swap, keep=keep, snapshot=snapshot)
        note = f"kx_note {shell(self._root(keep), 'swap', 'areas', 'on')} || exit 1" if keep else ":"
        # Swap that comes from neither fstab nor a file (zram, partitions systemd finds by itself) has to be masked.
        script = f"""{library("originals")}{library("unit")}
kx_n=0
while read -r kx_line; do kx_n=$((kx_n + 1)); done </proc/swaps
if [ "$kx_n" -le 1 ]; then echo same; exit 0; fi
{note}
kx_units=
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  kx_units=$(systemctl list-units --type=swap --all --plain --no-legend --no-pager | cut -d' ' -f1)
fi
swapoff -a || exit 1
for kx_unit_name in $kx_units; do ( kx_set {shell(self._root(keep))} "$kx_unit_name" mask ) || exit 1; done
echo changed"""
        result = await self._change(script, "switch swap off", long=True)
        hint = ""
        if "Cannot allocate memory" in result.error_text:
            hint = "What is swapped out does not fit into memory: stop something big on this host first."
        return self._checked(result, hint=hint).text.split("\n")[-1] == "changed" or edited


def without_swap(fstab: str) -> str:
    """The text of /etc/fstab with its swap entries commented out."""
    lines = fstab.split("\n")
    return "\n".join(_MARK + line if _is_swap(line) else line for line in lines)


def with_swap(fstab: str) -> str:
    """The text with the entries that kubexm made comments of."""
    return "\n".join(line.removeprefix(_MARK) for line in fstab.split("\n"))


def _entries(fstab: str) -> tuple[str, ...]:
    return tuple(line.split()[0] for line in fstab.split("\n") if _is_swap(line))


def _is_swap(line: str) -> bool:
    words = line.split()
    return len(words) >= 3 and not words[0].startswith("#") and words[2] == "swap"
