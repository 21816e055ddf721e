"""Where a measurement keeps things on hosts, and the shell text that puts them there and removes them. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from kubexm.connector.base import shell
from kubexm.runner import STATE

__all__ = ["ROOT", "UNATTENDED", "Places", "alive_question", "parse_alive"]

ROOT: Final = STATE / "probes"
_PROGRAMS: Final = "/usr/local/bin/kubexm-probe-"
"""Where SELinux lets systemd start programs."""
UNATTENDED: Final = 120
"""Seconds after which a measurement that nobody asks is taken for dead, by itself and by others."""
_NOBODY: Final = 65534


class Places:
    """The paths and units of one measurement."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.directory = ROOT / mark
        self.api = self.directory / "api"
        """Of the agent that asks the API: for root only, the token is in it."""
        self.pod = self.directory / "pod"
        """Of the agent in this node's pod."""
        self.program = PurePosixPath(f"{_PROGRAMS}{mark}")
        self.unit = f"kubexm-probe-{mark}.service"
        self.burner = f"kubexm-probe-{mark}-burn.service"

    def prepare(self) -> str:
        """Makes the directories, alive from the first moment."""
        return "\n".join(
            (
                f"mkdir -p -m 0755 {shell(str(ROOT))} {shell(str(self.directory))}",
                f"install -d -m 0700 -o root -g root {shell(str(self.api))}",
                f"install -d -m 0755 -o {_NOBODY} -g {_NOBODY} {shell(str(self.pod))}",
                f"touch {shell(str(self.api / 'heartbeat'), str(self.pod / 'heartbeat'))}",
            )
        )

    def start(self) -> str:
        """Starts the agent that asks the API, with as few rights as it can have and ahead of others for the CPU."""
        properties = {
            "NoNewPrivileges": "yes",
            "CapabilityBoundingSet": "",
            "ProtectSystem": "strict",
            "ReadWritePaths": str(self.api),
            "ProtectHome": "yes",
            "PrivateTmp": "yes",
            "Nice": "-10",
            "OOMScoreAdjust": "-500",
            "TimeoutStopSec": "40",
        }
        options = [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
        return shell(
            *("systemd-run", "--quiet", "--collect", f"--unit={self.unit}", *options),
            *("--", str(self.program), "agent", str(self.api)),
        )

    def burn(self, seconds: float) -> str:
        """Keeps every core of the host busy."""
        return shell(
            *("systemd-run", "--quiet", "--collect", f"--unit={self.burner}", "--"),
            *(str(self.program), "burn", str(seconds)),
        )

    def stop(self) -> str:
        """Ends the agent, which finishes what it is at first; no error if there is none."""
        return f"systemctl stop {shell(self.burner, self.unit)} 2>/dev/null || :"

    def poll(self) -> str:
        """Reads the records, a line each, and tells the agents that somebody still does."""
        return "".join(
            f"[ ! -d {path} ] || touch {path}/heartbeat\nprintf '%s\\n' \"$(cat {path}/record.json 2>/dev/null)\"\n"
            for path in (shell(str(self.api)), shell(str(self.pod)))
        )

    def set_phase(self, phase: str) -> str:
        """What is sent from now on belongs to this phase."""
        places = (shell(str(self.api)), shell(str(self.pod)))
        return "\n".join(
            f"printf %s {shell(phase)} >{path}/.phase && mv -f {path}/.phase {path}/phase" for path in places
        )

    def remove(self) -> str:
        """Removes everything of the measurement from the host."""
        words = shell(str(self.directory), str(self.program))
        return f"{self.stop()}\nrm -rf -- {words}\nrmdir {shell(str(ROOT))} 2>/dev/null || :"


def alive_question() -> str:
    """Shell text that prints each measurement on the host and the seconds since somebody asked for it."""
    return f"""\
now=$(date +%s)
for path in {shell(str(ROOT))}/*/api/heartbeat; do
  [ -e "$path" ] || continue
  mark=${{path%/api/heartbeat}}
  echo "${{mark##*/}} $((now - $(stat -c %Y "$path")))"
done
for path in {_PROGRAMS}*; do
  if [ -e "$path" ]; then echo "${{path##*kubexm-probe-}} -"; fi
done"""


def parse_alive(text: str) -> dict[str, int | None]:
    """The answer to it: seconds by measurement; None for one of which only the program is left."""
    found: dict[str, int | None] = {}
    for line in text.splitlines():
        mark, _, age = line.partition(" ")
        if mark and (mark not in found or age != "-"):
            found[mark] = int(age) if age.lstrip("-").isdigit() else None
    return found
