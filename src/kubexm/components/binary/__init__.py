"""A control plane of binaries under systemd (`kubernetes.type: kubexm`), and the nodes that join it.

What it leaves on a control plane beyond files whose originals are kept: the audit log (the directory of
`kubernetes.audit.logPath`, which the API server makes itself) and what the API server keeps in etcd.
"""

from kubexm.components.binary.module import BinaryControlPlane, BinaryNodes

__all__ = ["BinaryControlPlane", "BinaryNodes"]
