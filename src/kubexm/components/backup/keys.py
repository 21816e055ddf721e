"""Which keys a set belongs to: fingerprints and ids that tell keys apart and reveal nothing of them. Pure."""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from io import StringIO

from kubexm.components.pki.x509 import fingerprint

__all__ = ["ca_fingerprint", "encryption_key_ids"]


def ca_fingerprint(certificate: bytes) -> str:
    """As marks of hosts have it; empty if this is no certificate."""
    try:
        return fingerprint(certificate.decode())
    except ValueError:
        return ""


def encryption_key_ids(config: bytes) -> tuple[str, ...]:
    """Provider, name and a digest of each key of an EncryptionConfiguration: `secretbox:key1:1f0c…`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    found: set[str] = set()
    try:
        document = YAML(typ="safe", pure=True).load(StringIO(config.decode()))
        for entry in (document or {}).get("resources", ()):
            for provider, settings in (pair for one in entry["providers"] for pair in one.items()):
                for key in (settings or {}).get("keys", ()):
                    secret = base64.b64decode(str(key["secret"]), validate=True)
                    digest = sha256(b"kubexm encryption key id\0" + secret).hexdigest()[:16]
                    found.add(f"{provider}:{key['name']}:{digest}")
    except (YAMLError, KeyError, TypeError, AttributeError, ValueError, binascii.Error):
        return ()
    return tuple(sorted(found))
