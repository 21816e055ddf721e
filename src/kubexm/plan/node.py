"""One node of a plan: a step, the hosts it is for, and what it waits for. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubexm.step import Step

__all__ = ["ExecutionNode", "Milestone", "Retry"]


@dataclass(frozen=True, slots=True)
class Milestone:
    """Something that is reached, by which fragments find each other: per host (`RuntimeReady`) or for the cluster."""

    name: str
    per_host: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed attempt is made again, and how long to wait: first `delay`, then twice that, up to `most`."""

    times: int = 0
    delay: float = 1.0
    most: float = 30.0

    def wait(self, attempt: int) -> float:
        """Seconds to wait after this attempt (the first is 1)."""
        return float(min(self.delay * 2 ** (attempt - 1), self.most))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionNode:
    """A step on some hosts. `after` waits for all hosts of the other node, `after_same_host` for the same host only."""

    id: str
    step: Step
    hosts: tuple[str, ...]
    via: tuple[str, ...] = ()
    """The hosts it may act from, the preferred one first; where there are none, each host acts for itself.

    `hosts` then names what the step is about, which need not be reachable.
    """
    after: tuple[str, ...] = ()
    after_same_host: tuple[str, ...] = ()
    provides: tuple[Milestone, ...] = ()
    needs: tuple[Milestone, ...] = ()
    optional: bool = False
    """A failure is reported, and what follows goes on; who needs its values is blocked."""
    on_demand: bool = False
    """Runs only if some node that waits for it directly, prechecked without it, is not satisfied."""
    closes: str = ""
    """The opening node of a bracket that this node closes: once that has run on a host, this runs there in any case."""
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    """Seconds for one attempt of `run`."""
    max_parallel: int | None = None
    weight: float = 1.0
    """Roughly how long it takes compared with others; the longest remaining path goes first."""
    excluded: str = ""
    """Why it is left out, if it is."""

    @property
    def module(self) -> str:
        """The first part of its id."""
        return self.id.partition(".")[0]

    @property
    def task(self) -> str:
        """The first two parts of its id."""
        return ".".join(self.id.split(".", 2)[:2])

    @property
    def path(self) -> str:
        """The first three parts of its id, which the copies for all batches of hosts share."""
        return ".".join(self.id.split(".", 3)[:3])
