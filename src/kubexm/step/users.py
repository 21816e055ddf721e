"""Users and groups. Must not know what they are for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kubexm.cache import Key, Scope
from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import recall, remember

__all__ = ["UserPresent"]

_BEFORE: Key[dict[str, bool]] = Key("step.user.before", per_host=True, scope=Scope.STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPresent(Step):
    """A user is there, with its own group and no login unless a shell is given."""

    name: str
    uid: int | None = None
    group: str = ""
    """Its main group, made if need be; by default one of the user's own name."""
    groups: tuple[str, ...] = ()
    """Further groups it is in, which must be there."""
    home: str | None = None
    create_home: bool = False
    login_shell: str | None = None
    system: bool = True

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks up user and group together."""
        users = ctx.host.users
        user, group = await asyncio.gather(users.user(self.name), users.group(self._group))
        if user is None or group is None:
            return Check(False, reason="there is no such user" if user is None else f"there is no group {self._group}")
        wrong = [
            f"its {what} is {found}"
            for what, found, wanted in (
                ("uid", user.uid, self.uid),
                ("group", user.gid, group.gid),
                ("home", user.home, self.home),
                ("shell", user.shell, self.login_shell),
            )
            if wanted is not None and found != wanted
        ]
        missing = [name for name in self.groups if name not in user.groups]
        if missing:
            wrong.append(f"it is not in {', '.join(missing)}")
        return Check(False, reason="; ".join(wrong)) if wrong else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Makes the group, then the user, or changes what differs."""
        users = ctx.host.users
        user, group = await asyncio.gather(users.user(self.name), users.group(self._group))
        remember(ctx, _BEFORE, {"user": user is not None, "group": group is not None})
        await users.ensure_group(self._group, system=self.system)
        await users.ensure_user(
            self.name,
            uid=self.uid,
            group=self._group,
            groups=self.groups,
            home=self.home,
            create_home=self.create_home,
            login_shell=self.login_shell,
            system=self.system,
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Removes the user and the group this run made."""
        before = recall(ctx, _BEFORE)
        if not before["user"]:
            await ctx.host.users.remove_user(self.name)
        if not before["group"]:
            await ctx.host.users.remove_group(self._group)

    def reads(self) -> Resources:
        """Users, and packages, which bring users along."""
        return resources("user:*", "package:*")

    def writes(self) -> Resources:
        """All users: the tools lock their tables."""
        return resources("user:*")

    @property
    def _group(self) -> str:
        return self.group or self.name
