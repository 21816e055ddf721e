"""The operating system of each host: what the file says under `system`, and what Kubernetes needs of it.

Two modules. `Groundwork` comes before anything else on a host: how it was is kept, and the user's preInstall commands
are run; join it with `per_host(Groundwork, link(HostPreparation, …))`, so that each host goes on at its own pace.
`HostPreparation` brings about the rest and provides HOST_READY on every host. Nothing here waits for another host.

What it leaves on a host is among the originals, or below /var/lib/kubexm (firewall.sh, hooks).
"""

from kubexm.components.os.module import Groundwork, HostPreparation

__all__ = ["Groundwork", "HostPreparation"]
