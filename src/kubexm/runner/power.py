"""Reboots. Must not know why one is needed."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

from kubexm.errors import AuthenticationError, CommandError, HostError, HostKeyError, OutcomeUnknown, StepError
from kubexm.runner.base import Operations

__all__ = ["Power"]

_REBOOT = """if [ -d /run/systemd/system ]; then kx_do='systemctl reboot'; else kx_do='shutdown -r now || reboot'; fi
setsid sh -c "sleep 1; $kx_do" </dev/null >/dev/null 2>&1 &
"""
_UP = "if [ -d /run/systemd/system ]; then systemctl is-system-running; else echo running; fi; :"
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Power(Operations):
    """The host's power switch."""

    async def reboot_and_wait(self, *, within: float = 600.0) -> None:
        """The host was rebooted and is up again: it has another boot id, and its init says it is done starting."""
        before = await self.connector.boot_id()
        deadline = time.monotonic() + within
        with suppress(OutcomeUnknown):  # it may go down before it can answer; the boot id tells
            self._checked(await self._change(_REBOOT, "reboot"))
        last = await self._wait_for_boot(before, deadline)
        if last is not None:
            raise StepError(
                f"the host did not come back within {within:.0f} s after a reboot: {last}",
                host=self.connector.host,
                hint="Look at its console: it may wait at the boot loader, at a file system check or for a password.",
            )
        await self._wait_for_init(deadline)

    async def _wait_for_boot(self, before: str, deadline: float) -> str | None:
        """None when the boot id has changed, else what the last try came to."""
        last = "it is still on the same boot"
        while time.monotonic() < deadline:
            try:
                if await self.connector.boot_id() != before:
                    return None
            except (AuthenticationError, HostKeyError):
                raise  # an answer that will not get better by waiting
            except HostError as error:
                last = error.message
            await asyncio.sleep(_PAUSE)
        return last

    async def _wait_for_init(self, deadline: float) -> None:
        state = ""
        while time.monotonic() < deadline:
            try:
                state = (await self._read(_UP, "ask whether the host is up")).text.strip()
            except CommandError as error:
                state = error.message
            if state in ("running", "degraded", "maintenance"):
                return
            await asyncio.sleep(_PAUSE)
        raise StepError(
            f"the host came back after a reboot but did not finish starting: {state}",
            host=self.connector.host,
            hint="`systemctl list-jobs` on the host shows what it waits for.",
        )
