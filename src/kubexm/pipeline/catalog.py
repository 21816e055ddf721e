"""Every pipeline by the name users call it. Imports a pipeline only when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from kubexm.errors import UsageError
from kubexm.pipeline.base import Pipeline

__all__ = ["PIPELINES", "pipeline_named"]

PIPELINES = {
    "preflight": "kubexm.pipeline.preflight:PreflightPipeline",
}


def pipeline_named(name: str, **options: object) -> Pipeline:
    """A pipeline of this name; the options are its own."""
    place = PIPELINES.get(name)
    if place is None:
        close = get_close_matches(name, PIPELINES, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "there are: " + ", ".join(sorted(PIPELINES))
        raise UsageError(f"there is no pipeline {name!r}", hint=hint)
    module, _, attribute = place.partition(":")
    made = getattr(import_module(module), attribute)(**options)
    assert isinstance(made, Pipeline)
    return made
