"""Pipelines: what a user can ask for. One screen each."""

from kubexm.pipeline.base import Pipeline, failure_policy
from kubexm.pipeline.catalog import (
    PIPELINES,
    RESERVED,
    accepting,
    command_of,
    declared,
    every_pipeline,
    pipeline_for,
    pipeline_named,
    refuse_local_options,
)
from kubexm.pipeline.declaration import SHARED, Button, Edits, Kind, Option, probes_option

__all__ = [
    "PIPELINES",
    "RESERVED",
    "SHARED",
    "Button",
    "Edits",
    "Kind",
    "Option",
    "Pipeline",
    "accepting",
    "command_of",
    "declared",
    "every_pipeline",
    "failure_policy",
    "pipeline_for",
    "pipeline_named",
    "probes_option",
    "refuse_local_options",
]
