"""Pipelines: what a user can ask for. One screen each."""

from kubexm.pipeline.base import Pipeline, failure_policy
from kubexm.pipeline.catalog import PIPELINES, pipeline_named

__all__ = ["PIPELINES", "Pipeline", "failure_policy", "pipeline_named"]
