"""Every pipeline by the name users call it. Imports a pipeline only when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from kubexm.errors import UsageError
from kubexm.pipeline.base import Pipeline

__all__ = ["PIPELINES", "leaves_hosts", "pipeline_named", "usual_probes"]

PIPELINES = {
    "create": "kubexm.pipeline.create:CreateCluster",
    "delete": "kubexm.pipeline.delete:DeleteCluster",
    "preflight": "kubexm.pipeline.preflight:PreflightPipeline",
    "probe": "kubexm.pipeline.probe:ProbePipeline",
    "verify": "kubexm.pipeline.verify:VerifyPipeline",
}


def pipeline_named(name: str, **options: object) -> Pipeline:
    """A pipeline of this name; the options are its own."""
    place = PIPELINES.get(name)
    if place is None:
        close = get_close_matches(name, PIPELINES, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "there are: " + ", ".join(sorted(PIPELINES))
        raise UsageError(f"there is no pipeline {name!r}", hint=hint)
    made = _class_at(place)(**options)
    assert isinstance(made, Pipeline)
    return made


def leaves_hosts(name: str) -> bool:
    """True if hosts belong to no cluster after the pipeline of this name."""
    return name in PIPELINES and bool(_class_at(PIPELINES[name]).leaves_hosts)


def usual_probes(name: str) -> str:
    """What is measured beside the pipeline of this name, unless something else is asked for."""
    return str(_class_at(PIPELINES[name]).probes) if name in PIPELINES else "none"


def _class_at(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
