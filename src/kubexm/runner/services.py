"""systemd units. Must not know what they run.

There are no "changed" flags: a unit counts as running only if it was started from its unit file, drop-ins and inputs as
they are on disk now. A stamp written at start tells (a digest, and the InvocationID systemd gave the unit), so a crash
between writing a file and restarting, or an edit by hand, is seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import CommandResult, shell
from kubexm.errors import CommandError, StepError
from kubexm.runner.base import Operations, library, posix
from kubexm.runner.facts.sections import key_values

__all__ = ["Services", "UnitStatus"]

_START_TIMEOUT = 300.0
_UNIT = re.compile(r"^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer|target|mount|path|swap|slice|scope|automount|device)$")
_FAILED = 7
_SHOWN = (
    "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "MainPID", "ExecMainStatus", "NRestarts",
    "InvocationID", "FragmentPath", "NeedDaemonReload",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """How a unit is, in systemd's own words."""

    unit: str
    load: str
    active: str
    sub: str
    enabled: str
    result: str = ""
    main_pid: int = 0
    exit_status: int = 0
    restarts: int = 0
    invocation: str = ""
    path: str = ""
    needs_reload: bool = False

    @property
    def present(self) -> bool:
        """True if the unit is there."""
        return self.load not in ("not-found", "")

    @property
    def is_active(self) -> bool:
        """True if it is up."""
        return self.active == "active"

    @property
    def is_enabled(self) -> bool:
        """True if it starts at boot."""
        return self.enabled in ("enabled", "alias", "static", "indirect", "generated")


