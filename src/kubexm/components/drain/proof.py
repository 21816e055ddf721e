"""Proof that a node serves again after work on it, and the time it must do so before the next one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from kubexm.components.api import kube_client
from kubexm.components.drain.cordon import BACK_IN_SERVICE
from kubexm.components.drain.nodes import find_state
from kubexm.errors import ApiError, StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, OUTCOME, Check, Resources, Step, resources

__all__ = ["NodeServes", "Soaked"]

_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServes(Step):
    """The node is Ready, and its kubelet answers the API server: a kubelet that died stays Ready for 40 s."""

    ready: bool = True
    """False where the user brings the network: without one no node is Ready."""
    patience: float = 300.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for the node and, through the API server, its kubelet."""
        fault = await self._fault(ctx)
        return Check(not fault, reason=fault)

    async def run(self, ctx: StepContext) -> None:
        """Waits until it is so."""
        until = time.monotonic() + self.patience
        while fault := await self._fault(ctx):
            if time.monotonic() > until:
                raise StepError(
                    f"node {ctx.subject} does not serve again after {self.patience:g} s: {fault}",
                    host=ctx.subject,
                    hint=f"`kubectl describe node {ctx.subject}` and `journalctl -u kubelet` on it say more",
                )
            await asyncio.sleep(_PAUSE)

    async def _fault(self, ctx: StepContext) -> str:
        client = kube_client(ctx)
        try:
            node, (answers, text) = await asyncio.gather(
                find_state(client, ctx.subject), client.probe(f"/api/v1/nodes/{ctx.subject}/proxy/healthz")
            )
        except ApiError as error:
            return error.message
        if node is None:
            return "it is not registered"
        if self.ready and not node.ready:
            return "it is not Ready"
        return "" if answers else f"its kubelet does not answer the API server: {text[:200].strip()}"

    def reads(self) -> Resources:
        """The nodes, which change with whatever is done to hosts."""
        return resources("api:nodes", OUTCOME)

    def writes(self) -> Resources:
        """Nothing: it waits."""
        return NOTHING

    def describe(self) -> str:
        """The state."""
        return "node Ready, kubelet answers" if self.ready else "kubelet answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked(Step):
    """The node has been back in service for a while, and is still Ready. Only after it was out of service."""

    seconds: float

    async def precheck(self, ctx: StepContext) -> Check:
        """There is nothing to wait for if this run did not take the node out of service."""
        return Check.unreadable() if ctx.has(BACK_IN_SERVICE) else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Waits, then looks."""
        await asyncio.sleep(self.seconds)
        node = await find_state(kube_client(ctx, patience=60.0), ctx.subject)
        if node is not None and not node.ready:
            raise StepError(
                f"node {ctx.subject} was back in service, and is not Ready {self.seconds:g} s later",
                host=ctx.subject,
                hint=f"`kubectl describe node {ctx.subject}` says why; the nodes after it were not touched",
            )

    def reads(self) -> Resources:
        """Who is back in service."""
        return resources("api:uncordon")

    def writes(self) -> Resources:
        """Nothing: it waits."""
        return NOTHING

    def describe(self) -> str:
        """The state."""
        return f"in service for {self.seconds:g} s"
