"""Time: the service that keeps it, its servers, the time zone. Must not know how much skew matters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runner.base import Operations
from kubexm.runner.files import Files
from kubexm.runner.lines import block_of, with_block
from kubexm.runner.services import Services

__all__ = ["TimeState", "TimeSync"]

_SERVICES = (
    "chronyd.service",
    "chrony.service",
    "systemd-timesyncd.service",
    "ntpsec.service",
    "ntpd.service",
    "ntp.service",
    "openntpd.service",
)
_SERVER = re.compile(r"^[A-Za-z0-9_.:-]+$")
_ZONE = re.compile(r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}$")
_BLOCK = "kubexm"
_TIMESYNCD = PurePosixPath("/etc/systemd/timesyncd.conf.d/kubexm.conf")
_CHRONY_FILES = (PurePosixPath("/etc/chrony/chrony.conf"), PurePosixPath("/etc/chrony.conf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeState:
    """How the host keeps time."""

    service: str = ""
    """The unit that keeps it, if one is active."""
    installed: tuple[str, ...] = ()
    """Units that could."""
    synchronized: bool | None = None
    offset: float | None = None
    """Seconds the host believes to be off, where its service tells."""
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class TimeSync(Operations):
    """The host's clock."""

    async def look(self) -> TimeState:
        """Which service keeps time, and how well."""
        script = f"""if [ -d /run/systemd/system ]; then
  systemctl show -p Id -p LoadState -p ActiveState {shell(*_SERVICES)}
fi
printf '\\0'; if command -v chronyc >/dev/null; then timeout 5 chronyc -n -c tracking 2>/dev/null; fi
printf '\\0'; if [ -e /run/systemd/timesync/synchronized ]; then echo yes; fi
printf '\\0'; readlink /etc/localtime; printf '\\0'; if [ -d /run/systemd/system ] && command -v timedatectl >/dev/null
then timeout 5 timedatectl show -p NTPSynchronized --value 2>/dev/null; fi
:"""
        text = self._checked(await self._read(script, "look at time synchronisation")).stdout.decode(errors="replace")
        units, tracking, timesyncd, zone, ntp = [part.strip() for part in text.split("\0", 4)]
        return _state(units, tracking, bool(timesyncd), zone, ntp)

    async def uses(self, servers: Sequence[str]) -> bool:
        """True if a time service is up and is told to use exactly these servers (by kubexm's own settings)."""
        files = Files(self.connector, self.facts, state=self.state)
        state = await self.look()
        if not state.service:
            return False
        if not servers:
            return True
        path, content = await self._settings(state, servers)
        text = await files.text(path) or ""
        return text == content if path == _TIMESYNCD else block_of(text, _BLOCK) == content

    async def use(self, servers: Sequence[str], *, keep: bool = True, snapshot: PurePosixPath | None = None) -> None:
        """A time service is up, starts at boot, and uses these servers (its own if none are given)."""
        files = Files(self.connector, self.facts, state=self.state)
        services = Services(self.connector, self.facts, state=self.state)
        state = await self.look()
        unit = state.service or next(iter(state.installed), "")
        if not unit:
            raise StepError(
                "no time service is installed on this host",
                host=self.connector.host,
                hint="Install chrony there (or add it to `system.packages`), then run again.",
            )
        if not servers:
            await services.start(unit, keep=keep)
            return
        path, content = await self._settings(state, servers)
        if path == _TIMESYNCD:
            await files.write(path, content, keep=keep, snapshot=snapshot)
        else:
            await files.edit(path, lambda text: with_block(text, _BLOCK, content), keep=keep, snapshot=snapshot)
        await services.restart(unit, [path], keep=keep)

    async def set_timezone(self, zone: str, *, keep: bool = True, snapshot: PurePosixPath | None = None) -> bool:
        """The host is in this time zone (such as Europe/Vienna). False if it was already."""
        if not _ZONE.match(zone):
            raise ValueError(f"not a time zone: {zone}")
        files = Files(self.connector, self.facts, state=self.state)
        target = PurePosixPath("/usr/share/zoneinfo") / zone
        if not await files.exists(target):
            raise StepError(
                f"this host knows no time zone {zone}",
                host=self.connector.host,
                hint="Install tzdata there, and check the name against `timedatectl list-timezones`.",
            )
        changed = await files.link("/etc/localtime", target, keep=keep, snapshot=snapshot)
        if self.facts.os.family == "debian":
            changed |= await files.write("/etc/timezone", f"{zone}\n", keep=keep, snapshot=snapshot)
        return changed

    async def _settings(self, state: TimeState, servers: Sequence[str]) -> tuple[PurePosixPath, str]:
        if not all(_SERVER.match(server) for server in servers):
            raise ValueError(f"not time servers: {' '.join(servers)}")
        unit = state.service or next(iter(state.installed), "")
        if unit == "systemd-timesyncd.service":
            return _TIMESYNCD, f"# Managed by kubexm.\n[Time]\nNTP={' '.join(servers)}\n"
        if unit.startswith("chrony"):
            path = _CHRONY_FILES[1] if self.facts.os.family in ("rhel", "suse") else _CHRONY_FILES[0]
            return path, "".join(f"server {server} iburst prefer\n" for server in servers)
        raise StepError(
            f"kubexm cannot set the servers of {unit or 'a missing time service'}",
            host=self.connector.host,
            hint="Use chrony or systemd-timesyncd on this host, or set its servers by hand and leave `system.ntp` out.",
        )


def _state(units: str, tracking: str, timesyncd: bool, zone: str, ntp: str) -> TimeState:
    installed, active = [], ""
    for block in units.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
        if values.get("LoadState") == "loaded":
            installed.append(values.get("Id", ""))
            if values.get("ActiveState") == "active":
                active = active or values.get("Id", "")
    fields = tracking.split(",")
    synchronized: bool | None = None
    offset: float | None = None
    if len(fields) >= 14:
        synchronized = fields[13].strip() != "Not synchronised"
        offset = -float(fields[4]) if re.match(r"^-?[\d.e+-]+$", fields[4]) else None
    elif ntp in ("yes", "no"):
        synchronized = ntp == "yes"
    elif active == "systemd-timesyncd.service":
        synchronized = timesyncd
    return TimeState(
        service=active,
        installed=tuple(sorted(set(installed), key=lambda unit: _SERVICES.index(unit) if unit in _SERVICES else 99)),
        synchronized=synchronized,
        offset=offset,
        timezone=zone.split("zoneinfo/", 1)[1] if "zoneinfo/" in zone else "",
    )
