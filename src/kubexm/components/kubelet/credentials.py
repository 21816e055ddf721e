"""The kubelet's client certificate as it is on a host: whether it is one of this node, in this cluster, and in date.

Read with `cryptography` here, since hosts need have no openssl; only the public part ever leaves the host.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from kubexm.components.kubelet.layout import BOOTSTRAP_CONF, CLIENT_CERTIFICATE, KUBELET_CONF, UNIT
from kubexm.connector.base import shell
from kubexm.redact import SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Resources, resources

__all__ = ["CA_SECRET", "Credentials", "fault_of", "look_at_credentials", "read_resources", "replaced_resources"]

CA_SECRET: Final = SecretRef("pki.ca.crt")

_LOOK: Final = f"""kx_sum() {{ if [ -f "$1" ]; then sha256sum <"$1" | cut -d' ' -f1; else echo -; fi; }}
echo "$(kx_sum {shell(KUBELET_CONF)}) $(kx_sum {shell(BOOTSTRAP_CONF)})"
if [ -L {shell(CLIENT_CERTIFICATE)} ] && [ -f {shell(CLIENT_CERTIFICATE)} ]; then
  sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p' {shell(CLIENT_CERTIFICATE)}
fi
"""


class Credentials:
    """What a host has to show to the API: digests of its kubeconfigs, and what is wrong with its certificate."""

    __slots__ = ("bootstrap", "conf", "fault")

    def __init__(self, *, conf: str, bootstrap: str, fault: str) -> None:
        self.conf = conf
        """sha256 of kubelet.conf; empty if there is none."""
        self.bootstrap = bootstrap
        """sha256 of bootstrap-kubelet.conf; empty if there is none."""
        self.fault = fault
        """Why the client certificate cannot be used; empty if it can."""


async def look_at_credentials(ctx: StepContext) -> Credentials:
    """Everything in one read."""
    result = await ctx.host.command.read(_LOOK, display="look at the kubelet's credentials")
    head, _, certificate = result.text.partition("\n")
    conf, bootstrap = ("" if word == "-" else word for word in head.split())
    if not ctx.has_secret(CA_SECRET):
        return Credentials(conf=conf, bootstrap=bootstrap, fault="the cluster's CA is not made yet")
    ca = ctx.secret(CA_SECRET).reveal()
    return Credentials(conf=conf, bootstrap=bootstrap, fault=fault_of(certificate, ca, ctx.host.name))


def fault_of(certificate: str, ca: str, name: str) -> str:
    """Why this is no client certificate of node `name` in the cluster of this CA; nothing if it is one."""
    if not certificate.strip():
        return "the kubelet has no client certificate"
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(ca.encode()))
    except ValueError:
        return "the kubelet's client certificate is damaged, or another CA's"
    except InvalidSignature:
        return "the kubelet's client certificate is another CA's"
    names = [str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [f"system:node:{name}"]:
        return f"the kubelet's client certificate is for {', '.join(names) or 'nobody'}"
    if found.not_valid_after_utc <= datetime.now(UTC):
        return f"the kubelet's client certificate expired on {found.not_valid_after_utc:%Y-%m-%d}"
    return ""


def read_resources(*more: PurePosixPath) -> Resources:
    """What looking at the credentials looks at."""
    return resources(
        f"file:{KUBELET_CONF}",
        f"file:{BOOTSTRAP_CONF}",
        f"file:{CLIENT_CERTIFICATE}",
        f"secret:{CA_SECRET.name}",
        *(f"file:{path}" for path in more),
    )


def replaced_resources() -> Resources:
    """What replacing the credentials changes: them, and the kubelet, which may have to be stopped for it."""
    return resources(
        f"file:{BOOTSTRAP_CONF}", f"file:{KUBELET_CONF}", f"file:{CLIENT_CERTIFICATE}", f"unit:{UNIT}.service"
    )
