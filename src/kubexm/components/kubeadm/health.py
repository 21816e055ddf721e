"""Static pods that run from their manifests as they are now, and say that they are well.

That the API answers is not enough after a change: it may be the old pod that does. A pod whose container keeps ending
is told with that container's own last words. Waiting is done on the host, so that it ends the moment it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.health import last_line
from kubexm.components.kubeadm.layout import API_SERVER, CRICTL, DIGEST, manifest
from kubexm.components.questions import Question, listened
from kubexm.connector.base import shell
from kubexm.errors import CommandError
from kubexm.runner import Facts
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, resources

__all__ = ["MOST_RESTARTS", "Probe", "StaticPodsServe", "pod_failure", "pod_restarts"]

MOST_RESTARTS: Final = 2
"""A container that was started again this often while it was waited for is not going to come up."""
_LOG_LINES: Final = 25

# kx_why COMPONENT MANIFEST LISTENED LIGHT FULL: sets w to why the pod does not serve yet; nothing if it does. The last
# three are shell text; where there is no light question the full one is asked, else only if full is set.
# Whether somebody listens costs little to see; which pod that is, and how it is, takes large programs: while nobody
# listens they would take from a busy host what the pod needs to come up. It is asked again once it is known to be the
# new pod: the old one may have answered before.
_LIBRARY: Final = f"""kx_found() {{ sed -n 's|^ *{DIGEST}: ||p' "$1" 2>/dev/null; }}
kx_pods() {{ {CRICTL} pods --state ready --label tier=control-plane -o json; }}
kx_light() {{ if [ -n "$1" ]; then eval "$1" >/dev/null 2>&1; fi; }}
kx_why() {{
  c=$1
  d=$(kx_found "$2")
  if [ -z "$d" ]; then w="there is no $c on this host yet"; return; fi
  if ! eval "$3"; then w="$c does not listen yet"; return; fi
  if [ -z "$full" ] && ! kx_light "$4"; then w="$c is not well"; return; fi
  if [ -z "$pods" ]; then pods=$(kx_pods 2>&1) || {{ w="the runtime does not answer: $pods" pods=; return; }}; fi
  case $pods in *"$d"*) ;; *) w="$c has not been started from its manifest yet"; return ;; esac
  if [ -n "$4" ] && kx_light "$4"; then return; fi
  o=$(eval "$5" 2>&1) || w="$c is not well: $(printf '%s\\n' "$o" | grep -v '^\\[+\\]' | tail -n 1)"
}}
"""
_ASK: Final = """w= pods= full=1
@PROBES@
echo "$w"
"""
_WAIT: Final = """@STARTS@
read -r t r </proc/uptime
end=$((${t%.*} + @WITHIN@)) n=0
while :; do
  w= pods= full= over=
  read -r t r </proc/uptime
  if [ "${t%.*}" -ge "$end" ]; then over=1 full=1; fi
  if [ $((n % 10)) = 9 ]; then full=1; fi
@PROBES@
  if [ -z "$w" ]; then exit 0; fi
  n=$((n + 1))
  if [ $((n % 10)) = 0 ]; then
@COUNTS@
  fi
  if [ -n "$over" ]; then
    pods=$(kx_pods 2>&1) || w="the runtime does not answer: $pods"
    echo "$c"; echo "$w" >&2; exit 1
  fi
  if [ "$n" -le 3 ]; then sleep 0.2; else sleep 0.5; fi
done
"""
# The latest container that was started from the manifest as it is; its number counts how often, less one.
_LAST: Final = f"""kx_last() {{
  p=$({CRICTL} pods -q --label "{DIGEST}=$(kx_found "$2")" | head -n 1)
  if [ -n "$p" ]; then {CRICTL} ps -a --latest --pod "$p" --name "^$1\\$" -o json; fi
}}
kx_attempts() {{ kx_last "$@" 2>/dev/null | sed -n 's/^ *"attempt": \\([0-9]*\\).*/\\1/p' | head -n 1; }}
"""
_TELL: Final = """j=$(kx_last "$@")
id=$(printf '%s\\n' "$j" | sed -n 's/^ *"id": "\\([0-9a-f]*\\)".*/\\1/p' | head -n 1)
s=$(printf '%s\\n' "$j" | sed -n 's/^ *"state": "CONTAINER_\\([A-Z]*\\)".*/\\1/p' | head -n 1)
if [ -n "$id" ]; then
  echo "container $id"
  echo "$s" | tr A-Z a-z
  @CRICTL@ logs --tail @LINES@ "$id" 2>&1
else
  echo
  echo none
  journalctl -q --no-pager -o cat -n 400 -u kubelet 2>/dev/null | grep -e ' E[0-9]' -e '^E[0-9]' | tail -n @LINES@
