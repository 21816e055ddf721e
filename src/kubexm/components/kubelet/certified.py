"""The first client certificate of a control plane's kubelet: signed by kubexm, since nobody else may be able to yet.

The same in both modes. From then on the kubelet renews its own, like any other's; no copy of the first is kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.kubelet.config import kubelet_conf
from kubexm.components.kubelet.credentials import CA_SECRET, look_at_credentials, read_resources, replaced_resources
from kubexm.components.kubelet.layout import BOOTSTRAP_CONF, CLIENT_CERTIFICATE, KUBELET_CONF
from kubexm.components.pki import sign_node
from kubexm.connector.base import shell
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step
from kubexm.step.content import sha256_of
from kubexm.step.undo import restore, snapshot

__all__ = ["KubeletCertified"]

# Named and linked as the kubelet itself does it. One that runs with credentials of no use is stopped: it reads them
# only when it starts.
_PLACE: Final = f"""( umask 022; mkdir -p -- {shell(CLIENT_CERTIFICATE.parent)} ) || exit 1
umask 077
kx_pem={shell(CLIENT_CERTIFICATE.parent)}/kubelet-client-$(date +%Y-%m-%d-%H-%M-%S).pem
cat >"$kx_pem" && [ -s "$kx_pem" ] || exit 1
if [ "$(systemctl is-active kubelet)" != inactive ]; then systemctl stop kubelet || exit 1; fi
ln -sfn -- "$kx_pem" {shell(CLIENT_CERTIFICATE)}.new && mv -fT -- {shell(CLIENT_CERTIFICATE)}.new {
    shell(CLIENT_CERTIFICATE)
} || exit 1
rm -f -- {shell(BOOTSTRAP_CONF)}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCertified(Step):
    """The kubelet of a control plane has a client certificate of this cluster, and uses its own API server."""

    server: str
    duration: int
    """Seconds a new certificate is valid."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares kubelet.conf and reads the certificate, in one read."""
        found = await look_at_credentials(ctx)
        if found.fault:
            return Check(False, reason=found.fault)
        if found.conf != sha256_of(self._conf(ctx).encode()):
            return Check(False, reason=f"kubelet.conf does not point at {self.server}")
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Signs a certificate, unless just kubelet.conf is not as it should be; then writes that."""
        if (await look_at_credentials(ctx)).fault:
            signed = await sign_node(ctx, self.duration)
            content = (signed.public + signed.private).encode()
            await ctx.host.command.run(_PLACE, stdin=content, long=True, display="place the kubelet's certificate")
        await ctx.host.files.write(KUBELET_CONF, self._conf(ctx), mode=0o600, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back the kubeconfig that was there before this run."""
        await restore(ctx, KUBELET_CONF)

    def reads(self) -> Resources:
        """The credentials."""
        return read_resources()

    def secrets(self, host: str) -> tuple[str, ...]:
        """The CA, with its key: it signs."""
        return (CA_SECRET.name, "pki.ca.key")

    def writes(self) -> Resources:
        """The credentials, and the kubelet, which may have to be stopped."""
        return replaced_resources()

    def describe(self) -> str:
        """The state."""
        return "kubelet of a control plane certified"

    def _conf(self, ctx: StepContext) -> str:
        return kubelet_conf(ctx.host.name, self.server)
