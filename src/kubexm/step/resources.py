"""What steps read and write, as names of resources, and which of them touch each other.

A resource is `kind:name`: `file:/etc/hosts`, `unit:etcd`, `package:curl`. A name that ends in `*` stands for every
name that starts so; `*` alone is everything on the host and in the cluster. Resources of the kinds `api`, `etcd` and
`secret` belong to the cluster and are the same from every host; all others belong to one host. A secret is made on the
control node and read by steps of many hosts: what one of them saw before it was (re)made must not count.

`run:outcome` is read by steps that prove how a run leaves the cluster: every write on any host touches it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

__all__ = ["CLUSTER_KINDS", "EVERYTHING", "NOTHING", "OUTCOME", "Resources", "clash", "clash_in_cluster", "resources"]

Resources = frozenset[str]

EVERYTHING: Resources = frozenset({"*"})
NOTHING: Resources = frozenset()
OUTCOME = "run:outcome"
CLUSTER_KINDS = frozenset({"api", "etcd", "secret"})


def resources(*names: str) -> Resources:
    """A set of resources; each must be `*` or `kind:name`."""
    for name in names:
        kind, colon, rest = name.partition(":")
        if name != "*" and not (kind and colon and rest):
            raise ValueError(f"{name!r} is not a resource: write kind:name, kind:prefix* or *")
    return frozenset(names)


@lru_cache(maxsize=65536)
def clash(one: Resources, other: Resources) -> bool:
    """True if some resource is in both, seen from one host."""
    return any(_touch(a, b) for a in one for b in other)


@lru_cache(maxsize=65536)
def clash_in_cluster(one: Resources, other: Resources) -> bool:
    """True if some resource of the cluster is in both, seen from two hosts."""
    return any(_touch(a, b) for a in _of_cluster(one) for b in _of_cluster(other))


def _of_cluster(names: Resources) -> Iterable[str]:
    for name in names:
        if name == "*":
            yield from (f"{kind}:*" for kind in sorted(CLUSTER_KINDS))
        elif name.partition(":")[0] in CLUSTER_KINDS:
            yield name


def _touch(a: str, b: str) -> bool:
    if a == "*" or b == "*":
        return True
    if a.endswith("*"):
        return b.rstrip("*").startswith(a[:-1]) or (b.endswith("*") and a[:-1].startswith(b[:-1]))
    return a.startswith(b[:-1]) if b.endswith("*") else a == b
