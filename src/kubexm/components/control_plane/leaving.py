"""How an API server leaves without its clients noticing: periods that depend on each other. Pure.

Once told to stop, an API server reports `[-]shutdown` in a red /readyz and goes on serving for the shutdown delay, in
which balancers notice. Then it answers what it has accepted, for up to a minute, and exits. Whatever stops it must wait
that long.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.apis.v1alpha1.scalars import parse_duration

__all__ = ["check_interval", "leaving_arguments", "shutdown_delay", "stop_timeout"]

_INTERVALS: Final = ((50, 2), (200, 4))
_LONGEST_INTERVAL: Final = 8
"""Not longer: an API server that shuts down waits until every balancer has noticed."""
_LONGEST_DELAY: Final = 10
_SPREAD: Final = 1.2
"""Balancers stretch the interval between two checks by up to a fifth."""
_REQUEST: Final = 60
"""Seconds a request may take, by the API server's own default."""
_EXIT: Final = 5
_ARGUMENT: Final = "shutdown-delay-duration"


def check_interval(balancers: int) -> int:
    """Seconds between two checks of an API server by one of so many balancers: longer where many ask.

    It has few values, so that one host more or less does not rewrite the configuration of all the others.
    """
    return next((seconds for most, seconds in _INTERVALS if balancers <= most), _LONGEST_INTERVAL)


def leaving_arguments(cluster: Cluster) -> dict[str, str]:
    """What an API server is told; nothing where there is no other one that could serve meanwhile."""
    delay = _own_delay(cluster)
    if not delay:
        return {}
    # Clients with a connection that never ends move to another server now and then, so that one that came back gets
    # its share.
    return {"goaway-chance": "0.001", _ARGUMENT: f"{delay}s"}


def shutdown_delay(cluster: Cluster) -> int:
    """Seconds for which an API server that was told to stop goes on serving; the user's argument wins."""
    given = cluster.spec.kubernetes.api_server.extra_args.get(_ARGUMENT)
    if not given:
        return _own_delay(cluster)
    try:
        return ceil(parse_duration(given[-1]).total_seconds())
    except ValueError:  # written in a way that only Go reads
        return _REQUEST


def stop_timeout(cluster: Cluster) -> int:
    """Seconds after which an API server that was told to stop is killed."""
    return shutdown_delay(cluster) + _REQUEST + _EXIT


def _own_delay(cluster: Cluster) -> int:
    if len(cluster.role("controlPlane")) == 1:
        return 0
    endpoint = cluster.spec.control_plane_endpoint
    if endpoint.load_balancer == "external":
        return ceil(endpoint.shutdown_delay.total_seconds())
    balancers = [host for host in cluster.hosts if "loadbalancer" in host.roles or "controlPlane" not in host.roles]
    return min(_LONGEST_DELAY, ceil(check_interval(len(balancers)) * _SPREAD) + 1)
