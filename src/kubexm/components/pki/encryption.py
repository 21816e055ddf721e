"""Encryption of secrets at rest: one key for the life of the cluster, around which settings may change.

What was encrypted once stays readable: kinds of resources that are encrypted no longer are kept in the configuration,
with plain text as their first form.
"""

from __future__ import annotations

import base64
import secrets as random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

from kubexm.components.documents import yaml_text
from kubexm.components.pki import kept, names
from kubexm.errors import StepError
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["EncryptionConfigKept", "encryption_config", "new_key", "read_encryption_config"]

_KEY_NAME: Final = "key1"
_KEY_SIZE: Final = 32
_PLAIN: Final[Mapping[str, Any]] = {"identity": {}}


@dataclass(frozen=True, slots=True)
class Encryption:
    """What a configuration says: the key, and which kinds of resources it was ever used for."""

    provider: str
    key: str
    resources: tuple[str, ...]


def new_key() -> str:
    """A key, as configurations write it."""
    return base64.b64encode(random.token_bytes(_KEY_SIZE)).decode()


def encryption_config(
    provider: str, key: str, wanted: tuple[str, ...], *, enabled: bool = True, before: tuple[str, ...] = ()
) -> str:
    """The EncryptionConfiguration that encrypts what is wanted and still reads what was encrypted before."""
    cipher = {provider: {"keys": [{"name": _KEY_NAME, "secret": key}]}}
    encrypted = _apart(wanted) if enabled else []
    left = [kind for kind in _apart((*before, *wanted)) if not any(_covers(one, kind) for one in encrypted)]
    entries: list[dict[str, Any]] = []
    if encrypted:
        entries.append({"resources": encrypted, "providers": [cipher, _PLAIN]})
    if left or not encrypted:
        entries.append({"resources": left or ["secrets"], "providers": [_PLAIN, cipher]})
    return yaml_text(
        {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": entries}
    )


def read_encryption_config(text: str) -> Encryption:
    """What a configuration that kubexm wrote says; ValueError if it is none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(StringIO(text))
        found = [
            (provider, str(settings["keys"][0]["secret"]), tuple(map(str, entry["resources"])))
            for entry in document["resources"]
            for one in entry["providers"]
            for provider, settings in one.items()
            if provider != "identity"
        ]
    except (YAMLError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError("this is no configuration of encryption") from error
    if not found or len({(provider, key) for provider, key, _ in found}) != 1:
        raise ValueError("it has not exactly one key")
    provider, key, _ = found[0]
    if len(base64.b64decode(key, validate=True)) != _KEY_SIZE:
        raise ValueError("its key has the wrong length")
    return Encryption(provider, key, tuple(kind for _, _, kinds in found for kind in kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionConfigKept(Step):
    """The configuration of encryption at rest says what the file says, with the one key the cluster has."""

    provider: str
    resources: tuple[str, ...]
    enabled: bool
    initialised: bool = False

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares; refuses a key that a cluster which exists cannot have lost."""
        known = self._known(ctx)
        if known is None:
            return Check(False, reason="not made yet")
        if kept.text_of(ctx, names.ENCRYPTION_CONFIG) != self._text(known):
            return Check(False, reason="the kinds of resources that are encrypted differ")
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Writes it, with the key there is, or for a new cluster a new one."""
        known = self._known(ctx) or Encryption(self.provider, new_key(), ())
        ctx.keep({names.ENCRYPTION_CONFIG: Secret(self._text(known))})

    def reads(self) -> Resources:
        """The configuration."""
        return resources(f"secret:{names.ENCRYPTION_CONFIG}")

    def writes(self) -> Resources:
        """The configuration."""
        return resources(f"secret:{names.ENCRYPTION_CONFIG}")

    def describe(self) -> str:
        """The state."""
        what = ", ".join(self.resources) if self.enabled else "nothing"
        return f"encryption at rest: {what}"

    def _text(self, known: Encryption) -> str:
        return encryption_config(
            known.provider, known.key, self.resources, enabled=self.enabled, before=known.resources
        )

    def _known(self, ctx: StepContext) -> Encryption | None:
        try:
            if ctx.has_secret(SecretRef(names.ENCRYPTION_CONFIG)):
                return read_encryption_config(kept.text_of(ctx, names.ENCRYPTION_CONFIG))
            fault = "is not there"
        except ValueError as error:
            fault = f"cannot be read: {error}"
        if self.initialised:
            raise StepError(
                f"{names.ENCRYPTION_CONFIG} in {ctx.work_dir} {fault}",
                host=ctx.host.name,
                hint="put the work directory back from a copy: with another key nobody can read what is encrypted",
            )
        return None


def _apart(kinds: Iterable[str]) -> list[str]:
    """Each once, without those another one stands for: Kubernetes refuses such."""
    found = list(dict.fromkeys(kinds))
    return [kind for kind in found if not any(_covers(one, kind) for one in found if one != kind)]


def _covers(pattern: str, kind: str) -> bool:
    """True if a kind of resource is meant by another one, which may be a wildcard."""
    if pattern in (kind, "*.*"):
        return True
    return pattern.startswith("*.") and pattern[2:] == kind.partition(".")[2]
