"""The kubelet at work, undone with all it started: pods end neither with their kubelet nor with the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.runtimes import DEFAULT_RUNTIME, runtime_named
from kubexm.runtime import StepContext
from kubexm.step import ServiceRunning

__all__ = ["KubeletRunning"]

_END_PODS: Final = """if systemctl is-active -q kubelet || ! systemctl is-active -q @UNIT@; then exit 0; fi
crictl --runtime-endpoint @ENDPOINT@ --timeout 60s rmp -f -a || exit 1
systemctl stop kubepods.slice 2>/dev/null
for d in /sys/fs/cgroup/kubepods* /sys/fs/cgroup/*/kubepods*; do
  if [ -d "$d" ]; then find "$d" -depth -type d -exec rmdir -- {} + 2>/dev/null; fi
done
:
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletRunning(ServiceRunning):
    """The kubelet runs from what it was given."""

    runtime: str = DEFAULT_RUNTIME

    async def rollback(self, ctx: StepContext) -> None:
        """As for any service; and on a host that has no role in a cluster yet, no pod stays: its ports are needed.

        A host with a role runs pods of earlier runs, perhaps etcd and the API server: not for this one to remove.
        """
        await ServiceRunning.rollback(self, ctx)
        marker = await ctx.host.marker.read()
        if marker is not None and (marker.roles or marker.uid != ctx.cluster_uid):
            return
        runtime = runtime_named(self.runtime)
        script = _END_PODS.replace("@UNIT@", runtime.unit).replace("@ENDPOINT@", runtime.endpoint)
        await ctx.host.command.run(script, within=300, long=True, display="end the pods of the kubelet")
