"""Secrets of the work directory as steps of the control node see them: pairs, resources, times. Makes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from kubexm.components.pki import names
from kubexm.components.pki.x509 import Pair
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Resources, resources

__all__ = ["as_secrets", "authority_resources", "has_pair", "in_thread", "now", "pair_of", "pair_resources", "text_of"]

T = TypeVar("T")
_PER_HOST = (
    names.APISERVER,
    names.ETCD_SERVER,
    names.ETCD_PEER,
    names.KUBELET_SERVING,
    names.client(names.HOST_ADMIN),
    names.client(names.SUPER_ADMIN),
    names.client(names.CONTROLLER_MANAGER),
    names.client(names.SCHEDULER),
)


def now() -> datetime:
    """The time certificates are dated by: this machine's."""
    return datetime.now(UTC)


def has_pair(ctx: StepContext, name: str) -> bool:
    """True if both the certificate and its key are there."""
    return all(ctx.has_secret(SecretRef(part)) for part in (names.certificate(name), names.key(name)))


def pair_of(ctx: StepContext, name: str, *, public: Callable[[str], str] = names.certificate) -> Pair:
    """A certificate (or public key) and its key."""
    return Pair(text_of(ctx, public(name)), text_of(ctx, names.key(name)))


def text_of(ctx: StepContext, name: str) -> str:
    """What a secret says."""
    return ctx.secret(SecretRef(name)).reveal()


def as_secrets(name: str, pair: Pair, *, public: Callable[[str], str] = names.certificate) -> dict[str, Secret]:
    """A pair under the names it is kept by."""
    return {names.key(name): Secret(pair.private), public(name): Secret(pair.public)}


def pair_resources(pairs: Iterable[str]) -> Resources:
    """The secrets of these pairs; of those there is one of for each host, all."""
    found: set[str] = set()
    for pair in pairs:
        prefix = next((p for kind in _PER_HOST if pair.startswith(p := kind.partition(names.HOST)[0])), None)
        found |= {f"secret:{prefix}*"} if prefix else {f"secret:{pair}.crt", f"secret:{pair}.key"}
    return resources(*found)


def authority_resources(pairs: Iterable[str]) -> Resources:
    """The secrets of these CAs."""
    return resources(*(f"secret:{part}" for pair in pairs for part in (names.certificate(pair), names.key(pair))))


async def in_thread(work: Callable[[], T]) -> T:
    """Does work that takes the processor for a while without holding up everything else."""
    return await asyncio.to_thread(work)
