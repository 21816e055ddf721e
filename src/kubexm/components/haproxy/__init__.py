"""HAProxy in front of the API servers: on each node that is no control plane, and on entrances from outside."""

from kubexm.components.haproxy.module import LoadBalancer

__all__ = ["LoadBalancer"]
