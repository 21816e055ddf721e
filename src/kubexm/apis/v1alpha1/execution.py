"""How the work is done: assets, preflight, certificates, parallelism. Must not know what the work is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator

from kubexm.apis.v1alpha1.base import Model, Outside, invalid, live, schema, shown
from kubexm.apis.v1alpha1.scalars import Count, CountOrPercent, Duration, Memory, Size
from kubexm.apis.v1alpha1.texts import FilePath, Url

__all__ = ["CHECKS", "AssetSource", "Assets", "Certs", "Execution", "Preflight"]

CHECKS: Final = {
    "access": ("connection", "root", "tools", "writable"),
    "system": ("os", "kernel", "arch", "init", "cgroup", "modules"),
    "capacity": ("cpu", "memory", "disk"),
    "settings": ("swap", "forwarding", "firewall", "selinux", "time-service", "modules-loaded", "time-kept"),
    "identity": ("hostname", "machine-id", "product-uuid", "mac", "clock"),
    "network": ("addresses", "cidr", "dns", "ports", "reachability"),
    "contents": ("membership", "leftovers", "runtime"),
}
"""The checks of preflight, by task: known here so that a file can be validated with no plan made of it."""


def _check(value: str) -> str:
    names = [name for checks in CHECKS.values() for name in checks]
    ids = [f"preflight.{task}.{name}" for task, checks in CHECKS.items() for name in checks]
    if value in names or value in ids:
        return value
    near = get_close_matches(value.rpartition(".")[2], names, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"the checks are {', '.join(names)}"
    raise invalid(f"there is no check {shown(value)}", hint)


Check = Annotated[str, AfterValidator(_check), schema("name of a check")]


def _true(value: object) -> object:
    if value is not True:
        raise invalid(f"expected `true`, found {shown(value)}", "write `upstream: true`, or remove the entry")
    return value


class AssetSource(Model):
    """One place for files and images; exactly one of its fields is written."""

    bundle: Annotated[FilePath | None, live("A bundle on this machine.", outside=Outside.ASSETS)] = None
    mirror: Annotated[Url | None, live("A server that holds the files of a bundle.", outside=Outside.ASSETS)] = None
    upstream: Annotated[
        Annotated[Literal[True], BeforeValidator(_true)] | None,
        live("`true`: the projects' own download sites.", outside=Outside.ASSETS),
    ] = None


class Assets(Model):
    """Where the files and images of the cluster come from."""

    sources: Annotated[
        tuple[AssetSource, ...],
        live("Places to look, in order; the first that has a file wins. Empty: none.", outside=Outside.ASSETS),
    ] = (AssetSource(upstream=True),)


class Preflight(Model):
    """What hosts must have before anything is changed."""

    min_cpu: Annotated[Count, live("CPUs of a host.")] = 2
    min_memory: Annotated[Memory, live("Memory of a host.")] = 1700 * 2**20
    min_disk: Annotated[Memory, live("Free disk space of a host, where images and data are kept.")] = 10 * 2**30
    max_clock_skew: Annotated[Duration, live("How far the clocks of two hosts may be apart.")] = timedelta(seconds=2)
    skip: Annotated[tuple[Check, ...], live("Checks that are left out, by the name a finding shows.")] = ()


class Certs(Model):
    """How long certificates are valid."""

    ca_duration: Annotated[Duration, live("Validity of the CAs, from when they are made.")] = timedelta(hours=87600)
    duration: Annotated[Duration, live("Validity of all other certificates.")] = timedelta(hours=8760)


def _some(value: CountOrPercent) -> CountOrPercent:
    if not value.value:
        raise invalid(f"must be at least 1, found {value}", "write it like `1` or `10%`")
    return value


class Execution(Model):
    """How kubexm goes about its work."""

    parallel: Annotated[Size, live("How many steps may run at once, over all hosts.")] = 100
    failure_policy: Annotated[
        Literal["isolate", "fail_fast"],
        live("`isolate`: block only what depends on a failure. `fail_fast`: after a failure start nothing new."),
    ] = "isolate"
    max_failed_workers: Annotated[
        CountOrPercent,
        live(
            "Workers that may be lost without failing the run: the others are finished, and `runs resume` finishes the "
            "lost ones. A count, or a share of all workers: rounded down, but at least one of two or more. Of a single "
            "worker a share is none: without it no pod could run. `0`: a lost worker fails the run. Hosts of etcd and "
            "the control plane are never among them."
        ),
    ] = CountOrPercent(10, percent=True)
    max_unavailable: Annotated[
        Annotated[CountOrPercent, AfterValidator(_some)],
        live(
            "Nodes that may be unavailable at the same time while work on a running cluster takes some out of service. "
            "A count, or a share of all nodes: rounded down, but at least one. Every node that is not Ready or is "
            "cordoned counts, whoever did it. Control planes are always changed one at a time."
        ),
    ] = CountOrPercent(1)

    def unavailable_nodes(self, total: int) -> int:
        """How many of this number of nodes may be unavailable at the same time: one at least."""
        return max(1, self.max_unavailable.of(total))

    def lost_workers(self, roles: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], int]:
        """Of these hosts, by their roles, those that are workers and nothing that must not be lost; and how many may.

        A share is one of all workers: where control planes run pods too, a single other worker can be spared.
        """
        workers = [name for name, has in roles.items() if "worker" in has]
        expendable = tuple(name for name in workers if not {"etcd", "controlPlane"} & set(roles[name]))
        return expendable, min(len(expendable), self.max_failed_workers.of(len(workers)))
