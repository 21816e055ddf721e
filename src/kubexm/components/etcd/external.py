"""An etcd that is the user's: nothing is installed, it must answer a control plane. Must not know who runs it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from kubexm.components.etcd.client import health_question
from kubexm.components.pki.files import KUBERNETES_PKI
from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, resources

__all__ = ["ExternalEtcdHealthy"]

_PATIENCE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEtcdHealthy(Step):
    """The user's etcd answers this host, with a quorum, over TLS and with the files it is to be reached with."""

    endpoints: tuple[str, ...]

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks each endpoint for its health, which takes a quorum to answer."""
        problems = await self._problems(ctx)
        if len(problems) == len(self.endpoints):
            return Check(False, reason="; ".join(f"{url}: {text}" for url, text in problems.items()))
        for url, text in problems.items():
            ctx.warn(f"etcd at {url} is not well: {text}")
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Waits a little: there is nothing kubexm could mend."""
        until = time.monotonic() + _PATIENCE
        while True:
            problems = await self._problems(ctx)
            if len(problems) < len(self.endpoints):
                return
            if time.monotonic() > until:
                break
            await asyncio.sleep(2.0)
        url, text = next(iter(problems.items()))
        raise StepError(
            f"none of the endpoints of spec.etcd.external is well; {url}: {text}",
            host=ctx.host.name,
            hint="see that it runs, that this host reaches it, and that caFile, certFile and keyFile are its own",
        )

    def reads(self) -> Resources:
        """etcd, and the files."""
        return resources("etcd:health", f"file:{KUBERNETES_PKI}/*", "asset:kubectl")

    def writes(self) -> Resources:
        """Nothing, ever."""
        return NOTHING

    def describe(self) -> str:
        """Where."""
        return f"etcd at {', '.join(self.endpoints)} answers"

    async def _problems(self, ctx: StepContext) -> dict[str, str]:
        """What is wrong, by endpoint."""
        found = {}
        for url in self.endpoints:
            ask = health_question(url, client="apiserver-etcd-client")
            result = await ctx.host.command.read(ask, check=False, long=True, display=f"ask etcd at {url} how it is")
            if not (result.ok and '"true"' in result.text):
                found[url] = " ".join((result.error_text or result.text).split())[-200:] or "no answer"
        return found
