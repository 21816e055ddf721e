"""Pipelines as the page and other programs see them: what each declares about itself."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from kubexm.pipeline import SHARED, Option, Pipeline

__all__ = ["OptionOut", "PipelineOut"]


class OptionOut(BaseModel):
    """One option: a field of the request that starts the pipeline."""

    name: str
    kind: str = Field(description="flag, text, choice, number, count, names or hosts.")
    help: str
    default: Any
    required: bool
    choices: list[str]
    least: float | None
    most: float | None
    widget: str = Field(description="What a page shows for it: checkbox, select, number or text.")
    label: str = Field(description="What the page calls it; empty if it does not ask for it.")

    @classmethod
    def of(cls, option: Option) -> OptionOut:
        """As it goes out."""
        return cls(
            **{name: getattr(option, name) for name in ("name", "kind", "help", "required", "least", "most")},
            default=list(option.usual) if isinstance(option.usual, tuple) else option.usual,
            choices=list(option.choices),
            widget=option.widget,
            label=option.label,
        )


class PipelineOut(BaseModel):
    """One thing that can be done with a cluster."""

    name: str
    summary: str
    description: str
    command: str = Field(description="Its command on the command line, after `kubexm`.")
    options: list[OptionOut]
    accepts: list[str] = Field(description="Kinds of edits it applies: added, live, upgrade, removed.")
    confirms: bool = Field(description="Whether the name of the cluster has to be sent as `confirm`.")
    results_in: str = Field(description="State of the cluster afterwards; empty if it does not change it.")
    disrupts: bool = Field(description="Whether it takes parts of a running cluster out of service.")
    button: str = Field(description="Label of its button; empty if the page does not offer it.")
    button_first: str = Field(description="Label of its button while the cluster does not exist.")
    primary: bool

    @classmethod
    def of(cls, pipeline: type[Pipeline]) -> PipelineOut:
        """As it goes out."""
        names = ("name", "summary", "description", "confirms", "results_in", "disrupts")
        button = pipeline.button
        return cls(
            **{name: getattr(pipeline, name) for name in names},
            command=" ".join(pipeline.words()),
            options=[
                OptionOut.of(option)
                for option in (*pipeline.all_options(), *(SHARED[name] for name in pipeline.takes))
                if not option.local
            ],
            accepts=sorted(pipeline.accepts),
            button="" if button is None else button.label,
            button_first="" if button is None else button.first or button.label,
            primary=button is not None and button.primary,
        )
