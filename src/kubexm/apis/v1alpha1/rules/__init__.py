"""Rules that look at more than one field. They read a `Cluster` and name paths; they know nothing of YAML or lines."""

from kubexm.apis.v1alpha1.rules.base import Finding, Path, Rule, dotted
from kubexm.apis.v1alpha1.rules.check import RULES, check

__all__ = ["RULES", "Finding", "Path", "Rule", "check", "dotted"]
