"""The host's own name, now and at the next boot. Must not know why it is called so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, library
from kubexm.runner.files import Files

__all__ = ["Naming"]

_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$")
_FILE = PurePosixPath("/etc/hostname")


@dataclass(frozen=True, slots=True)
class Naming(Operations):
    """What the host calls itself."""

    async def why_not(self, name: str) -> str:
        """Nothing if the host calls itself so, now and at the next boot; else how it calls itself."""
        _checked_name(name)
        script = "uname -n; if [ -r /etc/hostname ]; then grep -v -m 1 -e '^#' -e '^$' /etc/hostname; fi; :"
        now, _, later = self._checked(await self._read(script, "ask the host for its name")).text.partition("\n")
        if now != name:
            return f"it is {now or 'nameless'}"
        return "" if later.strip() == name else f"it is {later.strip() or 'nameless'} after a reboot"

    async def call(self, name: str, *, keep: bool = True, snapshot: PurePosixPath | None = None) -> None:
        """The host calls itself so, now and at the next boot."""
        word = shell(_checked_name(name))
        files = Files(self.connector, self.facts, state=self.state)
        await files.write(_FILE, f"{name}\n", keep=keep, snapshot=snapshot)
        root = shell(self._root(keep))
        note = (
            f'kx_note {root} hostname kernel "$(uname -n)" && kx_wrote {root} hostname kernel {word} || exit 1\n'
            if keep
            else ""
        )
        test = f'if [ "$(uname -n)" = {word} ]; then exit 0; fi'
        script = f"{library('originals')}{library('naming')}{test}\n{note}kx_name {word}"
        self._checked(await self._change(script, f"call the host {name}"))


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"not a host's name: {name}")
    return name
