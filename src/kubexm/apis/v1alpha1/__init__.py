"""The Cluster model, version v1alpha1: what the user wants, with defaults and rules. Knows no YAML and no host."""

from kubexm.apis.v1alpha1.base import EditKind, Model, Outside
from kubexm.apis.v1alpha1.cluster import API_VERSION, KIND, Cluster, Metadata, Spec
from kubexm.apis.v1alpha1.edits import Edit, digest, edits, guarded, recorded
from kubexm.apis.v1alpha1.inventory import Credentials, Host, Jump
from kubexm.apis.v1alpha1.labels import Taint
from kubexm.apis.v1alpha1.networks import IpAddress, IpNetwork
from kubexm.apis.v1alpha1.roles import ROLES
from kubexm.apis.v1alpha1.rules import Finding, check
from kubexm.apis.v1alpha1.scalars import CountOrPercent, PortRange, format_duration, format_memory
from kubexm.apis.v1alpha1.schema import json_schema
from kubexm.apis.v1alpha1.secret import EnvSecret, FileSecret, LiteralSecret, PromptSecret, SecretSource, StoredSecret
from kubexm.apis.v1alpha1.versions import KubernetesVersion, Version

__all__ = [
    "API_VERSION",
    "KIND",
    "ROLES",
    "Cluster",
    "CountOrPercent",
    "Credentials",
    "Edit",
    "EditKind",
    "EnvSecret",
    "FileSecret",
    "Finding",
    "Host",
    "IpAddress",
    "IpNetwork",
    "Jump",
    "KubernetesVersion",
    "LiteralSecret",
    "Metadata",
    "Model",
    "Outside",
    "PortRange",
    "PromptSecret",
    "SecretSource",
    "Spec",
    "StoredSecret",
    "Taint",
    "Version",
    "check",
    "digest",
    "edits",
    "format_duration",
    "format_memory",
    "guarded",
    "json_schema",
    "recorded",
]
