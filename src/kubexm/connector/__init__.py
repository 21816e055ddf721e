"""How a host is reached. Nothing above this layer knows SSH; nothing here knows what commands mean."""

from typing import TYPE_CHECKING

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
from kubexm.connector.streams import Attachment, ByteStream, NoStreams, Streams
from kubexm.later import later

if TYPE_CHECKING:
    from kubexm.connector.local import LocalConnector
    from kubexm.connector.pool import ConnectionPool
    from kubexm.connector.ssh import SSHConnector

__all__ = [
    "Attachment",
    "ByteStream",
    "Command",
    "CommandResult",
    "ConnectionPool",
    "ConnectionSettings",
    "Connector",
    "Host",
    "LocalConnector",
    "NoStreams",
    "OutputSink",
    "Receipt",
    "ReceiptState",
    "SSHConnector",
    "Stream",
    "Streams",
    "Upload",
    "shell",
]

_SKIPPED = ("oqs", "nettle", "nettle-6")


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


# Importing asyncssh takes a good part of a second: only those who connect pay for it.
__getattr__ = later(
    __name__,
    {
        "kubexm.connector.pool": ("ConnectionPool",),
        "kubexm.connector.local": ("LocalConnector",),
        "kubexm.connector.ssh": ("SSHConnector",),
    },
    before=_load_asyncssh,
)
