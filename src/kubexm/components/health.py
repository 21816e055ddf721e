"""Units that are not just up but well, as they say themselves; one that is not shows its own last words.

A unit that has started may still fail a second later. Waiting is done on the host, so that it ends the moment it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.questions import Question, listened
from kubexm.connector.base import shell
from kubexm.errors import CommandError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, resources

__all__ = ["PortListened", "ProgramAnswers", "last_line"]

_RESTARTS: Final = 3
"""A unit that was restarted this often while it was waited for is not going to come up."""
_LOG_LINES: Final = 20
# Asking starts a program, which costs a busy host more than a moment's wait: so the naps grow longer. The light
# question does for most of the time; the full one has the last word, and every tenth.
_WAIT: Final = """\
n0=$(systemctl show -p NRestarts --value -- {unit}) n=$n0 k=0 over=
read -r t r </proc/uptime
end=$((${{t%.*}} + {within}))
until {{ {light}; }} >/dev/null 2>&1; do
  k=$((k + 1))
  if [ $((k % 3)) = 0 ]; then n=$(systemctl show -p NRestarts --value -- {unit}); fi
  read -r t r </proc/uptime
  if [ "$((${{n:-0}} - ${{n0:-0}}))" -ge {restarts} ] || [ "${{t%.*}}" -ge "$end" ]; then over=1; fi
  if [ -n "$over" ] || [ $((k % 10)) = 0 ]; then
    if out=$({full} 2>&1); then break; fi
    if [ -n "$over" ]; then printf '%s\\n' "$out" >&2; exit 1; fi
  fi
  if [ "$k" -le 3 ]; then sleep 0.2; else sleep 0.5; fi
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnitWell(Step):
    """What asking a unit how it is has in common, whatever the question."""

    unit: str
    within: int = 180
    """Seconds for it to come up."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks once."""
        asked = self._asked(ctx)
        result = await ctx.host.command.read(asked, check=False, display=f"ask whether {self.describe()}")
        return Check(True) if result.ok else Check(False, reason=last_line(result.error_text) or "it does not yet")

    async def run(self, ctx: StepContext) -> None:
        """Waits; the error of a unit that does not come up has its own last log lines."""
        unit = f"{self.unit}.service"
        light, full = self._light(ctx), self._full()
        script = _WAIT.format(unit=shell(unit), within=self.within, light=light, full=full, restarts=_RESTARTS)
        result = await ctx.host.command.read(
            script, check=False, long=True, within=self.within + 30.0, display=f"wait until {self.describe()}"
        )
        if result.ok:
            return
        said = last_line(result.error_text)
        raise CommandError(
            host=ctx.host.name,
            command=f"wait until {self.describe()}",
            exit_code=result.exit_code,
            stderr=await ctx.host.services.logs(unit, _LOG_LINES),
            message=f"it is not so that {self.describe()}" + (f" ({said})" if said else ""),
            hint=f"these lines are from its own log; all of it: `journalctl -u {unit}` on {ctx.host.name}",
        )

    def reads(self) -> Resources:
        """The unit: whoever restarts it makes this question new."""
        return resources(f"unit:{self.unit}.service")

    def writes(self) -> Resources:
        """Nothing: it only waits."""
        return NOTHING

    def _asked(self, ctx: StepContext) -> str:
        """Shell text that asks once and says why not."""
        light, full = self._light(ctx), self._full()
        return full if light == full else f"{{ {light}; }} >/dev/null 2>&1 || {{ {full}; }}"

    def _light(self, ctx: StepContext) -> str:
        """Shell text that is true only if it is well, at least cost."""
        return self._full()

    def _full(self) -> str:
        """Shell text that is true if it is well, and says why not."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAnswers(_UnitWell):
    """A program of the control plane says, on its own host and over TLS, that it is well."""

    path: str
    port: int
    api: bool = False
    """It is the API server."""

    def describe(self) -> str:
        """Who and what."""
        return f"{self.unit} answers {self.path}"

    def _light(self, ctx: StepContext) -> str:
        words = self._question.light(ctx.facts)
        return f"{listened(self.port)} && {shell(*words)}" if words else self._full()

    def _full(self) -> str:
        silent = f"{{ echo 'nobody listens on port {self.port} yet' >&2; false; }}"
        return f"{{ {listened(self.port)} || {silent}; }} && {shell(*self._question.full())}"

    @property
    def _question(self) -> Question:
        return Question(port=self.port, path=self.path, api=self.api)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortListened(_UnitWell):
    """A unit listens on a TCP port, whatever the address."""

    port: int

    def describe(self) -> str:
        """Who and where."""
        return f"{self.unit} listens on port {self.port}"

    def _full(self) -> str:
        return f"systemctl is-active --quiet -- {shell(f'{self.unit}.service')} && {listened(self.port)}"


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
