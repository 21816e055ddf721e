"""The environment of a run. Holds no engine and no callbacks; hands each layer its own view."""

from kubexm.runtime.assets import AssetShelf, NeedsAssets, ShelfFile, ShelfImage, features_of, registry_secret
from kubexm.runtime.builder import RuntimeBuilder, plan_host
from kubexm.runtime.context import CONTROL_NODE, Context
from kubexm.runtime.facades import ModuleContext, PipelineContext, StepContext, TaskContext
from kubexm.runtime.facts_trace import FactRead, FactsTrace
from kubexm.runtime.host import HostRuntime
from kubexm.runtime.lease import ClusterLease, owner_name
from kubexm.runtime.secrets import SecretStore
from kubexm.runtime.unit import Transcript, UnitConnector
from kubexm.runtime.workdir import WorkDir, new_run_id

__all__ = [
    "CONTROL_NODE",
    "AssetShelf",
    "ClusterLease",
    "Context",
    "FactRead",
    "FactsTrace",
    "HostRuntime",
    "ModuleContext",
    "NeedsAssets",
    "PipelineContext",
    "RuntimeBuilder",
    "SecretStore",
    "ShelfFile",
    "ShelfImage",
    "StepContext",
    "TaskContext",
    "Transcript",
    "UnitConnector",
    "WorkDir",
    "features_of",
    "new_run_id",
    "owner_name",
    "plan_host",
    "registry_secret",
]
