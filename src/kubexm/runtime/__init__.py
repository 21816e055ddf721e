"""The environment of a run. Holds no engine and no callbacks; hands each layer its own view."""

from typing import TYPE_CHECKING

from kubexm.later import later

if TYPE_CHECKING:
    from kubexm.runtime.assets import (
        AssetShelf,
        NeedsAssets,
        ShelfFile,
        ShelfImage,
        ShelfObjects,
        features_of,
        registry_secret,
    )
    from kubexm.runtime.builder import RuntimeBuilder, plan_host
    from kubexm.runtime.context import Context
    from kubexm.runtime.facades import ModuleContext, PipelineContext, StepContext, TaskContext
    from kubexm.runtime.facts_trace import FactRead, FactsTrace
    from kubexm.runtime.host import HostRuntime
    from kubexm.runtime.lease import ClusterLease, owner_name
    from kubexm.runtime.reach import CONTROL_NODE, WHOLE_CLUSTER, connectors_of, entries_of
    from kubexm.runtime.secrets import Secrets, SecretStore
    from kubexm.runtime.sources import LocalFile, verified
    from kubexm.runtime.unit import Transcript, UnitConnector
    from kubexm.runtime.workdir import WorkDir, new_run_id

__all__ = [
    "CONTROL_NODE",
    "WHOLE_CLUSTER",
    "AssetShelf",
    "ClusterLease",
    "Context",
    "FactRead",
    "FactsTrace",
    "HostRuntime",
    "LocalFile",
    "ModuleContext",
    "NeedsAssets",
    "PipelineContext",
    "RuntimeBuilder",
    "SecretStore",
    "Secrets",
    "ShelfFile",
    "ShelfImage",
    "ShelfObjects",
    "StepContext",
    "TaskContext",
    "Transcript",
    "UnitConnector",
    "WorkDir",
    "connectors_of",
    "entries_of",
    "features_of",
    "new_run_id",
    "owner_name",
    "plan_host",
    "registry_secret",
    "verified",
]

_PARTS = {
    "kubexm.runtime.assets": (
        "AssetShelf",
        "NeedsAssets",
        "ShelfFile",
        "ShelfImage",
        "ShelfObjects",
        "features_of",
        "registry_secret",
    ),
    "kubexm.runtime.builder": (
        "RuntimeBuilder",
        "plan_host",
    ),
    "kubexm.runtime.context": ("Context",),
    "kubexm.runtime.facades": (
        "ModuleContext",
        "PipelineContext",
        "StepContext",
        "TaskContext",
    ),
    "kubexm.runtime.facts_trace": (
        "FactRead",
        "FactsTrace",
    ),
    "kubexm.runtime.host": ("HostRuntime",),
    "kubexm.runtime.lease": (
        "ClusterLease",
        "owner_name",
    ),
    "kubexm.runtime.reach": (
        "CONTROL_NODE",
        "WHOLE_CLUSTER",
        "connectors_of",
        "entries_of",
    ),
    "kubexm.runtime.secrets": ("SecretStore", "Secrets"),
    "kubexm.runtime.sources": ("LocalFile", "verified"),
    "kubexm.runtime.unit": (
        "Transcript",
        "UnitConnector",
    ),
    "kubexm.runtime.workdir": (
        "WorkDir",
        "new_run_id",
    ),
}

__getattr__ = later(__name__, _PARTS)
