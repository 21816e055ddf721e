"""Kubeconfigs: whole texts, made of a client's certificate and an address of the API."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from kubexm.components.documents import yaml_text
from kubexm.components.pki import kept, names
from kubexm.components.pki.wanted import Kubeconfig
from kubexm.components.pki.x509 import Pair
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["KubeconfigSaved", "KubeconfigsMade", "kubeconfig_text"]


def kubeconfig_text(wanted: Kubeconfig, authority: str, client: Pair) -> str:
    """The kubeconfig; `authority` is the certificate of the cluster's CA."""
    ways = [(wanted.cluster, wanted.context, wanted.server)]
    ways += [(f"{wanted.cluster}-{name}", f"{wanted.context}-{name}", server) for name, server in wanted.servers]
    trusted = _base64(authority)
    credentials = {"client-certificate-data": _base64(client.public), "client-key-data": _base64(client.private)}
    return yaml_text(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": cluster, "cluster": {"certificate-authority-data": trusted, "server": server}}
                for cluster, _, server in ways
            ],
            "users": [{"name": wanted.user, "user": credentials}],
            "contexts": [
                {"name": context, "context": {"cluster": cluster, "user": wanted.user}} for cluster, context, _ in ways
            ],
            "current-context": wanted.context,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigsMade(Step):
    """Each of these kubeconfigs is in the work directory, with the certificates that are there now."""

    kubeconfigs: tuple[Kubeconfig, ...]

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares each with what it would be."""
        if not all(kept.has_pair(ctx, one.client) for one in self.kubeconfigs):
            return Check(False, reason="its certificate is not made yet")
        wrong = list(self._wrong(ctx))
        rest = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        return Check(False, reason=f"to be made: {', '.join(wrong[:3])}{rest}") if wrong else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Makes those that differ."""
        ctx.keep(self._wrong(ctx))

    def reads(self) -> Resources:
        """The kubeconfigs, their certificates and the CA."""
        return (
            self.writes()
            | kept.pair_resources(one.client for one in self.kubeconfigs)
            | resources(f"secret:{names.certificate(names.CA)}")
        )

    def writes(self) -> Resources:
        """The kubeconfigs."""
        return resources(*(f"secret:{one.name}" for one in self.kubeconfigs))

    def describe(self) -> str:
        """How many."""
        return f"{len(self.kubeconfigs)} kubeconfigs"

    def _wrong(self, ctx: StepContext) -> dict[str, Secret]:
        authority = kept.text_of(ctx, names.certificate(names.CA))
        texts = {
            one.name: Secret(kubeconfig_text(one, authority, kept.pair_of(ctx, one.client))) for one in self.kubeconfigs
        }
        return {
            name: text
            for name, text in texts.items()
            if not ctx.has_secret(SecretRef(name)) or ctx.secret(SecretRef(name)) != text
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigSaved(Step):
    """The user's kubeconfig is a file of the work directory that only the user can read."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares."""
        if not ctx.has_secret(_USERS):
            return Check(False, reason="it is not made yet")
        path = _place(ctx)
        if not path.exists() or path.read_bytes() != ctx.secret(_USERS).reveal().encode():
            return Check(False, reason=f"{path} is not there" if not path.exists() else f"{path} differs")
        return Check(False, reason=f"others can read {path}") if path.stat().st_mode & 0o077 else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Writes it, whole or not at all."""
        path = _place(ctx)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(ctx.secret(_USERS).reveal())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)

    def reads(self) -> Resources:
        """The kubeconfig, as secret and as file."""
        return resources(f"secret:{_USERS.name}", "secret:kubeconfig-file")

    def writes(self) -> Resources:
        """The file."""
        return resources("secret:kubeconfig-file")

    def describe(self) -> str:
        """The state."""
        return "the user's kubeconfig in the work directory"


_USERS = SecretRef(names.kubeconfig(names.ADMIN))


def _place(ctx: StepContext) -> Path:
    return ctx.work_dir / "kubeconfig"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
