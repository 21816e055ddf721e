"""Create: from bare hosts to a working cluster, proven; on a cluster that is there, just what differs from the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubexm.pipeline.base import Pipeline, failure_policy
from kubexm.pipeline.declaration import Button, Edits, probes_option

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph
    from kubexm.runtime import PipelineContext

__all__ = ["CreateCluster"]


class CreateCluster(Pipeline):
    """The whole installation, read from top to bottom; what runs when is decided by what each part needs."""

    name = "create"
    summary = "Create a cluster, or apply changes in cluster.yaml."
    description = (
        "Create the cluster of the file, verify that it works, and leave its kubeconfig in the work directory. Run it "
        "again after an edit: just what differs is changed. A second run changes nothing."
    )
    command = ("create", "cluster")
    options = (probes_option("none"),)
    accepts = frozenset({Edits.ADDED, Edits.LIVE})
    results_in = "up"
    button = Button(label="Plan changes", first="Plan and create", primary=True)
    needs_assets = True

    def __init__(self, *, probes: str = "none") -> None:
        """`probes`: what is measured if the cluster runs already: `none`, `api` or `full`."""
        self.probes = probes

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """Nothing is changed before all required hosts passed preflight; then each waits only for what it needs."""
        from kubexm.components.addons import Addons
        from kubexm.components.binary import BinaryControlPlane
        from kubexm.components.coredns import CoreDns
        from kubexm.components.etcd import Etcd
        from kubexm.components.haproxy import LoadBalancer
        from kubexm.components.identity import ClusterRecord
        from kubexm.components.images import Images
        from kubexm.components.kube_proxy import KubeProxy
        from kubexm.components.kubeadm import KubeadmControlPlane
        from kubexm.components.kubelet import Kubelet
        from kubexm.components.local_path import LocalPath
        from kubexm.components.networks import PodNetwork
        from kubexm.components.nodes import JoinedNodes, NodeSettings
        from kubexm.components.os import Groundwork, HostPreparation
        from kubexm.components.pki import Pki
        from kubexm.components.preflight import Preflight
        from kubexm.components.programs import Programs
        from kubexm.components.runtimes import NodeRuntime
        from kubexm.components.verify import Verification
        from kubexm.module import link, per_host, sequence

        return sequence(
            Preflight(uid=ctx.cluster_uid, keep_versions=True),
            per_host(
                Groundwork,
                link(
                    Pki,
                    HostPreparation,
                    NodeRuntime,
                    Images,
                    Kubelet,
                    Etcd,
                    LoadBalancer,
                    KubeadmControlPlane,
                    BinaryControlPlane,
                    ClusterRecord,
                    PodNetwork,
                    JoinedNodes,
                    KubeProxy,
                    NodeSettings,
                    CoreDns,
                    LocalPath,
                    Addons,
                ),
            ),
            Programs,
            Verification,
        ).graph(ctx, name=self.name, policy=failure_policy(ctx))
