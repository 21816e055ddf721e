"""Plans and results that were told by somebody else: a server, or a run of older code. To be shown, never executed.

A step of which the code is not here is known by what was said of it; a result is put together from events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from kubexm.errors import GraphError
from kubexm.events import Event, EventKind
from kubexm.plan.codec import decode, encode
from kubexm.plan.graph import ExecutionGraph, FailurePolicy
from kubexm.plan.node import ExecutionNode
from kubexm.plan.results import (
    ErrorInfo,
    GraphExecutionResult,
    HostResult,
    NodeResult,
    Prediction,
    RunStatus,
    State,
)
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step

_PLAIN = (
    "id", "hosts", "via", "after", "after_same_host", "optional", "on_demand", "closes", "max_parallel", "weight",
    "excluded",
)  # fmt: skip
__all__ = ["ToldResult", "ToldStep", "graph_as_known", "graph_of_data", "graph_of_events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldStep(Step):
    """A step of which only the description is known."""

    text: str

    def describe(self) -> str:
        return self.text

    def reads(self) -> Resources:
        return NOTHING

    def writes(self) -> Resources:
        return NOTHING

    async def precheck(self, ctx: StepContext) -> Check:
        raise GraphError(f"{self.text}: this step is known by its description alone and cannot be executed")

    async def run(self, ctx: StepContext) -> None:
        raise GraphError(f"{self.text}: this step is known by its description alone and cannot be executed")


def graph_of_data(data: Mapping[str, Any]) -> ExecutionGraph:
    """The plan of which `kubexm.plan.render.to_data` made this data, as far as it can be shown."""
    try:
        nodes = {
            each["id"]: ExecutionNode(
                id=each["id"],
                step=ToldStep(text=each["step"]["state"]),
                hosts=tuple(each["hosts"]),
                via=tuple(each["via"]),
                after=tuple(each["after"]),
                after_same_host=tuple(each["after_same_host"]),
                optional=bool(each["optional"]),
                on_demand=bool(each["on_demand"]),
                closes=each["closes"] or "",
                max_parallel=each["max_parallel"],
                weight=float(each.get("weight", 1.0)),
                excluded=each["excluded"] or "",
            )
            for each in data["nodes"]
        }
        graph = ExecutionGraph(str(data["name"]), MappingProxyType(nodes))
        graph.__dict__["digest"] = str(data["digest"])  # of the plan itself, not of what is known of it here
    except (KeyError, TypeError, ValueError) as error:
        raise GraphError(f"this is not a plan: {error!r}") from error
    return graph


def graph_as_known(data: Mapping[str, Any]) -> ExecutionGraph:
    """The graph of `ExecutionGraph.to_dict`'s data, also if it was made by older code: steps that this code does not
    have are named by their kind."""
    try:
        return ExecutionGraph.from_dict(data)
    except GraphError:
        pass
    try:
        nodes = [_known(each) for each in data["nodes"]]
        return ExecutionGraph(str(data["name"]), MappingProxyType({node.id: node for node in nodes}), FailurePolicy())
    except (KeyError, TypeError, AttributeError) as error:
        raise GraphError(f"this is not a graph: {error!r}") from error


def _known(data: Mapping[str, Any]) -> ExecutionNode:
    try:
        text = decode(data["step"], Step).describe()
    except GraphError:
        text = str(data["step"]["$"]).rpartition(":")[2]
    kept = {name: data[name] for name in _PLAIN if name in data}
    step = encode(ToldStep(text=text))
    return decode(
        {"$": f"{ExecutionNode.__module__}:{ExecutionNode.__qualname__}", **kept, "step": step}, ExecutionNode
    )


def graph_of_events(name: str, events: Iterable[Event]) -> ExecutionGraph:
    """What a journal alone tells of its graph: nodes and hosts, in the order in which they ended, and no edges."""
    hosts: dict[str, dict[str, None]] = {}
    for event in events:
        if event.kind is EventKind.UNIT_DONE:
            hosts.setdefault(event.node, {})[event.host] = None
    nodes = {
        node: ExecutionNode(id=node, step=ToldStep(text=node.rpartition(".")[2]), hosts=tuple(each))
        for node, each in hosts.items()
    }
    return ExecutionGraph(name, MappingProxyType(nodes))


_ERROR_FIELDS = frozenset(item.name for item in fields(ErrorInfo))


class ToldResult:
    """Takes in the events of a run, and gives its result. A run that is resumed begins anew."""

    def __init__(self) -> None:
        self.begun = False
        """True once the run has begun."""
        self._begin({}, 0.0)

    def _begin(self, data: Mapping[str, Any], moment: float) -> None:
        """From here on everything is told anew."""
        self._run, self._name = str(data.get("run", "")), str(data.get("name", ""))
        self._dry_run = bool(data.get("dry_run"))
        self._started = self._ended = moment
        self._status: RunStatus | None = None
        self._results: dict[tuple[str, str], HostResult] = {}
        self._running: set[tuple[str, str]] = set()
        self._lost: dict[str, str] = {}
        self._unreached: dict[str, str] = {}
        self._hints: dict[str, str] = {}

    def on_event(self, event: Event) -> None:
        """Takes it in."""
        unit = (event.node, event.host)
        if event.kind is not EventKind.RUN_COST:  # follows the end
            self._ended = event.time
        match event.kind:
            case EventKind.RUN_STARTED | EventKind.RUN_RESUMED:
                self.begun = True
                self._begin(event.data, event.time)
            case EventKind.UNIT_RUNNING:
                self._running.add(unit)
            case EventKind.UNIT_DONE:
                self._running.discard(unit)
                self._results[unit] = _result(event)
            case EventKind.ROLLBACK_DONE if unit in self._results:
                self._results[unit] = self._results[unit]._replace(rolled_back=bool(event.data.get("ok")))
            case EventKind.HOST_LOST:
                hosts = self._unreached if event.data.get("unreached") else self._lost
                hosts[event.host] = str(event.data.get("reason", ""))
                if event.data.get("hint"):
                    self._hints[event.host] = str(event.data["hint"])
            case EventKind.RUN_ENDED:
                self._status = RunStatus(event.data["status"])

    def failed(self) -> list[tuple[str, str]]:
        """Every (node, host) that failed."""
        return [unit for unit, each in self._results.items() if each.error is not None]

    def add_output(self, node: str, host: str, *, stdout: str, stderr: str) -> None:
        """What a unit that failed has printed, where events do not carry it."""
        found = self._results.get((node, host))
        if found is not None and found.error is not None:
            error = replace(found.error, stdout=found.error.stdout or stdout, stderr=found.error.stderr or stderr)
            self._results[node, host] = found._replace(error=error)

    def result(self, graph: ExecutionGraph) -> GraphExecutionResult:
        """How the run stands; what never ended was stopped midway or never started."""
        nodes = {
            node.id: NodeResult(
                node.id,
                node.step.describe(),
                {host: self._results.get((node.id, host)) or self._unknown(node.id, host) for host in node.hosts},
                node.optional,
            )
            for node in graph.nodes.values()
        }
        return GraphExecutionResult(
            run=self._run,
            name=self._name,
            status=self._status or RunStatus.INTERRUPTED,
            started=self._started,
            ended=self._ended,
            nodes=nodes,
            lost_hosts=self._lost,
            unreached=self._unreached,
            hints=self._hints,
            dry_run=self._dry_run,
        )

    def _unknown(self, node: str, host: str) -> HostResult:
        state = State.INTERRUPTED if (node, host) in self._running else State.CANCELLED
        return HostResult(host=host, state=state)


def _result(event: Event) -> HostResult:
    data = event.data
    error, root, prediction = data.get("error"), data.get("root_cause"), data.get("prediction")
    return HostResult(
        host=event.host,
        state=State(data["state"]),
        started=data.get("started"),
        ended=event.time,
        busy=data.get("busy", 0.0),
        attempts=data.get("attempts", 0),
        stdout=data.get("stdout", ""),
        stderr=data.get("stderr", ""),
        error=ErrorInfo(**{name: value for name, value in error.items() if name in _ERROR_FIELDS}) if error else None,
        root_cause=(root[0], root[1]) if root else None,
        reason=data.get("reason", ""),
        prediction=Prediction(prediction) if prediction else None,
        diff=data.get("diff", ""),
        warnings=tuple(data.get("warnings", ())),
        waited=bool(data.get("waited")),
        actor=str(data.get("actor", "")),
    )
