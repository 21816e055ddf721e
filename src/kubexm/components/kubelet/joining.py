"""How a node joins: it is given a token, its kubelet asks for a client certificate with it and registers.

The same for both modes. The token is in a file of mode 0600 for as long as the node joins and in no other place; a node
whose certificate is good never gets one. A control plane needs none: its kubelet was certified (`certified`), and has
only to register. What it leaves: /etc/kubernetes/kubelet.conf and /var/lib/kubelet/pki.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kubexm.cache import Key
from kubexm.components.api.kubectl import CACHE
from kubexm.components.health import last_line
from kubexm.components.kubelet.config import bootstrap_conf, kubelet_conf
from kubexm.components.kubelet.credentials import look_at_credentials, read_resources, replaced_resources
from kubexm.components.kubelet.layout import BOOTSTRAP_CONF, CLIENT_CERTIFICATE, KUBELET_CONF, UNIT
from kubexm.components.kubelet.token import JOIN_TOKEN
from kubexm.connector.base import CommandResult, shell
from kubexm.errors import CommandError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, resources
from kubexm.step.content import sha256_of
from kubexm.step.undo import restore, snapshot

__all__ = ["KubeletAdmitted", "NodeJoined", "NodeRegistered", "ask_for_node", "await_registration"]

_WAIT: Final = 180.0
"""Seconds for a kubelet to get its certificate."""
_REGISTERED: Final = 20.0
"""Seconds for it to register after that; whether it did is proven through the API in the end."""

# Credentials of another cluster or an expired certificate are put aside by stopping the kubelet first: it is then
# started with the token, whatever it was started with before.
_ADMIT: Final = f"""if [ -e {shell(KUBELET_CONF)} ] || [ -L {shell(CLIENT_CERTIFICATE)} ]; then
  if [ "$(systemctl is-active kubelet)" != inactive ]; then systemctl stop kubelet || exit 1; fi
  rm -f -- {shell(KUBELET_CONF)} {shell(CLIENT_CERTIFICATE)} || exit 1
fi
"""

_AWAIT: Final = """n=0
until [ -L {pem} ] && [ -s {pem} ]; do
  n=$((n + 1)); [ "$n" -le {tries} ] || exit 71
  [ $((n % 5)) != 0 ] || [ "$(systemctl is-active kubelet)" != failed ] || exit 72
  sleep 0.2
done
{registers}
rm -f -- {bootstrap}
"""
# Its own log says it first, and asking that takes less than asking the API.
_REGISTERS: Final = f"""i=$(systemctl show -p InvocationID --value kubelet)
n=0
until journalctl -q --no-pager -o cat _SYSTEMD_INVOCATION_ID="$i" 2>/dev/null \\
  | grep -q -e 'Successfully registered node' -e 'Node was previously registered'; do
  n=$((n + 1)); if [ "$n" -gt {round(_REGISTERED * 2)} ]; then break; fi
  sleep 0.5
