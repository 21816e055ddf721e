"""The proof that workloads work: pods on all nodes reach each other, names and services, and write to a volume.

The namespace of a probe is removed whatever comes of it; one that a killed process left is removed by the next probe.
What was proven is noted in the cluster: `create` does not prove the same settings again unless it changed something.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from kubexm.cache import RUN_CHANGED, Key
from kubexm.components.api import Kubectl, Ref, kube_client, pod_troubles
from kubexm.components.verify.asking import Probe, questions, read_answers
from kubexm.components.verify.objects import LABEL, VOLUME_POD, Sample, probe_objects, sample_of
from kubexm.components.verify.state import HERE
from kubexm.errors import ApiUnavailable, StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, resources

__all__ = ["ClusterProbed"]

_RECORD: Final = "kubexm-verified"
_SHOWN: Final = 6
_GONE: Final = 30
"""Seconds for the pods to end, which they do without a grace period."""
_NAMES: Final = 60
"""Seconds to wait for the cluster's DNS at a time."""
_NAMESPACE: Final = "kubexm-verify"
_DEFAULT: Final = r"{.metadata.annotations.storageclass\.kubernetes\.io/is-default-class}"
_CLASSES: Final = f'jsonpath={{range .items[*]}}{{.metadata.name}}{{"\\t"}}{_DEFAULT}{{"\\n"}}{{end}}'
_SERVICE: Final = 'jsonpath={.items[?(@.kind=="Service")].spec.clusterIP}'
_ADDRESS: Final = 'jsonpath={.metadata.name}{"\\t"}{.status.podIP}{"\\n"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProbed(Step):
    """Workloads work on these nodes, and that was proven with these settings since the last change."""

    nodes: tuple[str, ...]
    image: str
    dns: str
    """Address of the cluster's DNS service."""
    name: str
    """A name every cluster has, and its address."""
    expected: str
    taints: tuple[str, ...] = ()
    """Of the file: a pod that the scheduler places tolerates them."""
    storage_class: str = ""
    """To be used; empty: the default one, if the cluster has any."""
    settings: str = ""
    """Digest of the settings that are proven; empty: it is proven each time."""
    traffic: tuple[str, ...] = ()
    """The ports packets between pods take from node to node, in words."""
    patience: float = 120.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for the note of an earlier proof, unless this run changed something since."""
        if not self.settings:
            return Check.unreadable()
        try:
            record = await kube_client(ctx).find(Ref("", "ConfigMap", "kube-system", _RECORD, "v1"))
        except ApiUnavailable:
            return Check(False, reason="the API does not answer")
        noted = (record or {}).get("data") or {}
        if noted.get("run") == ctx.run:
            return Check(True)
        if noted.get("settings") != self.settings or noted.get("nodes") != self._names(ctx):
            return Check(False, reason="these settings were not proven yet")
        if ctx.has(RUN_CHANGED):
            return Check(False, reason="something was changed since it was proven")
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Brings pods, has them ask each other, and takes them away again."""
        kubectl, mark = Kubectl(ctx.host), secrets.token_hex(3)
        sample = sample_of([name for name in self.nodes if name in ctx.values(HERE)])
        storage = self.storage_class or await self._default_class(kubectl)
        image = self.image if self.settings else await self._image(kubectl, sample.nodes[0])
        namespace = f"{_NAMESPACE}-{mark}"
        objects = probe_objects(namespace, sample, image=image, storage_class=storage, taints=self.taints)
        display = "bring pods that probe the cluster"
        try:
            brought = await kubectl.apply(objects, display=display, patience=self.patience, output=("-o", _SERVICE))
            tried = [self._ask(ctx, kubectl, namespace, sample, brought.text.strip())]
            await _all(*tried, *([self._volume(ctx, kubectl, namespace)] if storage else []))
        except BaseException:
            await self._remove(kubectl)
            raise
        await _all(self._remove(kubectl, namespace), self._note(ctx, kubectl))

    async def _ask(self, ctx: StepContext, kubectl: Kubectl, namespace: str, sample: Sample, service: str) -> None:
        """Waits for the pods, then has them ask each other until all is well or patience is at its end."""
        until = time.monotonic() + self.patience
        probe = Probe(
            sample=sample,
            addresses=await self._await_pods(ctx, kubectl, namespace, sample),
            service=service,
            dns=self.dns,
            name=self.name,
            expected=self.expected,
        )
        wait = 0.3
        while True:
            words = ("exec", "-i", "-n", namespace, f"probe-{next(iter(probe.addresses))}", "--", "sh")
            script = questions(probe, seconds=max(0, min(_NAMES, int(until - time.monotonic()))))
            result = await kubectl.read(
                *words, stdin=script.encode(), within=90.0 + _NAMES, long=True, display="ask the probing pods"
            )
            silent = f"the pod on {sample.nodes[0]} could not be asked: {result.error_text.strip()}"
            faults = read_answers(probe, result.text) if result.ok else [silent]
            if not faults:
                return
            if time.monotonic() + wait > until:
                rest = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
                raise StepError("\n  ".join((*faults[:_SHOWN], *rest)), host=ctx.host.name, hint=self._hint(faults))
            await asyncio.sleep(wait)
            wait = min(wait * 2, 3.0)

    async def _await_pods(self, ctx: StepContext, kubectl: Kubectl, namespace: str, sample: Sample) -> dict[int, str]:
        """The addresses of the pods, by their index in the sample, once all are ready."""
        limit = f"--timeout={self.patience:.0f}s"
        result = await kubectl.read(
            *("wait", "--for=condition=Ready", "pod", "-l", "app=probe", "-n", namespace, limit, "-o", _ADDRESS),
            within=self.patience + 30,
            long=True,
            display="wait for the probing pods",
        )
        found = dict(line.split("\t") for line in result.text.splitlines())
        addresses = {index: found.get(f"probe-{index}", "") for index in range(len(sample.nodes))}
        if not result.ok or not all(addresses.values()):
            lines = await pod_troubles(kube_client(ctx), namespace, labels="app=probe")
            raise StepError(
                f"of {len(sample.nodes)} pods, one on each node, not all run after {self.patience:g} s: "
                + ("\n  ".join(lines) or result.error_text.strip()),
                host=ctx.host.name,
                hint="`journalctl -u kubelet` on that node says why it cannot start a pod",
            )
        return addresses

    async def _volume(self, ctx: StepContext, kubectl: Kubectl, namespace: str) -> None:
        result = await kubectl.read(
            *("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{VOLUME_POD}", "-n", namespace),
            f"--timeout={self.patience:.0f}s",
            within=self.patience + 30,
            long=True,
            display="wait for the pod with a volume",
        )
        if result.ok:
            return
        lines = await pod_troubles(kube_client(ctx), namespace, labels="app=volume")
        words = ("get", "events", "-n", namespace, "--field-selector", "involvedObject.kind=PersistentVolumeClaim")
        claim = await kubectl.read(*words, "-o", 'jsonpath={range .items[*]}{.message}{"\\n"}{end}')
        lines += [f"claim: {line}" for line in claim.text.splitlines()[-2:]]
        raise StepError(
            f"no volume was bound and written within {self.patience:g} s:\n  " + "\n  ".join(lines),
            host=ctx.host.name,
            hint="`kubectl get storageclass,pv,pvc -A` and the provisioner's log tell more",
        )

    async def _image(self, kubectl: Kubectl, node: str) -> str:
        """What the cluster was created with: without a bundle at hand, nobody else knows its version."""
        result = await kubectl.read("get", "node", node, "-o", "jsonpath={.status.images[*].names[*]}")
        names = [name for name in result.text.split() if "@" not in name] if result.ok else []
        same = [name for name in names if name.rpartition(":")[0] == self.image.rpartition(":")[0]]
        return self.image if self.image in names or not same else same[0]

    async def _default_class(self, kubectl: Kubectl) -> str:
        result = await kubectl.read("get", "storageclass", "-o", _CLASSES, display="ask for storage classes")
        if not result.ok:
            raise kubectl.error(result)
        rows = (line.split("\t") for line in result.text.splitlines())
        return next((name for name, default in rows if default == "true"), "")

    async def _note(self, ctx: StepContext, kubectl: Kubectl) -> None:
        data = {"settings": self.settings, "nodes": self._names(ctx), "run": ctx.run}
        metadata = {"name": _RECORD, "namespace": "kube-system"}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        if self.settings:
            await kubectl.apply([document], display="note what was proven", patience=self.patience)

    async def _remove(self, kubectl: Kubectl, namespace: str = "") -> None:
        """Removes the namespaces of probes: its own, and any that one before left behind.

        The pods in `namespace` are gone when this returns; what is left of it takes the cluster some seconds more.
        """
        if namespace:
            await kubectl.change(
                *("delete", "pods", "--all", "-n", namespace, "--wait=true", f"--timeout={_GONE}s"),
                patience=self.patience,
                display="remove the probing pods",
                hint=f"`kubectl -n {namespace} get pods -o wide` shows which node does not end its pod",
            )
        await kubectl.change(
            *("delete", "namespace", "-l", LABEL, "--ignore-not-found", "--wait=false"),
            patience=self.patience,
            display="remove the namespace of the probing pods",
            hint=f"remove it by hand: `kubectl delete namespace -l {LABEL}`",
        )

    def _names(self, ctx: StepContext) -> str:
        here = ctx.values(HERE)
        return " ".join(sorted(name for name in self.nodes if name in here))

    def reads(self) -> Resources:
        """Nothing that could be read ahead: whether this run changes something is known when all else is done."""
        return NOTHING

    def _hint(self, faults: list[str]) -> str:
        if any("cannot reach" in fault for fault in faults):
            asked = f"is the port of the network plugin ({', '.join(self.traffic)}) open?"
            asked = asked if self.traffic else "does something between them drop addresses of pods?"
            return f"packets between these nodes are lost: {asked}"
        if any("looked up" in fault for fault in faults):
            return "`kubectl -n kube-system logs -l k8s-app=kube-dns`; do services work on that node (kube-proxy)?"
        logs = "`kubectl -n kube-system logs -l k8s-app=kube-proxy`, `journalctl -u kube-proxy`"
        return f"does kube-proxy run there? {logs}"

    def writes(self) -> Resources:
        """Its own namespace and note."""
        return resources("api:verify")

    def gathers(self) -> tuple[Key[Any], ...]:
        """Which hosts are there."""
        return (HERE,)

    def describe(self) -> str:
        """The state."""
        return "pods, names, services and volumes work"


async def _all(*parts: Coroutine[Any, Any, None]) -> None:
    """Does all of it side by side; the first error stops the rest and is told."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
