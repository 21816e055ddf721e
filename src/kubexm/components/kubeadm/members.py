"""Members of an etcd in static pods: whom an empty one forms the cluster with, or how it joins one that is there.

As with members under systemd the survivors decide, and data of any other cluster is refused, and left alone. etcdctl
is in etcd's image only, so it is run from there. A member that lost its data does not come up by itself: its pod asks
for the directory that only kubexm makes for an empty member.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kubexm.cache import Key
from kubexm.components.etcd.client import EtcdClient, Membership
from kubexm.components.etcd.data import cluster_id
from kubexm.components.etcd.forming import foreign_data, look_at_data
from kubexm.components.etcd.joining import MemberAdmitted, recognise
from kubexm.components.kubeadm.health import MOST_RESTARTS, pod_failure, pod_restarts
from kubexm.components.kubeadm.layout import ETCD, manifest
from kubexm.components.kubeadm.manifests import stop_api
from kubexm.components.kubelet import INPUTS
from kubexm.components.kubelet.layout import UNIT
from kubexm.components.runtimes import DEFAULT_RUNTIME, runtime_named
from kubexm.connector.base import shell
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, DirectoryPresent, Resources, Step, Values, resources

__all__ = ["MEMBERS", "PodMemberAdmitted", "PodMemberBegins", "PodMemberVotes", "PodMembersKnown"]

MEMBERS: Final[Key[str]] = Key("kubeadm.etcd-members", per_host=True)
"""How a member without data begins: `new` or `existing`, and who the members are; nothing for one with data."""

_NO_ETCD: Final = 5
"""Seconds for an API server to end whose etcd has no data: nothing it has accepted can be answered."""
_PKI: Final = "/etc/kubernetes/pki/etcd"
_CLIENT: Final = "/etc/kubernetes/pki/apiserver-kubelet-client"
_FOUNDED_AS: Final = "etcd-cluster"
"""The token of every cluster that kubeadm makes."""
_IS_LEARNER: Final = """if said=$(ask /readyz/non_learner 2>&1); then echo 0; exit; fi
case $said in
  *'(ServiceUnavailable)'*) echo 1 ;;
  *'(NotFound)'*) ask /metrics | sed -n 's/^etcd_server_is_learner //p' ;;
  *) exit 1 ;;