@dataclass(frozen=True, slots=True)
class Services(Operations):
    """systemd units of the host; a name without a suffix is a service."""

    async def runs_with(self, unit: str, inputs: Sequence[PurePosixPath | str] = ()) -> bool:
        """True if the unit is up, starts at boot, and was started from these inputs as they are on disk now."""
        return (await self.why_not(unit, inputs)) == ""

    async def why_not(self, unit: str, inputs: Sequence[PurePosixPath | str] = ()) -> str:
        """Nothing if the unit runs with these inputs, else the reason in a few words."""
        unit = _name(unit)
        call = "kx_runs_with " + shell(self._stamps, unit, *map(posix, inputs))
        result = await self._read(_library() + call, f"check {unit}")
        if result.exit_code in (0, 1) and result.text:
            return "" if result.ok else result.text
        raise self._no_systemd(result)

    async def restart(
        self,
        unit: str,
        inputs: Sequence[PurePosixPath | str] = (),
        *,
        within: float = _START_TIMEOUT,
        keep: bool = True,
    ) -> None:
        """The unit runs anew, from these inputs, and starts at boot; the error of one that fails has its own log."""
        await self._start("restart", unit, inputs, within, keep)

    async def reload(
        self,
        unit: str,
        inputs: Sequence[PurePosixPath | str] = (),
        *,
        within: float = _START_TIMEOUT,
        keep: bool = True,
    ) -> None:
        """The unit took over these inputs without a restart (it is started if it was not running)."""
        await self._start("reload-or-restart", unit, inputs, within, keep)

    async def start(
        self,
        unit: str,
        inputs: Sequence[PurePosixPath | str] = (),
        *,
        within: float = _START_TIMEOUT,
        keep: bool = True,
    ) -> None:
        """The unit is up and starts at boot; one that runs already is left running."""
        await self._start("start", unit, inputs, within, keep)

    async def stop(self, unit: str, *, within: float = _START_TIMEOUT, keep: bool = True) -> None:
        """The unit is down; one that is not there counts as down."""
        unit = _name(unit)
        call = "kx_stop " + shell(self._root(keep), self._stamps, unit)
        self._started(await self._change(_library() + call, f"stop {unit}", within=within, long=True), unit, "stop")

    async def enable(self, unit: str, *, keep: bool = True) -> None:
        """The unit starts at boot."""
        await self._set("enable", unit, keep)

    async def disable(self, unit: str, *, keep: bool = True) -> None:
        """The unit does not start at boot; one that is not there counts as disabled."""
        await self._set("disable", unit, keep)

    async def mask(self, unit: str, *, keep: bool = True) -> None:
        """The unit can be started by nobody."""
        await self._set("mask", unit, keep)

    async def unmask(self, unit: str, *, keep: bool = True) -> None:
        """The unit can be started again."""
        await self._set("unmask", unit, keep)

    async def daemon_reload(self) -> None:
        """systemd has read all unit files again."""
        self._started(await self._change("systemctl daemon-reload", "systemctl daemon-reload"), "systemd", "reload")

    async def status(self, unit: str) -> UnitStatus:
        """How the unit is; one that is not there has `present` false."""
        unit = _name(unit)
        script = "systemctl show " + shell(*(word for name in _SHOWN for word in ("-p", name)), "--", unit)
        result = await self._read(script, f"status of {unit}")
        if not result.ok:
            raise self._no_systemd(result)
        values = key_values(result.text)

        def number(key: str) -> int:
            return int(values[key]) if values.get(key, "").isdigit() else 0

        return UnitStatus(
            unit=unit,
            load=values.get("LoadState", ""),
            active=values.get("ActiveState", ""),
            sub=values.get("SubState", ""),
            enabled=values.get("UnitFileState", ""),
            result=values.get("Result", ""),
            main_pid=number("MainPID"),
            exit_status=number("ExecMainStatus"),
            restarts=number("NRestarts"),
            invocation=values.get("InvocationID", ""),
            path=values.get("FragmentPath", ""),
            needs_reload=values.get("NeedDaemonReload") == "yes",
        )

    async def logs(self, unit: str, lines: int = 50) -> str:
        """The last lines of the unit's latest invocation."""
        unit = _name(unit)
        script = f"{_library()}kx_unit {shell(unit)} || exit 3\nkx_log {shell(unit, lines)}"
        result = await self._read(script, f"journal of {unit}", long=True)
        if not result.ok:
            raise self._no_systemd(result)
        return result.text

    async def failure(self, unit: str) -> CommandError | StepError | None:
        """Why the unit is not up, with its own last log lines, as an error to raise; None if it is up."""
        unit = _name(unit)
        script = f"{_library()}kx_unit {shell(unit)} || exit 3\nkx_is_up {shell(unit)} || kx_failed {shell(unit)} 7"
        result = await self._read(script, f"look at {unit}", long=True)
        if result.ok:
            return None
        return self._not_up(result, unit, "run") if result.exit_code == _FAILED else self._no_systemd(result)

    @property
    def _stamps(self) -> PurePosixPath:
        return self.state / "stamps"

    async def _start(
        self, verb: str, unit: str, inputs: Sequence[PurePosixPath | str], within: float, keep: bool
    ) -> None:
        unit = _name(unit)
        call = "kx_start " + shell(self._root(keep), self._stamps, unit, verb, *map(posix, inputs))
        result = await self._change(_library() + call, f"{verb} {unit}", within=within, long=True)
        self._started(result, unit, "start" if verb == "restart" else verb)

    async def _set(self, verb: str, unit: str, keep: bool) -> None:
        unit = _name(unit)
        call = "kx_set " + shell(self._root(keep), unit, verb)
        self._started(await self._change(_library() + call, f"{verb} {unit}"), unit, verb)

    def _started(self, result: CommandResult, unit: str, verb: str) -> None:
        if result.ok:
            return
        if result.exit_code == _FAILED:
            raise self._not_up(result, unit, verb)
        if result.exit_code == 3 or "connect to bus" in result.error_text:
            raise self._no_systemd(result)
        hint = ""
        if "not found" in result.error_text and "Unit" in result.error_text:
            hint = f"Nothing on the host provides {unit}: was its package or unit file installed?"
        elif "is masked" in result.error_text:
            hint = f"Somebody masked it; if that may be undone: `systemctl unmask {unit}`, then run again."
        raise self._error(result, hint=hint)

    def _not_up(self, result: CommandResult, unit: str, verb: str) -> CommandError:
        active, sub, why, status = [*result.text.split("\n")[-1].split(), "", "", "", ""][:4]
        detail = f"{active} ({sub}), result {why}" + (f", exit status {status}" if status not in ("0", "-", "") else "")
        return CommandError(
            host=result.host,
            command=result.command,
            exit_code=result.exit_code,
            stdout=result.text,
            stderr=result.error_text,
            message=f"{unit} did not {verb}: {detail}",
            hint=f"Its full log: `journalctl -u {unit}` on {result.host}.",
        )

    def _no_systemd(self, result: CommandResult) -> CommandError | StepError:
        if self.facts.systemd.running or self.facts.is_assumed:
            return self._error(
                result, hint="systemd did not answer: `systemctl is-system-running` on the host tells more."
            )
        return StepError(
            f"this host's init is {self.facts.init or 'unknown'}, not systemd",
            host=result.host,
            hint="kubexm runs its services under systemd: use a distribution that boots with it.",
        )


def _name(unit: str) -> str:
    full = unit if _UNIT.match(unit) else f"{unit}.service"
    if not _UNIT.match(full):
        raise ValueError(f"not a unit's name: {unit}")
    return full


def _library() -> str:
    return library("originals") + library("unit")
