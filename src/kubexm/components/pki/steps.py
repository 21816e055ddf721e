"""Steps of the control node: CAs, certificates, kubeconfigs and keys are in the work directory and as they should be.

What the hosts of a cluster that is there already trust is never made anew: it is there, fetched back, or refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cryptography import x509

from kubexm.cache import Key
from kubexm.components.identity import CA_FINGERPRINT
from kubexm.components.pki import kept, names
from kubexm.components.pki.wanted import AuthorityName
from kubexm.components.pki.x509 import (
    Authority,
    Certificate,
    authority_fault,
    certificate_fault,
    fingerprint,
    issue,
    key_pair_fault,
    make_authority,
    make_key_pair,
)
from kubexm.errors import StepError
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["AuthoritiesKept", "CertificatesIssued", "ServiceAccountKeyKept"]

_WARN_BEFORE = timedelta(days=180)
_LOST = (
    "put the work directory back from a copy; kubexm makes no new one for a cluster that exists, since its hosts would "
    "not trust it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoritiesKept(Step):
    """Every CA of the cluster is in the work directory, whole; for a new cluster they are made."""

    authorities: tuple[AuthorityName, ...]
    duration: int
    """Seconds a new CA is valid."""
    initialised: bool = False
    """The cluster is there: none is made."""
    fingerprint: str = ""
    """Of the CA the hosts were brought up with."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks at each; refuses what a cluster that exists cannot have lost, and a CA its hosts do not know."""
        faults = self._faults(ctx)
        if faults:
            texts = ", ".join(f"{name} {fault}" for name, fault in faults.items())
            if self.initialised:
                raise StepError(f"CAs in {ctx.work_dir}: {texts}", host=ctx.host.name, hint=_LOST)
            return Check(False, reason=texts)
        self._warn(ctx)
        found = fingerprint(kept.text_of(ctx, names.certificate(names.CA)))
        if self.fingerprint and found != self.fingerprint:
            raise StepError(
                f"the CA in {ctx.work_dir} ({found}) is not the one the cluster's hosts were made with "
                f"({self.fingerprint})",
                host=ctx.host.name,
                hint="put the right work directory back, or move this one away: the CA is then fetched from the hosts",
            )
        return Check(True, values={CA_FINGERPRINT: found})

    async def run(self, ctx: StepContext) -> None:
        """Makes those that are missing or of no use."""
        made: dict[str, Secret] = {}
        faults = self._faults(ctx)
        for wanted in self.authorities:
            if wanted.name in faults:
                pair = make_authority(wanted.common_name, timedelta(seconds=self.duration), kept.now())
                made |= kept.as_secrets(wanted.name, pair)
        ctx.keep(made)

    def reads(self) -> Resources:
        """The CAs."""
        return kept.authority_resources(wanted.name for wanted in self.authorities)

    def writes(self) -> Resources:
        """The CAs; nothing of a cluster that exists."""
        return resources() if self.initialised else self.reads()

    def produces(self) -> tuple[Key[Any], ...]:
        """The fingerprint that hosts are marked with."""
        return (CA_FINGERPRINT,)

    def describe(self) -> str:
        """The state."""
        return f"CAs: {', '.join(wanted.name.removeprefix('pki.') for wanted in self.authorities)}"

    def _faults(self, ctx: StepContext) -> dict[str, str]:
        found = {}
        for wanted in self.authorities:
            there = kept.has_pair(ctx, wanted.name)
            fault = authority_fault(kept.pair_of(ctx, wanted.name), kept.now()) if there else "is not there"
            if fault:
                found[wanted.name] = fault
        return found

    def _warn(self, ctx: StepContext) -> None:
        for wanted in self.authorities:
            certificate = kept.text_of(ctx, names.certificate(wanted.name))
            end = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
            if end - kept.now() < _WARN_BEFORE:
                ctx.warn(f"the CA {wanted.name} ends on {end:%Y-%m-%d}, and with it every certificate it signed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountKeyKept(Step):
    """The key that signs service accounts' tokens is in the work directory; for a new cluster it is made."""

    initialised: bool = False

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks at both halves; refuses what a cluster that exists cannot have lost."""
        fault = self._fault(ctx)
        if fault and self.initialised:
            message = f"the key of service accounts in {ctx.work_dir} {fault}"
            raise StepError(message, host=ctx.host.name, hint=_LOST)
        return Check(False, reason=f"it {fault}") if fault else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Makes it."""
        ctx.keep(kept.as_secrets(names.SERVICE_ACCOUNT, make_key_pair(), public=names.public_key))

    def reads(self) -> Resources:
        """The key."""
        return resources(f"secret:{names.SERVICE_ACCOUNT}.*")

    def writes(self) -> Resources:
        """The key; nothing of a cluster that exists."""
        return resources() if self.initialised else self.reads()

    def describe(self) -> str:
        """The state."""
        return "key of service accounts"

    def _fault(self, ctx: StepContext) -> str:
        parts = (names.key(names.SERVICE_ACCOUNT), names.public_key(names.SERVICE_ACCOUNT))
        if not all(ctx.has_secret(SecretRef(part)) for part in parts):
            return "is not there"
        return key_pair_fault(kept.pair_of(ctx, names.SERVICE_ACCOUNT, public=names.public_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatesIssued(Step):
    """Each of these certificates is in the work directory: of its CA, for its names and uses, and not about to end."""

    certificates: tuple[Certificate, ...]
    duration: int
    """Seconds a new one is valid."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks at every one."""
        if not all(kept.has_pair(ctx, name) for name in self._authorities()):
            return Check(False, reason="its CA is not made yet")
        wrong = await kept.in_thread(lambda: self._faults(ctx))
        if not wrong:
            return Check(True)
        shown = [f"{wanted.name} {fault}" for wanted, fault in wrong[:3]]
        rest = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        return Check(False, reason=", ".join(shown) + rest)

    async def run(self, ctx: StepContext) -> None:
        """Issues those that are missing or wrong, with new keys, and no others."""
        await kept.in_thread(lambda: self._issue(ctx))

    def reads(self) -> Resources:
        """The certificates and their CAs."""
        return self.writes() | kept.authority_resources(self._authorities())

    def writes(self) -> Resources:
        """The certificates."""
        return kept.pair_resources(wanted.name for wanted in self.certificates)

    def describe(self) -> str:
        """How many."""
        return f"{len(self.certificates)} certificate{'' if len(self.certificates) == 1 else 's'}"

    def _authorities(self) -> list[str]:
        return list(dict.fromkeys(wanted.authority for wanted in self.certificates))

    def _faults(self, ctx: StepContext) -> list[tuple[Certificate, str]]:
        issuers = {
            name: x509.load_pem_x509_certificate(kept.text_of(ctx, names.certificate(name)).encode())
            for name in self._authorities()
        }
        moment, duration = kept.now(), timedelta(seconds=self.duration)
        found = []
        for wanted in self.certificates:
            if not kept.has_pair(ctx, wanted.name):
                found.append((wanted, "is not made yet"))
                continue
            pair = kept.pair_of(ctx, wanted.name)
            fault = certificate_fault(wanted, pair, issuers[wanted.authority], duration, moment)
            if fault:
                found.append((wanted, fault))
        return found

    def _issue(self, ctx: StepContext) -> None:
        issuers = {name: Authority(kept.pair_of(ctx, name)) for name in self._authorities()}
        made: dict[str, Secret] = {}
        for wanted, _ in self._faults(ctx):
            pair = issue(wanted, issuers[wanted.authority], timedelta(seconds=self.duration), kept.now())
            made |= kept.as_secrets(wanted.name, pair)
        ctx.keep(made)
