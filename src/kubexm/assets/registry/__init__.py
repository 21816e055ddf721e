"""OCI registries: pulling images out of them and pushing images into them, over their API version 2."""

from __future__ import annotations

from kubexm.assets.registry.access import Endpoint, RegistryAccess, parse_mirrors, parse_target
from kubexm.assets.registry.auth import Credentials, credentials_from_file
from kubexm.assets.registry.pull import Puller
from kubexm.assets.registry.push import Pusher, PushSummary
from kubexm.assets.registry.session import RegistrySession

__all__ = [
    "Credentials",
    "Endpoint",
    "Puller",
    "PushSummary",
    "Pusher",
    "RegistryAccess",
    "RegistrySession",
    "credentials_from_file",
    "parse_mirrors",
    "parse_target",
]
