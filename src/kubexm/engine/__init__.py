"""Graphs become results here: a pure state machine, the asyncio driver around it, and the journal."""

from kubexm.engine.base import Cancellation, Engine, RunOptions
from kubexm.engine.journal import Journal
from kubexm.engine.local import LocalEngine
from kubexm.engine.prior import Prior

__all__ = ["Cancellation", "Engine", "Journal", "LocalEngine", "Prior", "RunOptions"]
