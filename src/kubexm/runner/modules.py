"""Kernel modules: there (loaded or built in), loadable or missing. Must not know what needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations
from kubexm.runner.facts.kernel import PROBES

__all__ = ["ModuleState", "Modules"]

_NAME = re.compile(r"^[A-Za-z0-9_-]+$")
_DIRECTORY = PurePosixPath("/etc/modules-load.d")
_LOOK = """kx_r=$(uname -r)
kx_module() {
  if grep -q "^$1 " /proc/modules 2>/dev/null; then echo loaded
  elif [ -d "/sys/module/$1" ] || { [ -n "$2" ] && [ -e "$2" ]; }; then echo builtin
  elif grep -qE "/$3\\.ko" "/lib/modules/$kx_r/modules.builtin" 2>/dev/null; then echo builtin
  elif grep -qE "^[^:]*/$3\\.ko" "/lib/modules/$kx_r/modules.dep" 2>/dev/null; then echo loadable
  else echo missing; fi
}
"""


class ModuleState(Enum):
    """How a kernel ability is there."""

    LOADED = "loaded"
    BUILTIN = "builtin"
    LOADABLE = "loadable"
    MISSING = "missing"

    @property
    def present(self) -> bool:
        """True if it can be used now."""
        return self in (ModuleState.LOADED, ModuleState.BUILTIN)


@dataclass(frozen=True, slots=True)
class Modules(Operations):
    """Kernel modules of the host."""

    async def states(self, names: Iterable[str]) -> dict[str, ModuleState]:
        """How each of them is there."""
        states, _ = await self._look(list(names), None)
        return states

    async def matches(self, names: Iterable[str], *, name: str = "kubexm") -> bool:
        """True if all are there now, and those that are not built in will be at the next boot."""
        wanted = list(names)
        states, persisted = await self._look(wanted, name)
        listed = set(persisted.split())
        return all(
            states[n] is ModuleState.BUILTIN or (states[n] is ModuleState.LOADED and _normal(n) in listed)
            for n in wanted
        )

    async def ensure(
        self,
        names: Iterable[str],
        *,
        name: str = "kubexm",
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """All are there now and, where not built in, loaded at each boot. False if so already."""
        wanted = [_normal(n) for n in names]
        loads = "\n".join(f"kx_load {shell(*self._words(n))}" for n in wanted)
        script = f"""{self._keeping(keep, snapshot)}{_LOOK}
kx_list=
kx_load() {{
  kx_m=$(kx_module "$@")
  if [ "$kx_m" = builtin ]; then return 0; fi
  if [ "$kx_m" != loaded ]; then
    modprobe -- "$1" || kx_die "kernel module $1 cannot be loaded"
    echo changed
  fi
  kx_list="$kx_list$1
"
}}
{loads}
if [ -n "$kx_list" ]; then
  kx_list="# Managed by kubexm.
$kx_list"
  printf %s "$kx_list" | ( kx_put {shell(_file(name), "644", "root", "root")} "${{#kx_list}}" - ) || exit 1
fi"""
        result = await self._change(script, f"load kernel modules {', '.join(wanted)}")
        hint = ""
        if "cannot be loaded" in result.error_text:
            hint = (
                f"Kernel {self.facts.kernel.release} on this host does not have it: install the distribution's extra "
                "modules package (linux-modules-extra, kernel-modules-extra) and reboot if the kernel was updated."
            )
        return "changed" in self._checked(result, hint=hint).text.split("\n")

    async def _look(self, names: list[str], name: str | None) -> tuple[dict[str, ModuleState], str]:
        checks = [f"kx_module {shell(*self._words(n))}" for n in names]
        persisted = "" if name is None else f"cat -- {shell(_file(name))} 2>/dev/null"
        script = _LOOK + "\n".join([*checks, persisted, ":"])
        lines = self._checked(await self._read(script, f"look for kernel modules {', '.join(names)}")).text.split("\n")
        states = {n: self._state(n, line) for n, line in zip(names, lines, strict=False)}
        return states, "\n".join(line for line in lines[len(names) :] if not line.startswith("#"))

    def _state(self, name: str, line: str) -> ModuleState:
        # What is built in does not change while a host is up; facts also look where one command cannot.
        if (
            ModuleState(line) in (ModuleState.MISSING, ModuleState.LOADABLE)
            and _normal(name) in self.facts.kernel.builtin
        ):
            return ModuleState.BUILTIN
        return ModuleState(line)

    def _words(self, name: str) -> tuple[str, str, str]:
        """The module, a path that shows it is built in, and a pattern for its file."""
        module = _normal(name)
        known = module in self.facts.kernel.builtin
        return module, "/" if known else PROBES.get(module, ""), module.replace("_", "[_-]")


def _file(name: str) -> PurePosixPath:
    return _DIRECTORY / f"{name}.conf"


def _normal(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"not a kernel module's name: {name}")
    return name.replace("-", "_")
