"""Every pipeline by its name. A new one is a module and a line here."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kubexm.errors import UsageError
from kubexm.pipeline.base import Pipeline
from kubexm.pipeline.declaration import SHARED, Edits, checked

if TYPE_CHECKING:
    from kubexm.plan import RunSpec

__all__ = [
    "PIPELINES",
    "RESERVED",
    "accepting",
    "command_of",
    "declared",
    "every_pipeline",
    "pipeline_for",
    "pipeline_named",
    "refuse_local_options",
]

PIPELINES = {
    "create": "kubexm.pipeline.create:CreateCluster",
    "verify": "kubexm.pipeline.verify:VerifyPipeline",
    "probe": "kubexm.pipeline.probe:ProbePipeline",
    "backup": "kubexm.pipeline.backup:BackupCluster",
    "delete": "kubexm.pipeline.delete:DeleteCluster",
    "preflight": "kubexm.pipeline.preflight:PreflightPipeline",
}
"""Where each is, in the order of the help and of the buttons on the page."""

RESERVED: Final = frozenset({"run", "apply", "plan", "facts"})
"""Names of what a server does besides running a pipeline of that name."""


def declared(name: str) -> type[Pipeline]:
    """The pipeline of this name, not made yet: what it declares. UsageError if there is none."""
    place = PIPELINES.get(name)
    if place is None:
        close = get_close_matches(name, PIPELINES, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "there are: " + ", ".join(sorted(PIPELINES))
        raise UsageError(f"there is no pipeline {name!r}", hint=hint)
    module, _, attribute = place.partition(":")
    found: type[Pipeline] = getattr(import_module(module), attribute)
    assert issubclass(found, Pipeline)
    return found


def every_pipeline() -> list[type[Pipeline]]:
    """What all of them declare."""
    return [declared(name) for name in PIPELINES]


def pipeline_named(name: str, **options: object) -> Pipeline:
    """A pipeline of this name with these options, and the defaults of the others."""
    kind = declared(name)
    values = checked(name, kind.all_options(), options)
    probes = None if any(option.name == "probes" for option in kind.options) else values.pop("probes", None)
    made = kind(**values)
    if probes is not None:
        made.probes = probes
    return made


def pipeline_for(spec: RunSpec) -> Pipeline:
    """The pipeline that a spec asks for. UsageError if it does not take what the spec says."""
    made = pipeline_named(spec.pipeline, **spec.options)
    for name, option in SHARED.items():
        if name not in made.takes and getattr(spec, name):
            raise UsageError(f"{spec.pipeline} does not take {option.flag}", hint="leave it out")
    return made


def refuse_local_options(spec: RunSpec) -> None:
    """Raises UsageError if a spec that was sent to a server has options that name files on one's own machine."""
    if spec.pipeline not in PIPELINES:
        return
    for option in declared(spec.pipeline).all_options():
        if option.local and spec.options.get(option.name):
            raise UsageError(
                f"{spec.pipeline}: {option.flag} names a place on the machine of the command line; a server does not "
                "take it",
                hint="leave it out",
            )


def accepting(kind: Edits) -> list[str]:
    """The commands that apply edits of this kind."""
    return [command_of(each.name) for each in every_pipeline() if kind in each.accepts]


def command_of(name: str) -> str:
    """The command line that runs a pipeline."""
    return "kubexm " + " ".join(declared(name).words() if name in PIPELINES else (name,))
