"""What every request needs at hand: the store, the tasks, the limits. Made once for each server."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from fastapi import Request

from kubexm.plan import ExecutionGraph
from kubexm.rest.disk import DiskProbe
from kubexm.rest.guard import Guard
from kubexm.rest.limits import Rates, Streams
from kubexm.rest.metrics import Metrics
from kubexm.service.places import Places
from kubexm.service.registry import Registry
from kubexm.service.tasks import TaskService
from kubexm.store.store import Store

__all__ = ["Server", "ServerSettings", "server_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server behaves towards those who ask."""

    secure: bool = False
    """True behind TLS: cookies are for TLS only."""
    session_hours: float = 12.0
    body: int = 6 * 2**20
    upload: int = 16 * 2**20
    body_quiet: float = 20.0
    body_within: float = 300.0
    """Seconds a body has between two pieces, and for all of it."""
    rate: float = 50.0
    burst: int = 500
    failures: int = 30
    """How often an address may fail to say who it is before it must wait a second each time."""
    checks: int = 100
    checks_each: int = 8
    """How many specs are checked, or wait for it, at once."""
    streams: int = 1000
    streams_each: int = 100
    send_within: float = 20.0
    """A follower that does not take what it is sent for so long is dropped."""
    heartbeat: float = 15.0
    recheck: float = 2.0
    """How often the tokens of open streams are checked, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """One server, as its routes see it."""

    store: Store
    places: Places
    tasks: TaskService
    registry: Registry
    settings: ServerSettings = field(default_factory=ServerSettings)
    metrics: Metrics = field(default_factory=Metrics)
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("kubexm"))
    touched: dict[str, float] = field(default_factory=dict)
    disk: DiskProbe = field(init=False)
    guard: Guard = field(init=False)
    graphs: dict[str, asyncio.Future[ExecutionGraph]] = field(default_factory=dict)
    """Those looked at last, by digest: decoding a large one takes longer than all the rest of an answer."""

    def __post_init__(self) -> None:
        settings = self.settings
        object.__setattr__(self, "rates", Rates(settings.rate, settings.burst))
        object.__setattr__(self, "failures", Rates(1.0, settings.failures))
        object.__setattr__(self, "anonymous", Rates(1 / 60, settings.failures))
        object.__setattr__(self, "guard", Guard(self.store.tokens, settings.recheck))
        object.__setattr__(self, "disk", DiskProbe(self.store, self.places))
        object.__setattr__(self, "checks", Streams(settings.checks, settings.checks_each, "checks"))
        object.__setattr__(self, "streams", Streams(settings.streams, settings.streams_each))

    rates: Rates = field(init=False)
    failures: Rates = field(init=False)
    """Those who cannot say who they are get fewer tries."""
    anonymous: Rates = field(init=False)
    """How many failed logins of an address are recorded in the audit."""
    checks: Streams = field(init=False)
    streams: Streams = field(init=False)


def server_of(request: Request) -> Server:
    """The server a request came to."""
    server: Server = request.app.state.server
    return server
