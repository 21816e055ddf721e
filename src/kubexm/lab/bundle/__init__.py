"""A bundle with a real Kubernetes, built here from Go modules and Debian's packages. See docs/lab-bundle.md."""

from __future__ import annotations

from kubexm.lab.bundle.builder import BundleBuild, build
from kubexm.lab.bundle.progress import PlainProgress, Progress, SilentProgress
from kubexm.lab.bundle.versions import PARTS, default_kubernetes

__all__ = ["PARTS", "BundleBuild", "PlainProgress", "Progress", "SilentProgress", "build", "default_kubernetes"]