esac"""
"""The metric is 0 for a learner that has not heard of its own admission yet: it is for an etcd too old to say more."""


@dataclass(frozen=True, slots=True)
class PodEtcdClient(EtcdClient):
    """etcdctl out of etcd's image."""

    image: str = ""
    runtime: str = DEFAULT_RUNTIME

    def command(self, *words: str, seconds: int = 5) -> str:
        """The command line: a container that is gone when it ends."""
        options = (
            f"--endpoints={','.join(self.endpoints)}",
            f"--cacert={_PKI}/ca.crt",
            f"--cert={_PKI}/healthcheck-client.crt",
            f"--key={_PKI}/healthcheck-client.key",
            f"--command-timeout={seconds}s",
            "--dial-timeout=2s",
        )
        run = runtime_named(self.runtime).run_once(self.image, "kubexm-etcdctl-$$", str(_PKI))
        return f"{run} {shell('etcdctl', *options, *words)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMembersKnown(Step):
    """A member without data knows whom it forms the cluster with; one with data of this very cluster need not."""

    data_dir: str
    peer_urls: tuple[tuple[str, str], ...]
    """Name and peer URL of every member."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the head of the log that is there."""
        state = await look_at_data(ctx, self.data_dir)
        if state.is_empty:
            return Check(True, values={MEMBERS: f"new {_listed(self.peer_urls)}"})
        urls = (url for _, url in self.peer_urls)
        if state.ids is None or state.ids.cluster != cluster_id(urls, _FOUNDED_AS):
            raise foreign_data(ctx, self.data_dir, state)
        return Check(True, values={MEMBERS: ""})

    def reads(self) -> Resources:
        """The data."""
        return resources(f"file:{self.data_dir}/*")

    def writes(self) -> Resources:
        """Nothing."""
        return NOTHING

    def produces(self) -> tuple[Key[Any], ...]:
        """Who the members are."""
        return (MEMBERS,)

    def describe(self) -> str:
        """Who forms it."""
        return f"etcd to be formed by {', '.join(name for name, _ in self.peer_urls)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemberAdmitted(MemberAdmitted):
    """This host's member belongs to the cluster: it has the cluster's data, or is expected as a learner."""

    image: str
    runtime: str = DEFAULT_RUNTIME

    async def precheck(self, ctx: StepContext) -> Check:
        """A member that has data belongs; without any, the survivors are asked."""
        state = await look_at_data(ctx, self.data_dir)
        if state.stranger:
            raise foreign_data(ctx, self.data_dir, state)
        if state.ids is not None:
            return Check(True, values={MEMBERS: ""})
        found = await self._client(ctx).members()
        if found is None:
            return Check(False, reason="it has no data, and the others do not answer")
        own = found.with_peer_url(self._url(ctx))
        if own is None or own.name:
            return Check(False, reason="it is not a member yet" if own is None else "its data is gone")
        return Check(True, values={MEMBERS: f"existing {self._told(ctx, found)}"})

    async def run(self, ctx: StepContext) -> Values | None:  # type: ignore[override]
        """Has the survivors expect it."""
        found = await self._survivors(ctx)
        own = self._old_self(ctx, found)
        if own is not None and own.name:
            found = await self._remove(ctx, found, own)
        url = self._url(ctx)
        if found.with_peer_url(url) is None:
            added = ("member", "add", ctx.host.name, "--learner", f"--peer-urls={url}")
            await self._change(ctx, *added, until=lambda members: members.with_peer_url(url) is not None)
        return None

    def reads(self) -> Resources:
        """The data, and who the members are."""
        return resources(f"file:{self.data_dir}/*", "etcd:members")

    def writes(self) -> Resources:
        """Who the members are."""
        return resources("etcd:members")

    def produces(self) -> tuple[Key[Any], ...]:
        """Who the members are."""
        return (MEMBERS,)

    def _client(self, ctx: StepContext) -> EtcdClient:
        urls = tuple(url for name, url in self.others if name != ctx.host.name)
        return PodEtcdClient(ctx.host, urls or tuple(url for _, url in self.others), self.image, self.runtime)

    def _told(self, ctx: StepContext, found: Membership) -> str:
        """Every member under its own URL, this one under its name."""
        own = self._url(ctx)
        named = [
            (ctx.host.name if url == own else one.name or one.hex_id, url)
            for one in found.members
            for url in one.peer_urls
        ]
        return _listed(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemberBegins(DirectoryPresent):
    """The directory is there without which a member's pod is not started.

    A kubelet that runs may still hold the pod of an older manifest, and would start that one: it would begin as the
    member that was removed, and leave data nobody can use. So the kubelet forgets it first.
    """

    mode: int = 0o700

    async def run(self, ctx: StepContext) -> None:
        """Makes it, once the kubelet knows no other manifest than the one that is there, and waits for nobody."""
        if (await ctx.host.services.status(UNIT)).is_active:
            await ctx.host.command.run(stop_api(_NO_ETCD), display="stop the API server, which waits for its etcd")
            await ctx.host.services.restart(UNIT, INPUTS)
        await DirectoryPresent.run(self, ctx)

    def writes(self) -> Resources:
        """The directory, and the kubelet."""
        return DirectoryPresent.writes(self) | resources(f"unit:{UNIT}.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemberVotes(Step):
    """This host's member is up and votes."""

    data_dir: str
    port: int
    """For metrics, on the host itself."""
    peer_urls: tuple[tuple[str, str], ...]
    """Name and peer URL of every member the file names."""
    others: tuple[str, ...]
    """Client URLs of members that can let it vote."""
    image: str
    runtime: str = DEFAULT_RUNTIME
    within: float = 240.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks the member itself."""
        words = ("--server", f"http://127.0.0.1:{self.port}", "--client-certificate", f"{_CLIENT}.crt")
        ask = shell("kubectl", "--kubeconfig", "/dev/null", *words, "--client-key", f"{_CLIENT}.key", "get", "--raw")
        result = await ctx.host.command.read(f'ask() {{ {ask} "$1"; }}\n{_IS_LEARNER}', check=False, display="ask etcd")
        if not result.ok:
            return Check(False, reason="it does not answer yet")
        return Check(True) if result.text.strip() == "0" else Check(False, reason="it does not vote yet")

    async def run(self, ctx: StepContext) -> None:
        """Asks the others to let it vote, again until it has caught up."""
        client = PodEtcdClient(ctx.host, self.others, self.image, self.runtime)
        until, restarts = time.monotonic() + self.within, await pod_restarts(ctx, ETCD)
        while not (await self.precheck(ctx)).satisfied:
            found = await client.members()
            if found is not None:
                await self._refuse_useless_data(ctx, found)
                own = found.with_peer_url(dict(self.peer_urls)[ctx.host.name])
                if own is not None and own.learner and own.name:
                    await client.change("member", "promote", own.hex_id, display=f"let {ctx.host.name} vote in etcd")
            failing = await pod_restarts(ctx, ETCD) - restarts >= MOST_RESTARTS
            if failing or time.monotonic() > until:
                raise await pod_failure(ctx, ETCD, "it does not vote")
            await asyncio.sleep(1.0)

    async def _refuse_useless_data(self, ctx: StepContext, found: Membership) -> None:
        """StepError if its data is of a member that is none any more: that one never comes to vote."""
        state = await look_at_data(ctx, self.data_dir)
        if state.ids is not None:
            recognise(ctx, self.data_dir, state.ids, found)

    def reads(self) -> Resources:
        """Its manifest, and who the members are."""
        return resources(f"file:{manifest(ETCD)}", "unit:kubelet.service", "etcd:members")

    def writes(self) -> Resources:
        """Who votes."""
        return resources("etcd:members")

    def describe(self) -> str:
        """The state."""
        return "etcd member votes"


def _listed(peers: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{name}={url}" for name, url in peers)
