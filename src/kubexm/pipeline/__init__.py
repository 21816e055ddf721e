"""Pipelines: what a user can ask for. One screen each."""

from kubexm.pipeline.base import Pipeline, failure_policy
from kubexm.pipeline.catalog import PIPELINES, leaves_hosts, pipeline_named, usual_probes

__all__ = ["PIPELINES", "Pipeline", "failure_policy", "leaves_hosts", "pipeline_named", "usual_probes"]
