"""SELinux: whether it enforces, now and at the next boot. Must not know who is in its way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, library
from kubexm.runner.files import Files
from kubexm.runner.lines import with_line

__all__ = ["Selinux"]

_CONFIG = PurePosixPath("/etc/selinux/config")
_SETTING = r"^\s*SELINUX\s*="


@dataclass(frozen=True, slots=True)
class Selinux(Operations):
    """SELinux on the host; where there is none, nothing enforces."""

    async def why_not_permissive(self) -> str:
        """Nothing if it does not enforce, now and at the next boot; else where it does."""
        script = (
            "if [ -r /sys/fs/selinux/enforce ]; then cat /sys/fs/selinux/enforce; fi; echo; "
            f"if [ -e /sys/fs/selinux/enforce ]; then sed -n 's/^ *SELINUX *= *//p' {_CONFIG} 2>/dev/null; fi; :"
        )
        text = self._checked(await self._read(script, "ask whether SELinux enforces")).text.strip()
        now, _, later = text.partition("\n")
        if now.strip() == "1":
            return "it enforces"
        return "it enforces after a reboot" if later.strip() == "enforcing" else ""

    async def make_permissive(self, *, keep: bool = True, snapshot: PurePosixPath | None = None) -> None:
        """It reports what it would refuse, and refuses nothing, now and at the next boot."""
        root = shell(self._root(keep))
        note = f"kx_note {root} selinux mode enforcing || exit 1\n" if keep else ""
        script = (
            f"{library('originals')}read -r kx_now </sys/fs/selinux/enforce || exit 0\n"
            f'if [ "$kx_now" != 1 ]; then exit 0; fi\n{note}setenforce 0'
        )
        self._checked(await self._change(script, "let SELinux report only"))
        files = Files(self.connector, self.facts, state=self.state)
        text = await files.text(_CONFIG)
        if text is not None:
            await files.edit(
                _CONFIG, lambda old: with_line(old, "SELINUX=permissive", _SETTING), keep=keep, snapshot=snapshot
            )
