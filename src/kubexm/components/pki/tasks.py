"""What is made, kept, fetched and issued, in which order. Decides from config, facts and the marks on the hosts."""

from __future__ import annotations

from typing import Final

from kubexm.components import topology
from kubexm.components.identity import ClusterIdentified, HostMarked, found_cluster
from kubexm.components.milestones import PKI_ISSUED
from kubexm.components.pki import names, wanted
from kubexm.components.pki.encryption import EncryptionConfigKept
from kubexm.components.pki.kubeconfig import KubeconfigSaved, KubeconfigsMade
from kubexm.components.pki.recovery import SecretsFetched, UserFilesKept, fetched_groups
from kubexm.components.pki.steps import AuthoritiesKept, CertificatesIssued, ServiceAccountKeyKept
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment, Milestone
from kubexm.runtime import TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["ClaimHosts", "IssueCertificates", "KeepAuthorities"]

AUTHORITIES_KEPT: Final = Milestone("AuthoritiesKept")
"""The cluster's UID, its CAs and its other lasting keys are in the work directory."""
KEEPERS_CLAIMED: Final = Milestone("KeepersClaimed")
"""Every etcd and control-plane host carries this cluster's mark."""


class KeepAuthorities(Task):
    """Makes or keeps what lasts as long as the cluster: its UID, its CAs, its keys for tokens and for encryption."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """For a cluster that is there nothing is made: it is in the work directory, or fetched from a control plane."""
        found, g, here = found_cluster(ctx), FragmentBuilder("pki.authorities"), ctx.control_node
        spec = ctx.cluster.spec
        last = g.add("uid", ClusterIdentified(cluster=ctx.cluster.name, found=found.uid), on=here)
        sources = _sources(ctx) if found.initialised else []
        if sources:
            fetched = SecretsFetched(
                cluster=ctx.cluster.name, groups=fetched_groups(ctx.cluster), fingerprint=found.fingerprint
            )
            last = g.add("fetched", fetched, on=sources[0], after=[last])
        authorities = AuthoritiesKept(
            authorities=wanted.authorities(ctx),
            duration=int(spec.certs.ca_duration.total_seconds()),
            initialised=found.initialised,
            fingerprint=found.fingerprint,
        )
        last = g.add("kept", authorities, on=here, after=[last])
        last = g.add("service-account", ServiceAccountKeyKept(initialised=found.initialised), on=here, after=[last])
        encryption = EncryptionConfigKept(
            provider=spec.kubernetes.secrets_encryption.provider,
            resources=spec.kubernetes.secrets_encryption.resources,
            enabled=spec.kubernetes.secrets_encryption.enabled,
            initialised=found.initialised,
        )
        g.add("encryption", encryption, on=here, after=[last], provides=AUTHORITIES_KEPT)
        return g.build()


class ClaimHosts(Task):
    """Marks every host as this cluster's before anything is brought up on it, so that nobody else takes it."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Those that hold what the cluster is are waited for; the others take their time."""
        g, mark = FragmentBuilder("pki.hosts"), HostMarked(cluster=ctx.cluster.name)
        keepers = topology.keepers(ctx)
        others = [host for host in ctx.hosts() if host not in keepers]
        g.add("keepers", mark, on=keepers, needs=AUTHORITIES_KEPT, provides=KEEPERS_CLAIMED)
        if others:
            g.add("others", mark, on=others, needs=AUTHORITIES_KEPT)
        return g.build()


class IssueCertificates(Task):
    """Issues every certificate and makes every kubeconfig."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """By who needs them, so that a new node, or a new name of the API, does not make everybody look again."""
        g, here = FragmentBuilder("pki.certificates"), ctx.control_node
        duration = int(ctx.cluster.spec.certs.duration.total_seconds())
        groups = {
            "etcd": wanted.etcd_certificates(ctx),
            "api-servers": wanted.api_server_certificates(ctx),
            "clients": wanted.client_certificates(ctx),
            "nodes": wanted.node_certificates(ctx),
        }
        issued = [
            g.add(name, CertificatesIssued(certificates=group, duration=duration), on=here, needs=AUTHORITIES_KEPT)
            for name, group in groups.items()
            if group
        ]
        external = ctx.cluster.spec.etcd.external
        if ctx.cluster.spec.etcd.type == "external":
            files = UserFilesKept(
                authority=ctx.local_path(external.ca_file),
                certificate=ctx.local_path(external.cert_file),
                key=ctx.local_path(external.key_file),
                names=(
                    names.certificate(names.ETCD_CA),
                    names.certificate(names.APISERVER_ETCD_CLIENT),
                    names.key(names.APISERVER_ETCD_CLIENT),
                ),
            )
            issued.append(g.add("external-etcd", files, on=here))
        made = g.add("kubeconfigs", KubeconfigsMade(kubeconfigs=wanted.kubeconfigs(ctx)), on=here, after=issued)
        g.add("saved", KubeconfigSaved(), on=here, after=[made], needs=KEEPERS_CLAIMED, provides=PKI_ISSUED)
        return g.build()


def _sources(ctx: TaskContext) -> list[Host]:
    """The control planes a lost work directory can be fetched from: first those that were brought up."""
    ours = [host for host in topology.control_planes(ctx) if topology.marker_of(ctx, host) is not None]
    return [*topology.joined_control_planes(ctx), *ours]
