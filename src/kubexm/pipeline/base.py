"""What a pipeline is: one thing a user can ask for, planned as a graph. Reads like a table of contents.

The class attributes are its declaration: the command, the REST route, the button on the page and the remote client are
derived from them. The module of a pipeline imports components only inside `plan`, since help reads every declaration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kubexm.pipeline.declaration import SHARED, Button, Edits, Option, probes_option

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph, FailurePolicy
    from kubexm.runner import Intent
    from kubexm.runtime import PipelineContext

__all__ = ["Pipeline", "failure_policy"]


class Pipeline:
    """Plans one graph. Made with its options as keywords, all of them checked."""

    name: ClassVar[str]
    """What plans, runs, REST and `kubexm plan` call it."""
    summary: ClassVar[str] = ""
    """Its line in the help; pipelines without one have no command of their own."""
    description: ClassVar[str] = ""
    """What the help of its command and its route say."""
    command: ClassVar[tuple[str, ...]] = ()
    """The words of its command, `("certs", "renew")`; its name if empty."""
    section: ClassVar[str] = "Clusters"
    """Where the help lists it."""
    options: ClassVar[tuple[Option, ...]] = ()
    """Its own options."""
    takes: ClassVar[tuple[str, ...]] = tuple(SHARED)
    """The settings of runs that it takes."""
    accepts: ClassVar[frozenset[Edits]] = frozenset()
    """The kinds of edits it applies. If there are any, the edits since the last run are checked first, and others are
    refused; if there are none, it does not look at edits."""
    confirms: ClassVar[bool] = False
    """True if users have to type the name of the cluster first."""
    results_in: ClassVar[str] = ""
    """The state of the cluster after it succeeded: `up`, `registered`, or empty if it does not change that."""
    button: ClassVar[Button | None] = None
    """How the page offers it; None if it does not."""
    disrupts: ClassVar[bool] = False
    """True if it takes parts of a running cluster out of service: what users experience is measured beside it."""
    measures: ClassVar[bool] = False
    """True if what it measures is its result, and shown while it runs."""
    operation: ClassVar[bool] = False
    """True if it has to be completed once it has begun: hosts record it, and everything else is refused meanwhile."""

    changes: bool = True
    """False if it only reads: no lease is taken."""
    needs_assets: bool = False
    """True if it installs: files and images are found, fetched and checked before it is planned."""
    needs_all_hosts: bool = True
    """False if hosts that cannot be reached are one finding among others."""
    probes: str = "none"
    """What is measured beside it on a running cluster: `none`, `api` (from its first change on) or `full`."""
    leaves_hosts: bool = False
    """True if hosts belong to no cluster afterwards: kubexm's own traces go too, the lease last."""

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The words of its command."""
        return cls.command or (cls.name,)

    @classmethod
    def all_options(cls) -> tuple[Option, ...]:
        """Its own options, and what to measure if it disrupts."""
        own = any(option.name == "probes" for option in cls.options)
        return cls.options if own or not cls.disrupts else (*cls.options, probes_option("api"))

    def intent(self, ctx: PipelineContext) -> Intent:
        """What hosts record of an operation before its first change, from file, facts and the open intent, if any."""
        from kubexm.runner import Intent

        return ctx.intent or Intent(operation=self.name)

    def consequences(self, cluster: str, hosts: str) -> str:
        """What users read before they confirm it."""
        return ""

    def is_required(self, ctx: PipelineContext) -> bool:
        """False if there is nothing to do for this cluster."""
        return True

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """The whole graph, from config and facts alone."""
        raise NotImplementedError


def failure_policy(ctx: PipelineContext) -> FailurePolicy:
    """What the file says about failures: workers have a budget, etcd and control plane have none."""
    from kubexm.plan import Budget, FailureMode, FailurePolicy

    execution = ctx.cluster.spec.execution
    expendable, allowed = execution.lost_workers({host.name: host.roles for host in ctx.hosts()})
    return FailurePolicy(
        mode=FailureMode(execution.failure_policy),
        budgets=(Budget("worker", expendable, allowed),) if allowed else (),
    )
