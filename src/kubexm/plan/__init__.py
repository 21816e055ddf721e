"""Plans as data: nodes, fragments, graphs, their results, and how they are shown and saved. Touches no host."""

from kubexm.plan.brackets import Bracket, with_whole_brackets
from kubexm.plan.fragment import EMPTY, ExecutionFragment, join_after, join_per_host, resolve_milestones
from kubexm.plan.graph import Budget, ExecutionGraph, FailureMode, FailurePolicy
from kubexm.plan.node import ExecutionNode, Milestone, Retry
from kubexm.plan.results import (
    ErrorInfo,
    GraphExecutionResult,
    HostResult,
    NodeResult,
    Prediction,
    RunStatus,
    State,
)
from kubexm.plan.saved import SavedPlan, changed_paths
from kubexm.plan.spec import RunSpec
from kubexm.plan.timeline import Span, Timeline, timeline_of
from kubexm.plan.validation import is_visible

__all__ = [
    "EMPTY",
    "Bracket",
    "Budget",
    "ErrorInfo",
    "ExecutionFragment",
    "ExecutionGraph",
    "ExecutionNode",
    "FailureMode",
    "FailurePolicy",
    "GraphExecutionResult",
    "HostResult",
    "Milestone",
    "NodeResult",
    "Prediction",
    "Retry",
    "RunSpec",
    "RunStatus",
    "SavedPlan",
    "Span",
    "State",
    "Timeline",
    "changed_paths",
    "is_visible",
    "join_after",
    "join_per_host",
    "resolve_milestones",
    "timeline_of",
    "with_whole_brackets",
]
