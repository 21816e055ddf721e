"""Whether upstream still supports a version. Depends on the day, so it is not among the rules every file is held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

from kubexm import releases
from kubexm.apis.v1alpha1.cluster import Cluster
from kubexm.apis.v1alpha1.rules.base import Finding

__all__ = ["supported_on"]


def supported_on(day: date) -> Callable[[Cluster], Iterator[Finding]]:
    """A rule that warns about a Kubernetes version that upstream no longer supports on this day."""

    def supported(cluster: Cluster) -> Iterator[Finding]:
        version = cluster.spec.kubernetes.version
        minor = version.minor_text.removeprefix("v")
        ended = releases.end_of_life(minor)
        if day > ended:
            newer = [each for each in releases.minors() if day <= releases.end_of_life(each)]
            supported = f"supported are {', '.join(newer)}" if newer else "so are all that this kubexm knows"
            yield Finding(
                path=("spec", "kubernetes", "version"),
                message=f"Kubernetes {minor} gets no more security fixes: upstream support ended on {ended}",
                hint=f"{supported}; the default is {releases.default_kubernetes()}",
                warning=True,
                also=(("spec", "kubernetes"), ("spec",)),
            )

    return supported
