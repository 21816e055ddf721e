"""What can be seen without changing anything: nodes, the control plane, etcd. Each waits a while before it gives up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kubexm.cache import Key, Scope
from kubexm.components.api import ADMIN_CONF, Kind, Selection, find_nodes, is_ready, kube_client, pod_troubles
from kubexm.components.etcd.client import EtcdClient, health_question
from kubexm.components.kubeadm.layout import ETCD, manifest
from kubexm.components.questions import Question
from kubexm.errors import ApiUnavailable, StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, OUTCOME, Check, Resources, Step, resources

__all__ = ["HERE", "ApiServerReady", "ControlPlanePodsReady", "EtcdServes", "HostHere", "NodesHealthy"]

HERE: Final = Key[bool]("verify-host", per_host=True, scope=Scope.TASK)
"""The host is there: those that were lost on the way have no such value."""

_SHOWN: Final = 4
_CONTROL_PLANE: Final = Selection(kind=Kind("", "v1", "Pod"), namespace="kube-system", labels="tier=control-plane")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHere(Step):
    """The host is still there: it counts in what follows."""

    async def precheck(self, ctx: StepContext) -> Check:
        """It is, or nobody would have asked."""
        return Check(True, values={HERE: True})

    async def run(self, ctx: StepContext) -> None:
        """Does nothing."""

    def reads(self) -> Resources:
        """Nothing."""
        return NOTHING

    def writes(self) -> Resources:
        """Nothing."""
        return NOTHING

    def produces(self) -> tuple[Key[Any], ...]:
        """That it is there."""
        return (HERE,)

    def describe(self) -> str:
        """The state."""
        return "host is there"


class Seen(Step):
    """A state that is only looked at: `fault` says what is wrong, and is asked again for a while."""

    __slots__ = ()

    patience: float
    settle: ClassVar[float] = 30.0
    """What has just come up, such as the pods of a kubelet that was restarted, may go once more before it stays."""

    async def fault(self, ctx: StepContext) -> str:
        """What is not as it should be; nothing if all is."""
        raise NotImplementedError

    async def watch(self, ctx: StepContext) -> None:
        """Waits until it may be so, for `patience` at most, where one command can: each question takes another."""

    async def details(self, ctx: StepContext) -> Sequence[str]:
        """More lines for an error that is final."""
        return ()

    def hint(self, ctx: StepContext) -> str:
        """What to do about it."""
        raise NotImplementedError

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks once."""
        fault = await self.fault(ctx)
        return Check(False, reason=fault) if fault else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Changes nothing: looks again until it is so, or nobody believes any more that it will be."""
        until, wait = time.monotonic() + self.patience, 0.5
        await self.watch(ctx)
        while fault := await self.fault(ctx):
            if time.monotonic() + wait > until:
                lines = [fault, *await self.details(ctx)]
                raise StepError("\n  ".join(lines), host=ctx.host.name, hint=self.hint(ctx))
            await asyncio.sleep(wait)
            wait = min(wait * 2, 3.0)

    def writes(self) -> Resources:
        """Nothing, ever."""
        return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesHealthy(Seen):
    """Every node is registered and Ready."""

    nodes: tuple[str, ...]
    network: bool = True
    """False: the user brings the network, and it is enough that nodes are registered."""
    lost_allowed: bool = False
    """Hosts that were lost in this run do not count: that is told elsewhere."""
    patience: float = 60.0

    async def fault(self, ctx: StepContext) -> str:
        """The nodes that are not."""
        found = await find_nodes(kube_client(ctx))
        if found is None:
            return "the API does not answer"
        # Before it is known who is there, only a cluster where all are well satisfies.
        here = ctx.values(HERE) if self.lost_allowed else {}
        counted = [name for name in self.nodes if name in here or not here]
        missing = [f"{name} is not registered" for name in counted if name not in found]
        waiting = [name for name in counted if name in found and not found[name].ready]
        if waiting and not missing and not self.network:
            names = ", ".join(waiting[:_SHOWN]) + (" and others" if waiting[_SHOWN:] else "")
            ctx.warn(f"left to you: a network plugin; {names} cannot be Ready without, `kubexm verify` proves the rest")
        unready = [f"{name} is not Ready: {found[name].message}" for name in waiting if self.network]
        return _few([*missing, *unready])

    def hint(self, ctx: StepContext) -> str:
        """Where to look."""
        return "`kubectl describe node NAME`, and `journalctl -u kubelet` on the host itself"

    def may_use(self) -> tuple[Key[Any], ...]:
        """Which hosts are there. Gathered, it would keep this from being read ahead."""
        return (HERE,)

    def reads(self) -> Resources:
        """The nodes, and whatever may have changed how they are."""
        return resources("api:nodes", OUTCOME)

    def describe(self) -> str:
        """The state."""
        return (
            f"{len(self.nodes)} node{'s' if len(self.nodes) != 1 else ''} {'Ready' if self.network else 'registered'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerReady(Seen):
    """This host's own API server is ready, and has its way to etcd."""

    port: int = 0
    """Where it listens, if it need not be the administrator who hears that it is ready."""
    patience: float = 60.0

    async def fault(self, ctx: StepContext) -> str:
        """The checks of /readyz that fail."""
        light = Question(port=self.port, path="/readyz", api=True).light(ctx.facts) if self.port else ()
        if light and (await ctx.host.command.read(light, check=False, display="ask for /readyz")).ok:
            return ""
        ready, text = await kube_client(ctx).probe("/readyz?verbose")
        if ready:
            return ""
        failed = [line for line in text.splitlines() if line.startswith("[-]")]
        said = " ".join(text.split())
        return f"the API server of {ctx.host.name} is not ready: " + (", ".join(failed) or said[-300:])

    def hint(self, ctx: StepContext) -> str:
        """Where to look."""
        return f"its log on {ctx.host.name}: `crictl logs` or `journalctl -u kube-apiserver`; it uses {ADMIN_CONF}"

    def reads(self) -> Resources:
        """The API server, and whatever may have changed how it is."""
        return resources("api:readyz", OUTCOME)

    def describe(self) -> str:
        """The state."""
        return "API server ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlanePodsReady(Seen):
    """Every pod of the control plane is ready, on each of its hosts."""

    pods: tuple[str, ...]
    """Their names."""
    patience: float = 60.0

    async def fault(self, ctx: StepContext) -> str:
        """The pods that are not."""
        try:
            found = await kube_client(ctx).list(_CONTROL_PLANE)
        except ApiUnavailable:
            return "the API does not answer"
        ready = {pod["metadata"]["name"]: is_ready(pod) for pod in found}
        missing = [f"pod {name} is not there" for name in self.pods if name not in ready]
        return _few([*missing, *(f"pod {name} is not ready" for name in self.pods if ready.get(name) is False)])

    async def watch(self, ctx: StepContext) -> None:
        """Waits for all of them; how that ends is seen by looking."""
        with contextlib.suppress(ApiUnavailable):
            await kube_client(ctx).until(_CONTROL_PLANE, self._ready, within=self.patience, patience=0.0)

    def _ready(self, found: Mapping[tuple[str, str], Mapping[str, Any]]) -> bool:
        places = [(_CONTROL_PLANE.namespace, name) for name in self.pods]
        return all(place in found and is_ready(found[place]) for place in places)

    async def details(self, ctx: StepContext) -> Sequence[str]:
        """What their containers say."""
        return await pod_troubles(kube_client(ctx), _CONTROL_PLANE.namespace, labels=_CONTROL_PLANE.labels)

    def hint(self, ctx: StepContext) -> str:
        """Where to look."""
        return "`crictl ps -a` and `crictl logs` on that host; `journalctl -u kubelet` if there is no container at all"

    def reads(self) -> Resources:
        """The pods, and whatever may have changed how they are."""
        return resources("api:control-plane-pods", OUTCOME)

    def describe(self) -> str:
        """The state."""
        return f"{len(self.pods)} pods of the control plane ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdServes(Seen):
    """This host's member of etcd answers a read that takes a quorum."""

    url: str
    """Of the member on the host itself."""
    pod: bool = False
    """The member is a static pod of this control plane: there is no etcdctl, and it has no unit."""
    patience: float = 60.0

    async def fault(self, ctx: StepContext) -> str:
        """What it says, or what asking it comes to."""
        command = EtcdClient(ctx.host, (self.url,)).command("endpoint", "health")
        if self.pod:
            command = health_question(self.url, client="etcd/healthcheck-client")
        result = await ctx.host.command.read(command, check=False, display="ask etcd for its health")
        said = " ".join((result.error_text or result.text).split())
        return "" if result.ok else f"etcd on {ctx.host.name} has no quorum or does not answer: {said[-300:]}"

    def hint(self, ctx: StepContext) -> str:
        """Where to look."""
        log = "`crictl logs $(crictl ps -a --name etcd -q | head -n 1)`" if self.pod else "`journalctl -u etcd`"
        return f"{log} on {ctx.host.name} and on the other members: can they reach each other?"

    def reads(self) -> Resources:
        """etcd, and whatever may have changed how it is."""
        pod = (f"file:{manifest(ETCD)}", "unit:kubelet.service", "etcd:members") if self.pod else ()
        return resources("etcd:health", OUTCOME, *pod)

    def describe(self) -> str:
        """The state."""
        return "etcd has a quorum"


def _few(lines: Sequence[str]) -> str:
    rest = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + rest
