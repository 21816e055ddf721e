"""What Prometheus asks for. Counts; decides nothing."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "kubexm_http_requests",
            "Requests by route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self.seconds = Histogram(
            "kubexm_http_request_seconds",
            "Time to the answer, streams left out.",
            ("method", "route"),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
            registry=self._registry,
        )
        self.tasks = Gauge("kubexm_tasks", "Tasks in the store by state.", ("state",), registry=self._registry)
        self.running = Gauge("kubexm_tasks_running", "Tasks that run now.", registry=self._registry)
        self.waiting = Gauge("kubexm_tasks_waiting", "Tasks that wait for their turn.", registry=self._registry)
        self.streams = Gauge("kubexm_streams", "Streams that are open.", registry=self._registry)
        self.dropped = Counter("kubexm_streams_dropped", "Streams ended because nobody read.", registry=self._registry)
        self.behind = Gauge(
            "kubexm_store_away_seconds", "How long the database has been away.", registry=self._registry
        )

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