fi
""".replace("@CRICTL@", CRICTL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How a static pod tells that it is well."""

    component: str
    port: int
    path: str
    tls: bool = True

    @property
    def question(self) -> Question:
        """What it is asked."""
        return Question(port=self.port, path=self.path, api=self.component == API_SERVER, tls=self.tls)

    def line(self, facts: Facts) -> str:
        """One line of a script that looks at it, unless something else is wrong already."""
        light, full = shell(*self.question.light(facts)), shell(*self.question.full())
        start = shell("kx_why", self.component, manifest(self.component), listened(self.port), light, full)
        return f'  if [ -z "$w" ]; then {start}; fi'

    def start(self, number: int) -> str:
        """One line of a script that notes how often it was started before."""
        return f"k{number}=$({_restarts(self.component)})"

    def count(self, number: int) -> str:
        """One line of a script that gives up on it once it was started too often since."""
        told = f'echo {shell(self.component)}; echo "$w" >&2; exit 1'
        often = f"$((${{k:-0}} - ${{k{number}:-0}}))"
        return f'    k=$({_restarts(self.component)}); if [ "{often}" -ge {MOST_RESTARTS} ]; then {told}; fi'


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPodsServe(Step):
    """These static pods run from their manifests as they are now, and are well."""

    probes: tuple[Probe, ...]
    within: int = 240
    """Seconds for them to come up."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks once, in one read."""
        script = _LIBRARY + self._filled(_ASK, ctx.facts)
        result = await ctx.host.command.read(script, check=False, display=f"ask whether {self._names} are well")
        why = result.text.strip() if result.ok else last_line(result.error_text) or "the host cannot tell"
        return Check(False, reason=why) if why else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Waits; the error of a pod that does not come up has its container's own last log lines."""
        script = _LIBRARY + _LAST + self._filled(_WAIT, ctx.facts)
        result = await ctx.host.command.read(
            script, check=False, long=True, within=self.within + 60.0, display=f"wait until {self._names} are well"
        )
        if not result.ok:
            component = result.text.strip() or self.probes[0].component
            raise await pod_failure(ctx, component, last_line(result.error_text))

    def reads(self) -> Resources:
        """The manifests: whoever writes one makes this question new. The kubelet too, which runs them."""
        return resources("unit:kubelet.service", *(f"file:{manifest(probe.component)}" for probe in self.probes))

    def writes(self) -> Resources:
        """Nothing: it only waits."""
        return NOTHING

    def describe(self) -> str:
        """Which."""
        return f"{self._names} well, from the manifests as they are"

    @property
    def _names(self) -> str:
        return ", ".join(probe.component for probe in self.probes)

    def _filled(self, script: str, facts: Facts) -> str:
        return (
            script.replace("@PROBES@", "\n".join(probe.line(facts) for probe in self.probes))
            .replace("@WITHIN@", str(self.within))
            .replace("@STARTS@", "\n".join(probe.start(number) for number, probe in enumerate(self.probes)))
            .replace("@COUNTS@", "\n".join(probe.count(number) for number, probe in enumerate(self.probes)))
        )


async def pod_restarts(ctx: StepContext, component: str) -> int:
    """How often the container of a static pod was started again."""
    script = _LIBRARY + _LAST + _restarts(component)
    result = await ctx.host.command.read(script, check=False, display=f"count the starts of {component}")
    return int(result.text.strip() or 0) if result.ok else 0


def _restarts(component: str) -> str:
    """Shell text that prints it."""
    return shell("kx_attempts", component, manifest(component))


async def pod_failure(ctx: StepContext, component: str, why: str) -> CommandError:
    """What to tell of a static pod that does not come up: the last lines of its container, or of the kubelet."""
    script = (
        _LIBRARY
        + _LAST
        + f"set -- {shell(component, manifest(component))}\n"
        + _TELL.replace("@LINES@", str(_LOG_LINES))
    )
    found = await ctx.host.command.read(script, check=False, long=True, display=f"read the log of {component}")
    container, _, rest = found.text.partition("\n")
    state, _, log = rest.partition("\n")
    if state == "none":
        whose, more = "the kubelet's log", f"`journalctl -u kubelet` on {ctx.host.name}"
    else:
        number = container.partition(" ")[2][:13]
        whose, more = f"its last container ({state})", f"`crictl logs {number}` on {ctx.host.name}"
    return CommandError(
        host=ctx.host.name,
        command=f"wait until {component} is well",
        exit_code=1,
        stderr=log,
        message=f"{component} did not come up: {why or 'it does not answer'}; the last lines of {whose}",
        hint=f"all of it: {more}. Mend what it says (often an argument or a setting in the file), then run again",
    )
