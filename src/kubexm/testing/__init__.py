"""What users of the framework need for their own tests: hosts that need no machine, and hosts that are a real sshd."""

from kubexm.testing.memory import MemoryConnector, MemoryFile, UnexpectedCommand
from kubexm.testing.proxy import TcpProxy
from kubexm.testing.sshd import SshServer, SshUser, why_no_sshd

__all__ = [
    "MemoryConnector",
    "MemoryFile",
    "SshServer",
    "SshUser",
    "TcpProxy",
    "UnexpectedCommand",
    "why_no_sshd",
]
