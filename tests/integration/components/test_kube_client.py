"""The API client over real sshd, real TLS, HTTP/2 and HTTP/1.1, to servers that store objects in memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.api.client import KubeClient
from kubexm.components.api.documents import Ref
from kubexm.components.api.resources import Kind
from kubexm.components.api.selection import Selection
from kubexm.connector import Command, ConnectionPool, SSHConnector
from kubexm.errors import ApiUnavailable, EvictionBlocked
from kubexm.testing import SshServer
from tests.http_stub import HttpsServer
from tests.unit.components.kube_api import KubeApi

from ..conftest import MakeServer
from .certificates import Authority, kubeconfig

ADMIN_CONF = "/run/admin.conf"
PODS = Kind("", "v1", "Pod")
BOTH = ("h2", "http/1.1")


@dataclass
class Plane:
    """A control plane: an sshd, and an API server that only it has the credentials of."""

    ssh: SshServer
    connector: SSHConnector
    server: HttpsServer
    store: KubeApi = field(default_factory=KubeApi)


def client_of(*planes: Plane) -> KubeClient:
    return KubeClient([plane.connector for plane in planes], kubeconfig=ADMIN_CONF)


class Planes:
    """Makes control planes of one cluster, which share what they store."""

    def __init__(self, make_sshd: MakeServer, pool: ConnectionPool, directory: Path) -> None:
        self._make_sshd = make_sshd
        self._pool = pool
        self._directory = directory
        self.authority = Authority()
        self.store = KubeApi()
        self.made: list[Plane] = []

    async def make(
        self, *, user: str = "root", protocols: tuple[str, ...] = BOTH, trusted: Authority | None = None, **ssh: Any
    ) -> Plane:
        context = self.authority.server_context(self._directory)
        server = HttpsServer(self.store.http.handle, context, protocols=protocols)
        await server.start()
        host = self._make_sshd(**ssh)
        connector = self._pool.connector(f"n{len(self.made) + 1}", host.settings(user))
        conf = kubeconfig(server.port, trusted or self.authority, self.authority.pair("kubernetes-admin"))
        # The host has /etc of this machine, and a /run of its own.
        script = f"umask 077; cat >{ADMIN_CONF}"
        (await connector.execute(Command(script=script, stdin=conf.encode(), changes=True))).check()
        plane = Plane(host, connector, server, self.store)
        self.made.append(plane)
        return plane

    async def stop(self) -> None:
        await self._pool.close()
        for plane in self.made:
            await plane.server.stop()


@pytest.fixture
async def planes(make_sshd: MakeServer, pool: ConnectionPool, tmp_path: Path) -> AsyncIterator[Planes]:
    planes = Planes(make_sshd, pool, tmp_path)
    yield planes
    await planes.stop()


def pod(store: KubeApi, name: str, **labels: str) -> None:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "managedFields": [{}]}
    store.objects["", "Pod", "default", name] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}
    store.http.changed()


def config(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize("protocols", [BOTH, ("http/1.1",)], ids=["http2", "http1"])
@pytest.mark.parametrize("user", ["root", "ops"])
async def test_objects_are_applied_listed_patched_and_evicted(
    planes: Planes, user: str, protocols: tuple[str, ...]
) -> None:
    plane = await planes.make(user=user, protocols=protocols)
    client = client_of(plane)
    names = [f"c{number}" for number in range(40)]
    await client.apply([config(name, x=name * 1000) for name in names])
    refs = [Ref("", "ConfigMap", "kube-system", name, "v1") for name in names]
    assert [one["metadata"]["name"] for one in await client.get_many(refs, metadata_only=True)] == names
    assert [one["data"]["x"] for one in await client.get_many(refs)] == [name * 1000 for name in names]
    assert (await client.patch(refs[0], {"data": {"x": None}}))["data"] == {}
    for number in range(5):
        pod(plane.store, f"p{number}", app="web")
    listed = await client.list(Selection(kind=PODS, labels="app=web"), page=2)
    assert len(listed) == 5
    plane.store.http.blocked["p0"] = "The disruption budget web needs 5 healthy pods and has 5 currently"
    with pytest.raises(EvictionBlocked) as caught:
        await client.evict("default", "p0")
    assert caught.value.causes == ("The disruption budget web needs 5 healthy pods and has 5 currently",)
    assert await client.evict("default", "p1", uid="uid-p1")
    used = {call.protocol for call in plane.store.http.calls if call.method == "GET"}
    assert used == {"HTTP/2" if "h2" in protocols else "HTTP/1.1"}


async def test_many_reads_share_a_connection_and_take_few_round_trips(planes: Planes) -> None:
    plane = await planes.make()
    client = client_of(plane)
    refs = [Ref("", "ConfigMap", "kube-system", f"c{number}", "v1") for number in range(30)]
    await client.get_many(refs)
    before = plane.connector.round_trips
    await client.get_many(refs)
    assert plane.server.connections == 1
    assert plane.connector.round_trips - before <= 5, "30 questions at the same time are not 30 round trips"


async def test_a_watch_streams_what_happens_and_survives_a_server_that_goes_away(planes: Planes) -> None:
    first, second = await planes.make(), await planes.make()
    client = client_of(first, second)
    pod(planes.store, "p0")
    seen: list[list[str]] = []
    async with aclosing(client.follow(Selection(kind=PODS), within=60.0)) as following:
        async for objects in following:
            seen.append(sorted(name for _, name in objects))
            match seen[-1]:
                case ["p0"] if len(seen) < 3:
                    pod(planes.store, "p1")
                case ["p0", "p1"]:
                    await first.server.stop()
                    pod(planes.store, "p2")
                case ["p0", "p1", "p2"]:
                    break
    assert seen[-1] == ["p0", "p1", "p2"]


async def test_a_dead_server_costs_a_refused_connection_and_the_next_control_plane_answers(planes: Planes) -> None:
    first, second = await planes.make(), await planes.make()
    await first.server.stop()
    client = client_of(first, second)
    await client.apply([config("a", x="1")])
    assert second.server.connections
    await second.server.stop()
    with pytest.raises(ApiUnavailable, match="no control plane's API server answers") as caught:
        await client.list(Selection(kind=PODS), patience=0.5)
    assert "n1: " in caught.value.message
    assert "n2: " in caught.value.message


async def test_a_host_that_dies_is_passed_over(planes: Planes) -> None:
    first, second = await planes.make(), await planes.make()
    client = client_of(first, second)
    await client.list(Selection(kind=PODS))
    await first.connector.close()  # as a host that was given up
    first.ssh.stop()
    pod(planes.store, "p1")
    assert len(await client.list(Selection(kind=PODS), patience=60.0)) == 1


async def test_connections_the_server_ended_meanwhile_are_replaced_without_an_error(planes: Planes) -> None:
    plane = await planes.make()
    client = client_of(plane)
    await client.apply([config("a", x="1")])
    await client.list(Selection(kind=PODS), patience=0.0)
    await plane.server.stop()
    await plane.server.start()
    assert await client.list(Selection(kind=PODS), patience=0.0) == []
    await client.apply([config("a", x="2")], patience=0.0)


async def test_a_server_of_another_cluster_is_not_trusted(planes: Planes) -> None:
    plane = await planes.make(trusted=Authority("another"))
    with pytest.raises(ApiUnavailable, match="certificate verify failed"):
        await client_of(plane).list(Selection(kind=PODS), patience=0.0)
    assert not plane.store.http.calls


async def test_requests_that_take_too_long_are_given_up_and_others_go_on(planes: Planes) -> None:
    plane = await planes.make()
    client = client_of(plane)
    handle = plane.store.http.handle

    async def slow(call: Any) -> Any:
        if call.path == "/readyz":
            await asyncio.sleep(60)
        return await handle(call)

    plane.server._handle = slow
    with pytest.raises(ApiUnavailable, match="does not answer"):
        await client.text("/readyz", patience=0.0, within=0.3)
    assert await client.list(Selection(kind=PODS), patience=0.0) == []


async def test_the_key_stays_off_disk_and_out_of_arguments(planes: Planes, tmp_path: Path) -> None:
    plane = await planes.make()
    before = set(Path("/tmp").iterdir())
    await client_of(plane).list(Selection(kind=PODS))
    assert set(Path("/tmp").iterdir()) <= before
    gc.collect()
    assert not any("memfd:kubexm" in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())
    assert all("PRIVATE KEY" not in line and "client-key" not in line for line in plane.ssh.processes())
