"""A control plane of binaries under systemd (`kubernetes.type: kubexm`).

What it leaves on a control plane beyond files whose originals are kept: the audit log (the directory of
`kubernetes.audit.logPath`, which the API server makes itself) and what the API server keeps in etcd.
"""

from kubexm.components.binary.module import BinaryControlPlane

__all__ = ["BinaryControlPlane"]
