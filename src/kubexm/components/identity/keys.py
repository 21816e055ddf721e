"""What every part of a cluster may know about which cluster it is: its UID and the fingerprint of its CA."""

from __future__ import annotations

from typing import Final

from kubexm.cache import Key

__all__ = ["CA_FINGERPRINT", "CLUSTER_UID"]

CLUSTER_UID: Final[Key[str]] = Key("identity.uid")
"""Made once, with the cluster; every host carries it."""
CA_FINGERPRINT: Final[Key[str]] = Key("identity.ca-fingerprint")
"""`sha256:` and the digest of the certificate of the cluster's CA."""
