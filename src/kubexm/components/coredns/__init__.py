"""CoreDNS: names inside the cluster. It leaves nothing on hosts."""

from kubexm.components.coredns.module import CoreDns

__all__ = ["CoreDns"]