done"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletAdmitted(Step):
    """The kubelet has a client certificate of this cluster, or a token to ask for one."""

    server: str
    """Where it asks: the endpoint, which is up by then."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the certificate; the token counts only where there is none."""
        found = await look_at_credentials(ctx)
        if not found.fault:
            return Check(True)
        if ctx.has(JOIN_TOKEN) and found.bootstrap == sha256_of(self._text(ctx).encode()) and not found.conf:
            return Check(True)
        return Check(False, reason=found.fault)

    async def run(self, ctx: StepContext) -> None:
        """Puts aside credentials that are of no use, then writes the token's kubeconfig."""
        await ctx.host.command.run(_ADMIT, display="put aside credentials of no use", long=True)
        await ctx.host.files.write(BOOTSTRAP_CONF, self._text(ctx), mode=0o600, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Takes the token away."""
        await restore(ctx, BOOTSTRAP_CONF)

    def reads(self) -> Resources:
        """The credentials."""
        return read_resources()

    def writes(self) -> Resources:
        """The credentials, and the kubelet, which may have to be stopped."""
        return replaced_resources()

    def consumes(self) -> tuple[Key[Any], ...]:
        """The token, if the kubelet needs one."""
        return (JOIN_TOKEN,)

    def describe(self) -> str:
        """The state."""
        return "kubelet admitted to the cluster"

    def _text(self, ctx: StepContext) -> str:
        return bootstrap_conf(self.server, ctx.value(JOIN_TOKEN).reveal())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined(Step):
    """The kubelet has its own client certificate and points at the endpoint; the token is gone from the host."""

    server: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares kubelet.conf and reads the certificate, in one read."""
        found = await look_at_credentials(ctx)
        if found.fault:
            return Check(False, reason=found.fault)
        if found.conf != sha256_of(self._conf(ctx).encode()):
            return Check(False, reason=f"kubelet.conf does not point at {self.server}")
        return Check(False, reason="its token is still there") if found.bootstrap else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Waits for the certificate and the registration, then writes kubelet.conf and removes the token."""
        script = _AWAIT.format(
            pem=shell(CLIENT_CERTIFICATE),
            bootstrap=shell(BOOTSTRAP_CONF),
            tries=round(_WAIT * 5),
            registers=_REGISTERS,
        )
        result = await ctx.host.command.run(
            script, check=False, long=True, within=_WAIT + _REGISTERED + 60, display="wait for the kubelet to join"
        )
        if not result.ok:
            raise await self._error(ctx, result.exit_code)
        # The running kubelet reaches the API the same way: it need not be restarted for this. What is there is its own
        # writing and no original; it goes with the directory.
        await ctx.host.files.write(KUBELET_CONF, self._conf(ctx), mode=0o600, keep=False, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back the kubeconfig that was there before this run."""
        await restore(ctx, KUBELET_CONF)

    def reads(self) -> Resources:
        """The credentials."""
        return read_resources()

    def writes(self) -> Resources:
        """The credentials."""
        return resources(f"file:{BOOTSTRAP_CONF}", f"file:{KUBELET_CONF}", f"file:{CLIENT_CERTIFICATE}")

    def describe(self) -> str:
        """The state."""
        return f"node joined through {self.server}"

    def _conf(self, ctx: StepContext) -> str:
        return kubelet_conf(ctx.host.name, self.server)

    async def _error(self, ctx: StepContext, code: int) -> Exception:
        failure = await ctx.host.services.failure(UNIT)
        if failure is not None:
            return failure
        log = await ctx.host.services.logs(UNIT, 40)
        return CommandError(
            host=ctx.host.name,
            command=f"journalctl -u {UNIT}",
            exit_code=code,
            stderr=log,
            message=f"the kubelet got no client certificate within {_WAIT:g} s",
            hint=f"does {self.server} answer from {ctx.host.name}? `kubectl get csr` on a control plane shows "
            "whether it asked; `journalctl -u kubelet` on the host says why not",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered(Step):
    """The API knows this control plane as a node."""

    settle: ClassVar[float] = 90.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks this host's own API server."""
        result = await ask_for_node(ctx)
        if result.ok and result.text.strip():
            return Check(True)
        return Check(False, reason="it has not registered yet" if result.ok else last_line(result.error_text))

    async def run(self, ctx: StepContext) -> None:
        """Changes nothing: waits on the host for the kubelet, which registers by itself."""
        await await_registration(ctx)

    def reads(self) -> Resources:
        """The kubelet that registers."""
        return resources("unit:kubelet.service")

    def writes(self) -> Resources:
        """Nothing."""
        return NOTHING

    def describe(self) -> str:
        """The state."""
        return "control plane registered as a node"


async def ask_for_node(ctx: StepContext) -> CommandResult:
    """Asks the API server of this control plane for its node: prints a name if there is one."""
    words = ("get", "node", ctx.host.name, "-o", "name", "--ignore-not-found", "--request-timeout", "10s")
    command = shell("kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "--cache-dir", CACHE, *words)
    return await ctx.host.command.read(command, check=False, display="ask for this node")


async def await_registration(ctx: StepContext) -> None:
    """Waits until the kubelet says that it has registered, for as long as that usually takes at most."""
    await ctx.host.command.read(
        _REGISTERS, long=True, within=_REGISTERED + 60, display="wait for the kubelet to register"
    )
