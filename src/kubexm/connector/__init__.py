"""How a host is reached. Nothing above this layer knows SSH; nothing here knows what commands mean."""

from typing import TYPE_CHECKING, Any

import kubexm.connector.shell  # noqa: F401 - now, or importing it later would hide the function of that name
from kubexm.connector.base import (
    Command,
    CommandResult,
    Connector,
    Host,
    OutputSink,
    Receipt,
    ReceiptState,
    Stream,
    Upload,
    shell,
)
from kubexm.connector.settings import ConnectionSettings

if TYPE_CHECKING:
    from kubexm.connector.local import LocalConnector
    from kubexm.connector.pool import ConnectionPool
    from kubexm.connector.ssh import SSHConnector

__all__ = [
    "Command",
    "CommandResult",
    "ConnectionPool",
    "ConnectionSettings",
    "Connector",
    "Host",
    "LocalConnector",
    "OutputSink",
    "Receipt",
    "ReceiptState",
    "SSHConnector",
    "Stream",
    "Upload",
    "shell",
]

_SKIPPED = ("oqs", "nettle", "nettle-6")
_LATER = {
    "ConnectionPool": "kubexm.connector.pool",
    "LocalConnector": "kubexm.connector.local",
    "SSHConnector": "kubexm.connector.ssh",
}


def __getattr__(name: str) -> Any:
    # Importing asyncssh takes a good part of a second: only those who connect pay for it.
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    _load_asyncssh()
    return getattr(import_module(_LATER[name]), name)


def _load_asyncssh() -> None:
    """Imports it without its search for two libraries, which runs a compiler and a linker: they would bring umac, which
    our ciphers need no more than hmac, and key exchanges that are not offered; cryptography has the one that is."""
    import ctypes.util

    find = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None if name.removeprefix("lib") in _SKIPPED else find(name)
    try:
        import asyncssh  # noqa: F401
    finally:
        ctypes.util.find_library = find
