"""The way to the API for every component: manifests that are applied, and kubectl on a control plane. Plans nothing.

What it leaves: objects in the cluster, their inventories (Secrets `kubexm-applied-…` in kube-system), and kubectl's
cache in /run/kubexm/kubectl on the control plane that was asked.
"""

from kubexm.components.api.documents import LABEL, ManifestObject, Ref, objects_of
from kubexm.components.api.kubectl import ADMIN_CONF, Kubectl, api_host, is_transient
from kubexm.components.api.manifests import ManifestsApplied

__all__ = [
    "ADMIN_CONF",
    "LABEL",
    "Kubectl",
    "ManifestObject",
    "ManifestsApplied",
    "Ref",
    "api_host",
    "is_transient",
    "objects_of",
]
