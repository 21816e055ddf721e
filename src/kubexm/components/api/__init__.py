"""The way to the API for every component: one client, and manifests that are applied with it. Plans nothing.

What it leaves: objects in the cluster, their inventories (Secrets `kubexm-applied-…` in kube-system), and kubectl's
cache in /run/kubexm/kubectl on the control plane that was asked.
"""

from kubexm.components.api.client import Event, KubeClient, kube_client
from kubexm.components.api.documents import LABEL, ManifestObject, Ref, objects_of, yaml_documents
from kubexm.components.api.inventory import Inventory, find_inventories
from kubexm.components.api.kubectl import (
    ADMIN_CONF,
    FIELD_MANAGER,
    Kubectl,
    api_hosts,
    is_transient,
    list_of,
    through_api,
)
from kubexm.components.api.manifests import (
    ManifestsApplied,
    apply_manifests,
    check_manifests,
    note_group,
    undo_manifests,
)
from kubexm.components.api.nodes import NODE, NODE_NOTE, FoundNode, NodeSetting, find_nodes, node_of, taint_text
from kubexm.components.api.resources import Kind
from kubexm.components.api.rollout import RolledOut, Workload, rollout_fault, workloads_of
from kubexm.components.api.selection import Selection
from kubexm.components.api.trouble import is_ready, pod_troubles

__all__ = [
    "ADMIN_CONF",
    "FIELD_MANAGER",
    "LABEL",
    "NODE",
    "NODE_NOTE",
    "Event",
    "FoundNode",
    "Inventory",
    "Kind",
    "KubeClient",
    "Kubectl",
    "ManifestObject",
    "ManifestsApplied",
    "NodeSetting",
    "Ref",
    "RolledOut",
    "Selection",
    "Workload",
    "api_hosts",
    "apply_manifests",
    "check_manifests",
    "find_inventories",
    "find_nodes",
    "is_ready",
    "is_transient",
    "kube_client",
    "list_of",
    "node_of",
    "note_group",
    "objects_of",
    "pod_troubles",
    "rollout_fault",
    "taint_text",
    "through_api",
    "undo_manifests",
    "workloads_of",
    "yaml_documents",
]
