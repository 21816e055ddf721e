"""The API client on a real cluster of two nodes: over a forwarded connection, and where sshd forbids forwarding."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from kubexm.components.api import Kind, KubeClient, Ref, Selection, is_ready
from kubexm.connector import ConnectionPool, ConnectionSettings, SSHConnector
from kubexm.errors import ApiConflict, ApiInvalid, ApiNotFound, EvictionBlocked
from kubexm.lab import Lab
from tests.cluster.commands import assert_nothing_to_do, create, kubectl
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [LONG, PATIENT, BUNDLE]
POD, CONFIG = Kind("", "v1", "Pod"), Kind("", "v1", "ConfigMap")
SPACE = "client-test"
STRICT = """printf 'AllowTcpForwarding no\\n' >/etc/ssh/sshd_config.d/00-test.conf
systemctl reload ssh"""


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """A control plane and a worker, created."""
    made = make_lab(topology="1+1")
    create(made)
    return made


def settings(lab: Lab) -> ConnectionSettings:
    host = lab.hosts[0]
    return ConnectionSettings(
        address=str(host.address),
        user="root",
        private_key_path=lab.access.private_key,
        known_hosts=lab.access.known_hosts,
    )


@pytest.fixture
async def host(lab: Lab) -> AsyncIterator[SSHConnector]:
    pool = ConnectionPool()
    yield pool.connector(lab.hosts[0].name, settings(lab))
    await pool.close()


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SPACE}, "data": data}


def web(image: str) -> list[dict[str, Any]]:
    """Two pods that must both be there, whatever happens."""
    container = {"name": "web", "image": image, "args": ["netexec"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    labels = {"app": "web"}
    budget = {"minAvailable": 2, "selector": {"matchLabels": labels}}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": SPACE},
            "spec": budget,
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": SPACE},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        },
    ]


async def use(client: KubeClient, image: str) -> None:
    """Everything the client can do, in a namespace of its own."""
    await client.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}], patience=60.0)
    names = [f"c{number}" for number in range(12)]
    applied = await client.apply([config(name, x="1") for name in names])
    assert [one["metadata"]["name"] for one in applied] == names
    refs = [Ref("", "ConfigMap", SPACE, name, "v1") for name in names]
    found = await client.get_many(refs, metadata_only=True)
    assert {one["metadata"]["managedFields"][0]["manager"] for one in found} == {"kubexm"}
    listed = await client.list(
        Selection(kind=CONFIG, namespace=SPACE, fields="metadata.name!=kube-root-ca.crt"), page=5
    )
    assert sorted(one["metadata"]["name"] for one in listed) == sorted(names)
    assert (await client.patch(refs[0], {"data": {"x": None, "y": "2"}}))["data"] == {"y": "2"}
    await client.patch(refs[0], {"data": {"y": "3"}}, dry_run=True)
    assert (await client.get(refs[0]))["data"] == {"y": "2"}
    with pytest.raises(ApiConflict):
        await client.patch(refs[0], {"metadata": {"resourceVersion": "1"}, "data": {"y": "4"}})
    with pytest.raises(ApiConflict, match=r"\.data\.x"):
        await client.apply([config(names[1], x="9")], force=False, manager="somebody")
    with pytest.raises(ApiInvalid):
        await client.apply([{**config("bad"), "datta": {}}], strict=True)
    with pytest.raises(ApiNotFound):
        await client.get(Ref("", "Pod", SPACE, "none", "v1"))
    await _watched(client)
    await _evicted(client, image)
    assert await client.delete(refs[0])
    assert not await client.delete(refs[0])
    assert (await client.probe("/readyz"))[0]


async def _watched(client: KubeClient) -> None:
    selection, sizes = Selection(kind=CONFIG, namespace=SPACE, labels="watched=yes"), []

    async def change() -> None:
        document = config("watched")
        document["metadata"]["labels"] = {"watched": "yes"}
        await client.apply([document])
        await asyncio.sleep(0.5)
        await client.delete(Ref("", "ConfigMap", SPACE, "watched", "v1"))

    async with aclosing(client.follow(selection, within=60.0)) as following:
        async for objects in following:
            sizes.append(len(objects))
            if len(sizes) == 1:
                changing = asyncio.ensure_future(change())
            elif sizes[-1] == 0:
                break
    await changing
    assert sizes[0] == 0
    assert max(sizes) == 1


async def _evicted(client: KubeClient, image: str) -> None:
    await client.apply(web(image), patience=60.0)
    pods = Selection(kind=POD, namespace=SPACE, labels="app=web")
    assert await client.until(pods, lambda found: len(found) == 2 and all(map(is_ready, found.values())), within=180.0)
    budget = Ref("policy", "PodDisruptionBudget", SPACE, "web", "v1")
    seen = Selection(kind=Kind.of(budget), namespace=SPACE)
    assert await client.until(seen, lambda found: found[SPACE, "web"]["status"]["currentHealthy"] == 2, within=60.0)
    pod = (await client.list(pods))[0]["metadata"]
    for dry_run in (True, False):
        with pytest.raises(EvictionBlocked) as caught:
            await client.evict(SPACE, pod["name"], uid=pod["uid"], dry_run=dry_run)
        assert "disruption budget" in caught.value.causes[0]
    assert await client.find(Ref("", "Pod", SPACE, pod["name"], "v1")) is not None
    await client.patch(budget, {"spec": {"minAvailable": 1}})
    assert await client.until(seen, lambda found: found[SPACE, "web"]["status"]["disruptionsAllowed"] > 0, within=60.0)
    assert await client.evict(SPACE, pod["name"], uid=pod["uid"])
    assert await client.until(pods, lambda found: (SPACE, pod["name"]) not in found, within=120.0)
    assert await client.until(pods, lambda found: len(found) == 2 and all(map(is_ready, found.values())), within=180.0)
    one = (await client.list(pods))[0]["metadata"]["name"]
    assert "Started HTTP server" in await client.logs(SPACE, one, container="web")


def image_of(lab: Lab) -> str:
    names = kubectl(lab, "get", "nodes", "-o", "jsonpath={.items[*].status.images[*].names[*]}").split()
    return next(name for name in names if "agnhost" in name and "@" not in name)


async def test_the_client_does_everything_over_a_forwarded_connection(lab: Lab, host: SSHConnector) -> None:
    client = KubeClient([host])
    try:
        await use(client, image_of(lab))
        assert host.streams.forwards
    finally:
        await client.delete(Ref("", "Namespace", "", SPACE, "v1"))
        gone = Selection(kind=Kind("", "v1", "Namespace"), fields=f"metadata.name={SPACE}")
        assert await client.until(gone, lambda found: not found, within=180.0)


async def test_where_sshd_forbids_forwarding_the_same_is_done_through_kubectl(lab: Lab, host: SSHConnector) -> None:
    image = image_of(lab)
    lab.run(lab.hosts[0].name, STRICT, user="root")
    client = KubeClient([host])
    try:
        await use(client, image)
        assert not host.streams.forwards
        assert_nothing_to_do(lab)
    finally:
        await client.delete(Ref("", "Namespace", "", SPACE, "v1"))
        lab.run(lab.hosts[0].name, "rm /etc/ssh/sshd_config.d/00-test.conf; systemctl reload ssh", user="root")
