"""All rules, in the order their findings read best."""

from __future__ import annotations

from collections.abc import Collection

from kubexm.apis.v1alpha1.cluster import Cluster
from kubexm.apis.v1alpha1.rules import arguments, hosts, kubernetes, networks, roles
from kubexm.apis.v1alpha1.rules.base import Finding, Path

__all__ = ["RULES", "check"]

RULES = (*hosts.RULES, *roles.RULES, *networks.RULES, *kubernetes.RULES, *arguments.RULES)


def check(cluster: Cluster, damaged: Collection[Path] = ()) -> list[Finding]:
    """What does not fit together. Rules that need a damaged part of the file are left out."""
    return [finding for rule in RULES if rule.can_run(damaged) for finding in rule.check(cluster)]
