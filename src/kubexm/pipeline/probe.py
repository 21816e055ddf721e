"""Probe: what do users of this cluster experience? Measured for a while; changes nothing that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubexm.pipeline.base import Pipeline
from kubexm.pipeline.declaration import Kind, Option

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph
    from kubexm.runtime import PipelineContext

__all__ = ["ProbePipeline"]

_LEAST, _MOST = 1.0, 86_400.0


class ProbePipeline(Pipeline):
    """All probes for `duration` seconds; before that for `baseline` seconds idle and again with every core busy.

    It takes no lease: it measures beside whatever else is done to the cluster.
    """

    name = "probe"
    summary = "Measure what users of a running cluster experience."
    description = (
        "Measure what users of a running cluster experience: API requests on new and kept connections, writes, a "
        "watch, pods, a service, DNS. Every miss is counted by cause. Changes nothing that stays; may run beside other "
        "commands."
    )
    options = (
        Option(
            name="duration",
            kind=Kind.NUMBER,
            default=60.0,
            least=_LEAST,
            most=_MOST,
            short="-d",
            metavar="SECONDS",
            help="How long to measure.",
        ),
        Option(
            name="baseline",
            kind=Kind.NUMBER,
            least=0.0,
            most=_MOST,
            metavar="SECONDS",
            help="First measure for this long idle, and again with every core busy.",
        ),
        Option(
            name="probes",
            kind=Kind.CHOICE,
            choices=("api", "full"),
            default="full",
            help="What to measure: the API only, or everything.",
        ),
    )
    takes = ()
    measures = True
    changes = False
    needs_all_hosts = False
    probes = "full"

    def __init__(self, *, duration: float = 60.0, baseline: float = 0.0, probes: str = "full") -> None:
        self._duration = duration
        self._baseline = baseline
        self.probes = probes

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module."""
        from kubexm.components.probes.module import Measurement
        from kubexm.module import sequence
        from kubexm.plan import FailureMode, FailurePolicy

        measurement = Measurement(duration=self._duration, baseline=self._baseline)
        policy = FailurePolicy(mode=FailureMode.ISOLATE)
        return sequence(measurement).graph(ctx, name=self.name, policy=policy)
