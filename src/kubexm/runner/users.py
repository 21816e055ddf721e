"""Users and groups. Must not know what they are for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kubexm.connector.base import shell
from kubexm.runner.base import ABSENT, Operations, library

__all__ = ["Group", "User", "Users"]

_NAME = re.compile(r"^[a-z_][a-z0-9_-]{0,30}\$?$")
_NEED = "kubexm makes users with useradd and groupadd (package passwd or shadow-utils): install it there."
_LOOK = """kx_account() {
  if command -v getent >/dev/null; then getent "$1" "$2"; else grep -m 1 "^$2:" "/etc/$1"; fi
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user as the host knows it."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as the host knows it."""

    name: str
    gid: int
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Users(Operations):
    """Users and groups of the host."""

    async def user(self, name: str) -> User | None:
        """The user, or None if there is none of that name."""
        n = shell(_checked_name(name))
        script = f"{_LOOK}kx_account passwd {n} || exit {ABSENT}\nid -Gn {n}"
        result = await self._read(script, f"look up user {name}")
        if result.exit_code == ABSENT:
            return None
        entry, _, groups = self._checked(result).text.partition("\n")
        _, _, uid, gid, _, home, login = entry.split(":")
        return User(name=name, uid=int(uid), gid=int(gid), home=home, shell=login, groups=tuple(sorted(groups.split())))

    async def group(self, name: str) -> Group | None:
        """The group, or None if there is none of that name."""
        script = f"{_LOOK}kx_account group {shell(_checked_name(name))} || exit {ABSENT}"
        result = await self._read(script, f"look up group {name}")
        if result.exit_code == ABSENT:
            return None
        _, _, gid, members = self._checked(result).text.split(":")
        return Group(name=name, gid=int(gid), members=tuple(sorted(m for m in members.split(",") if m)))

    async def ensure_group(self, name: str, *, gid: int | None = None, system: bool = True, keep: bool = True) -> bool:
        """The group is there. False if it was already."""
        n = shell(_checked_name(name))
        flags = " ".join((["--system"] if system else []) + ([shell("--gid", gid)] if gid is not None else []))
        script = (
            f"{library('originals')}{_LOOK}if kx_account group {n} >/dev/null; then echo same; exit 0; fi\n"
            f"{self._note('group', name, keep)}groupadd {flags} -- {n} && echo changed"
        )
        result = await self._change(script, f"make group {name}")
        return self._checked(result, hint=_NEED if "groupadd: not found" in result.error_text else "").text == "changed"

    async def ensure_user(
        self,
        name: str,
        *,
        uid: int | None = None,
        group: str | None = None,
        groups: Sequence[str] = (),
        home: str | None = None,
        create_home: bool = False,
        login_shell: str | None = None,
        system: bool = True,
        keep: bool = True,
    ) -> bool:
        """The user is there, with these properties; no login unless a shell is given. False if it was so already."""
        n = shell(_checked_name(name))
        common: list[str | int] = [] if uid is None else ["--uid", uid]
        common += ["--gid", group] if group is not None else []
        common += ["--home", home] if home is not None else []
        common += ["--shell", login_shell] if login_shell is not None else []
        add: list[str | int] = [
            *(["--system"] if system else []),
            "--create-home" if create_home else "--no-create-home",
        ]
        add += ["--groups", ",".join(groups)] if groups else []
        change = [*common, *(["--append", "--groups", ",".join(groups)] if groups else [])]
        no_login = "" if login_shell is not None else '--shell "$kx_none" '
        script = f"""{library("originals")}{_LOOK}
kx_none=/usr/sbin/nologin; if ! [ -x "$kx_none" ]; then kx_none=/sbin/nologin; fi
kx_before=$(kx_account passwd {n}; id -Gn {n} 2>/dev/null)
if kx_account passwd {n} >/dev/null; then
  {f"usermod {shell(*change)} -- {n}" if change else ":"} || exit 1
else
  {self._note("user", name, keep)}useradd {no_login}{shell(*add, *common)} -- {n} || exit 1
fi
if [ "$kx_before" = "$(kx_account passwd {n}; id -Gn {n})" ]; then echo same; else echo changed; fi"""
        result = await self._change(script, f"make user {name}")
        missing = "useradd: not found" in result.error_text or "usermod: not found" in result.error_text
        return self._checked(result, hint=_NEED if missing else "").text.split("\n")[-1] == "changed"

    async def remove_user(self, name: str) -> bool:
        """There is no user of that name; its files stay. False if there was none."""
        return await self._remove("passwd", "userdel", name)

    async def remove_group(self, name: str) -> bool:
        """There is no group of that name. False if there was none."""
        return await self._remove("group", "groupdel", name)

    async def _remove(self, table: str, program: str, name: str) -> bool:
        n = shell(_checked_name(name))
        look = f"{_LOOK}if ! kx_account {table} {n} >/dev/null; then echo same; exit 0; fi\n"
        script = f"{look}{program} -- {n} && echo changed"
        result = await self._change(script, f"{program} {name}")
        in_use = "currently used by process" in result.error_text
        hint = f"Stop what still runs as {name} (`ps -u {name}`), then run again." if in_use else ""
        return self._checked(result, hint=hint).text == "changed"

    def _note(self, kind: str, name: str, keep: bool) -> str:
        return f"kx_note {shell(self._root(keep), kind, name, 'absent')} || exit 1\n" if keep else ""


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"not a name for a user or group: {name}")
    return name
