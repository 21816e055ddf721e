"""Modules: tasks joined into larger pieces, and the ways of joining. Touches no host."""

from kubexm.module.base import Module
from kubexm.module.join import Joined, link, per_host, rolling, sequence

__all__ = ["Joined", "Module", "link", "per_host", "rolling", "sequence"]
