"""What can be asked to be done with a cluster. The schemas of runs are derived from what pipelines declare."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from kubexm.errors import UsageError
from kubexm.pipeline import SHARED, Kind, Option, Pipeline, declared
from kubexm.plan import RunSpec
from kubexm.rest.models.basics import In, Selector, storable

__all__ = ["ApplyIn", "PlanIn", "RunIn", "StartIn", "start_model"]

_KEYS = "Record keys of hosts seen for the first time."
_Name = Annotated[str, AfterValidator(storable), Field(min_length=1, max_length=300)]
_PipelineName = Annotated[str, Field(pattern=r"^[a-z][a-z-]{0,31}$", examples=["preflight"])]
_Options = Annotated[dict[str, Any], Field(max_length=50, description="The pipeline's own options.")]
_Confirm = Annotated[str, Field(max_length=63, description="The name of the cluster, to be sure.", examples=["demo"])]


class StartIn(In):
    """Starts a run. The schema of each pipeline adds its options, and the settings of runs that it takes."""

    accept_new_host_keys: bool = Field(default=False, description=_KEYS)

    def spec(self, pipeline: str) -> RunSpec:
        """What was asked for, without what has its default."""
        given = {name: getattr(self, name) for name in self.model_fields_set if name != "confirm"}
        usual = {option.name: option.usual for option in declared(pipeline).all_options()}
        return RunSpec.of(pipeline, **{name: value for name, value in given.items() if usual.get(name) != value})

    def refuse_unconfirmed(self, pipeline: str, cluster: str) -> None:
        """Raises UsageError if the pipeline has to be confirmed with the name of the cluster, and was not."""
        if declared(pipeline).confirms and getattr(self, "confirm", "") != cluster:
            raise UsageError(
                f"to {pipeline} {cluster}, confirm it with its name", hint=f'send {{"confirm": "{cluster}"}}'
            )


class RunIn(StartIn):
    """A run as the command line asks for it: a RunSpec, with the number of its format."""

    format: int = Field(default=1, description="Format of the request.")
    pipeline: _PipelineName
    options: _Options = Field(default_factory=dict)
    dry_run: bool = Field(default=False, description=SHARED["dry_run"].help)
    only: list[Selector] = Field(default=[], max_length=200, description=SHARED["only"].help)
    skip: list[Selector] = Field(default=[], max_length=200, description=SHARED["skip"].help)
    rollback: bool = Field(default=False, description=SHARED["rollback"].help)
    parallel: int | None = Field(default=None, ge=1, le=10_000, description=SHARED["parallel"].help)
    ignore_errors: bool = Field(default=False, description=SHARED["ignore_errors"].help)
    confirm: _Confirm = ""

    def spec(self, pipeline: str = "") -> RunSpec:
        """What was asked for; FormatError if it is of another version."""
        return RunSpec.from_json(self.model_dump(exclude={"confirm"}))


class PlanIn(In):
    """Plan a pipeline, and keep the plan for review."""

    format: int = Field(default=1, description="Format of the request.")
    pipeline: _PipelineName = "create"
    options: _Options = Field(default_factory=dict)
    offline: bool = Field(default=False, description="Ask no host: plan from the spec and assumed facts alone.")
    only: list[Selector] = Field(default=[], max_length=200, description=SHARED["only"].help)
    skip: list[Selector] = Field(default=[], max_length=200, description=SHARED["skip"].help)
    accept_new_host_keys: bool = Field(default=False, description=_KEYS)

    def spec(self) -> RunSpec:
        """What was asked for; FormatError if it is of another version."""
        return RunSpec.from_json(self.model_dump(exclude={"offline"}))


class ApplyIn(In):
    """Run a plan exactly as it is. What is run is in the plan; this says how."""

    dry_run: bool = Field(default=False, description=SHARED["dry_run"].help)
    rollback: bool = Field(default=False, description=SHARED["rollback"].help)
    accept_new_host_keys: bool = Field(default=False, description=_KEYS)
    parallel: int | None = Field(default=None, ge=1, le=10_000, description=SHARED["parallel"].help)
    ignore_errors: bool = Field(default=False, description=SHARED["ignore_errors"].help)

    def spec(self, pipeline: str) -> RunSpec:
        """How the plan is run."""
        return RunSpec.of(pipeline, **self.model_dump())


def start_model(pipeline: type[Pipeline]) -> type[StartIn]:
    """The schema of the request that starts this pipeline."""
    own = (option for option in pipeline.all_options() if not option.local)
    options = (*own, *(SHARED[name] for name in pipeline.takes))
    fields: dict[str, Any] = {option.name: _field(option) for option in options}
    if pipeline.confirms:
        fields["confirm"] = (_Confirm, ...)
    name = "".join(word.capitalize() for word in pipeline.name.split("-"))
    return create_model(f"{name}In", __base__=StartIn, __doc__=pipeline.summary, **fields)


def _field(option: Option) -> tuple[Any, Any]:
    kinds: dict[Kind, Any] = {
        Kind.FLAG: bool,
        Kind.TEXT: _Name,
        Kind.CHOICE: Literal[option.choices] if option.choices else str,
        Kind.NUMBER: float,
        Kind.COUNT: int,
        Kind.NAMES: list[_Name],
        Kind.HOSTS: list[_Name],
    }
    limits: dict[str, Any] = {"ge": option.least, "le": option.most, "max_length": None}
    if option.kind in (Kind.NAMES, Kind.HOSTS):
        limits["max_length"] = 1000
    kind, default = kinds[option.kind], ... if option.required else option.usual
    if default is None or (option.kind is Kind.TEXT and default == ""):
        kind, default = kind | None, None
    said = {name: value for name, value in limits.items() if value is not None}
    return kind, Field(
        default=list(default) if isinstance(default, tuple) else default, description=option.help, **said
    )
