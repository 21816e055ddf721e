"""The way to the API for every component: manifests that are applied, and kubectl on a control plane. Plans nothing.

What it leaves: objects in the cluster, their inventories (Secrets `kubexm-applied-…` in kube-system), and kubectl's
cache in /run/kubexm/kubectl on the control plane that was asked.
"""

from kubexm.components.api.documents import LABEL, ManifestObject, Ref, objects_of
from kubexm.components.api.kubectl import ADMIN_CONF, FIELD_MANAGER, Kubectl, api_host, is_transient, list_of
from kubexm.components.api.manifests import ManifestsApplied
from kubexm.components.api.trouble import is_ready, pod_troubles

__all__ = [
    "ADMIN_CONF",
    "FIELD_MANAGER",
    "LABEL",
    "Kubectl",
    "ManifestObject",
    "ManifestsApplied",
    "Ref",
    "api_host",
    "is_ready",
    "is_transient",
    "list_of",
    "objects_of",
    "pod_troubles",
]
