"""Pulling and pushing: authentication, mirrors, platforms, shared blobs, and connections that do not hold."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import httpx
import pytest

from kubexm.assets import Bundle, ImageReference, pack
from kubexm.assets.oci import BlobStore
from kubexm.assets.registry import (
    Credentials,
    Endpoint,
    Puller,
    Pusher,
    RegistryAccess,
    RegistrySession,
    credentials_from_file,
    parse_mirrors,
    parse_target,
)
from kubexm.assets.registry.auth import Challenge
from kubexm.assets.transfer import Damaged, Refused, Retry, Unreachable
from kubexm.errors import AssetError
from kubexm.redact import Secret
from tests.unit.assets.registry_double import PASSWORD, USER, Registry
from tests.unit.assets.samples import sample_bundle
from tests.unit.assets.web import Web, serving

WHO = Credentials(username=USER, password=Secret(PASSWORD))
LAYER = b"layer " * 20_000


@pytest.fixture
def registry(web: Web) -> Registry:
    return Registry(web)


def access(registry: Registry, credentials: Credentials | None = None, **more: object) -> RegistryAccess:
    known = {registry.host: credentials} if credentials else {}
    return RegistryAccess(plain_http=frozenset({registry.host}), credentials=known, **more)  # type: ignore[arg-type]


def reference(registry: Registry, name: str = "app:1") -> ImageReference:
    return ImageReference.parse(f"{registry.host}/{name}")


@pytest.mark.parametrize("auth", ["none", "bearer", "basic"])
async def test_pull(registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path, auth: str) -> None:
    registry.auth = auth
    digest = registry.add_image("app", "1", [LAYER, b"two"], index=True)
    store = BlobStore(tmp_path)
    puller = Puller(client, access(registry, WHO if auth != "none" else None), retry=retry)
    image = await puller.pull(reference(registry), "amd64", store)
    assert image.manifest.digest == digest
    assert image.blobs[0].digest == digest
    assert all(store.intact(blob) for blob in image.blobs)
    assert {path.name for path in tmp_path.iterdir()} == {blob.digest[7:] for blob in image.blobs}
    before = len(registry.methods("GET .*/blobs/"))
    await puller.pull(reference(registry), "amd64", store)
    assert len(registry.methods("GET .*/blobs/")) == before, "blobs that are there are not fetched again"


async def test_pull_by_digest_is_checked(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    digest = registry.add_image("app", "1", [b"x"])
    puller = Puller(client, access(registry), retry=retry)
    await puller.pull(reference(registry, f"app@{digest}"), "amd64", BlobStore(tmp_path))
    kind, data = registry.manifests["app"][digest]
    registry.manifests["app"][digest] = (kind, data + b" ")
    with pytest.raises(Damaged, match=f"expected {digest}, got sha256:"):
        await puller.pull(reference(registry, f"app@{digest}"), "amd64", BlobStore(tmp_path))


async def test_a_damaged_blob_is_named(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    registry.add_image("app", "1", [LAYER])
    bad = next(digest for digest, data in registry.blobs["app"].items() if data == LAYER)
    registry.web.put(f"/v2/app/blobs/{bad}", LAYER[:-1] + b"?")
    with pytest.raises(Damaged, match=f"blobs/{bad} is not what it should be"):
        await Puller(client, access(registry), retry=retry).pull(reference(registry), "amd64", BlobStore(tmp_path))


async def test_a_blob_cut_on_its_way_is_resumed(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    registry.add_image("app", "1", [LAYER])
    digest = next(digest for digest, data in registry.blobs["app"].items() if data == LAYER)
    registry.web.put(f"/v2/app/blobs/{digest}", LAYER, cut_after=[50_000])
    await Puller(client, access(registry), retry=retry).pull(reference(registry), "amd64", BlobStore(tmp_path))
    assert registry.web.ranges(f"/v2/app/blobs/{digest}")[1] == f"bytes=50000-{len(LAYER) - 1}"


async def test_the_wrong_platform_says_what_there_is(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    registry.add_image("app", "1", [b"x"], index=True)
    with pytest.raises(AssetError, match="is not there for linux/arm64") as caught:
        await Puller(client, access(registry), retry=retry).pull(reference(registry), "arm64", BlobStore(tmp_path))
    assert "linux/s390x" in caught.value.hint


async def test_mirrors_are_asked_first_and_in_order(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    registry.add_image("cache/library/busybox", "1", [b"x"])
    async with serving() as empty:
        Registry(empty)
        mirrors = parse_mirrors([f"docker.io={empty.url}", f"docker.io=http://{registry.host}/cache"])
        puller = Puller(client, access(registry, mirrors=mirrors), retry=retry)
        await puller.pull(ImageReference.parse("busybox:1"), "amd64", BlobStore(tmp_path))
        assert [asked.path for asked in empty.asked] == ["/v2/library/busybox/manifests/1"]
    assert registry.methods("GET /v2/cache/library/busybox/manifests/1")


async def test_nowhere_lists_every_place(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    mirrors = parse_mirrors(["http://127.0.0.1:1"])
    puller = Puller(client, access(registry, mirrors=mirrors), retry=retry)
    with pytest.raises(AssetError, match="could not be pulled") as caught:
        await puller.pull(reference(registry), "amd64", BlobStore(tmp_path))
    assert "http://127.0.0.1:1/v2/app/manifests/1 could not be read: no connection" in caught.value.message
    assert f"http://{registry.host}/v2/app/manifests/1 is not there" in caught.value.message


@pytest.mark.parametrize("auth", ["bearer", "basic"])
@pytest.mark.parametrize("who", [None, Credentials(username=USER, password=Secret("wrong-one"))])
async def test_the_wrong_password_is_said_and_never_shown(
    registry: Registry,
    client: httpx.AsyncClient,
    retry: Retry,
    tmp_path: Path,
    auth: str,
    who: Credentials | None,
) -> None:
    registry.auth = auth
    registry.add_image("app", "1", [b"x"])
    with pytest.raises(AssetError) as caught:
        await Puller(client, access(registry, who), retry=retry).pull(reference(registry), "amd64", BlobStore(tmp_path))
    assert ("refuses the user 'pusher'" if who else "wants a user and a password") in caught.value.message
    assert "wrong-one" not in caught.value.message + repr(who)


async def test_expired_tokens_are_renewed(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    registry.auth = "bearer"
    registry.add_image("app", "1", [b"x"])
    registry.add_image("app", "2", [b"y"])
    puller = Puller(client, access(registry, WHO), retry=retry)
    await puller.pull(reference(registry), "amd64", BlobStore(tmp_path))
    registry.tokens.clear()
    await puller.pull(reference(registry, "app:2"), "amd64", BlobStore(tmp_path))


async def test_two_pulls_at_once_into_one_store(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, tmp_path: Path
) -> None:
    registry.add_image("app", "1", [LAYER])
    registry.add_image("other", "1", [LAYER])
    puller, store = Puller(client, access(registry), retry=retry), BlobStore(tmp_path)
    await asyncio.gather(
        puller.pull(reference(registry), "amd64", store), puller.pull(reference(registry, "other:1"), "amd64", store)
    )
    digest = next(digest for digest, data in registry.blobs["app"].items() if data == LAYER)
    assert len(registry.methods(f"GET .*/blobs/{digest}")) == 1


def pusher(registry: Registry, client: httpx.AsyncClient, retry: Retry, bundle: Bundle, **more: object) -> Pusher:
    endpoint = Endpoint(url=registry.web.url, prefix="team", credentials=WHO)
    session = RegistrySession(client, endpoint, retry=retry)
    return Pusher(session, bundle, **more)  # type: ignore[arg-type]


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    sample_bundle(tmp_path / "b")
    return Bundle.open(tmp_path / "b")


@pytest.mark.parametrize("auth", ["none", "bearer", "basic"])
async def test_push_then_pull_gives_the_same_image(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, bundle: Bundle, tmp_path: Path, auth: str
) -> None:
    registry.auth = auth
    summary = await pusher(registry, client, retry, bundle).push(bundle.manifest.images)
    assert (summary.images, summary.present) == (2, 0)
    assert summary.mounted == 1, "the shared layer is sent once and mounted once"
    assert summary.sent == len(bundle.manifest.blobs) - 2
    access_to = RegistryAccess(plain_http=frozenset({registry.host}), credentials={registry.host: WHO})
    for image in bundle.manifest.images:
        pulled = await Puller(client, access_to, retry=retry).pull(
            ImageReference.parse(f"{registry.host}/team/{image.name}:v1.34.4"), "amd64", BlobStore(tmp_path / "pulled")
        )
        assert pulled.manifest.digest == image.digest
    again = await pusher(registry, client, retry, bundle).push(bundle.manifest.images)
    assert (again.images, again.present, again.sent, again.mounted) == (2, 2, 0, 0)


async def test_push_from_a_packed_bundle(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, bundle: Bundle, tmp_path: Path
) -> None:
    pack(tmp_path / "b", tmp_path / "b.tar.zst")
    with Bundle.open(tmp_path / "b.tar.zst") as packed:
        await pusher(registry, client, retry, packed, keep_registry=True).push(packed.manifest.images)
    assert set(registry.manifests) == {"team/registry.k8s.io/pause", "team/registry.k8s.io/kube-apiserver"}


async def test_a_registry_without_mounts(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, bundle: Bundle
) -> None:
    registry.mounts = False
    summary = await pusher(registry, client, retry, bundle).push(bundle.manifest.images)
    assert summary.mounted == 0
    assert summary.sent == len(bundle.manifest.blobs) - 1


FAULTS = [
    [("PATCH .*", 503)],
    [("PATCH .*", -2)],
    [("PATCH .*", -2), ("PATCH .*", -2), ("GET .*uploads", 500)],
    [("PATCH .*", -1)],
    [("PUT .*uploads", 502)],
    [("PUT .*uploads", -1)],
    [("POST .*", 429)],
    [("HEAD .*", 503)],
    [("PUT .*manifests", 500), ("PUT .*manifests", 503)],
]


@pytest.mark.parametrize("faults", FAULTS)
async def test_push_survives_what_goes_wrong_on_the_way(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, bundle: Bundle, faults: list[tuple[str, int]]
) -> None:
    registry.fail = list(faults)
    await pusher(registry, client, retry, bundle, chunk=1000).push(bundle.manifest.images)
    assert not registry.fail, "each fault happened"
    for image in bundle.manifest.images:
        _, data = registry.manifests[f"team/{image.name}"]["v1.34.4"]
        assert json.loads(data)["config"]["digest"] == image.blobs[1]


async def test_push_gives_up_with_a_reason(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, bundle: Bundle
) -> None:
    registry.fail = [("PUT .*manifests", 503)] * 12
    with pytest.raises(Unreachable, match=r"the manifest of team/.* could not be pushed: HTTP 503 \(6 attempts\)"):
        await pusher(registry, client, retry, bundle).push(bundle.manifest.images)
    registry.fail = [("POST .*", 403)] * 12
    registry.blobs.clear()
    with pytest.raises(AssetError, match=r"refuses POST .*: UNKNOWN on purpose"):
        await pusher(registry, client, retry, bundle).push(bundle.manifest.images)


async def test_what_is_no_registry_says_so(web: Web, client: httpx.AsyncClient, retry: Retry, bundle: Bundle) -> None:
    for url, telling in ((web.url, "does not look like a registry"), ("http://127.0.0.1:1", "could not be reached")):
        session = RegistrySession(client, Endpoint(url=url), retry=retry)
        with pytest.raises(AssetError, match=telling):
            await Pusher(session, bundle).push(bundle.manifest.images)


async def test_push_of_a_damaged_bundle(
    registry: Registry, client: httpx.AsyncClient, retry: Retry, bundle: Bundle, tmp_path: Path
) -> None:
    for blob in bundle.manifest.blobs:
        path = tmp_path / "b/images/blobs/sha256" / blob.digest[7:]
        if blob.size > 1000:
            path.write_bytes(b"?" + path.read_bytes()[1:])
    with pytest.raises(AssetError, match="is damaged"):
        await pusher(registry, client, retry, bundle).push(bundle.manifest.images)
    assert not any("v1.34.4" in held for held in registry.manifests.values())


def test_challenges() -> None:
    found = Challenge.parse('Bearer realm="https://a/t?x=1,2",service=reg,scope="repository:a/b:pull,push"')
    assert found.scheme == "bearer"
    assert found.parameters == {"realm": "https://a/t?x=1,2", "service": "reg", "scope": "repository:a/b:pull,push"}


async def test_a_password_is_never_sent_in_the_clear_by_surprise() -> None:
    header = {"WWW-Authenticate": 'Bearer realm="http://evil/token"'}
    transport = httpx.MockTransport(lambda _: httpx.Response(401, headers=header))
    async with httpx.AsyncClient(transport=transport) as client:
        session = RegistrySession(client, Endpoint(url="https://good", credentials=WHO))
        with pytest.raises(Refused, match="without encryption"):
            await session.manifest("a", "b")


def test_auth_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    pair = base64.b64encode(b"me:pass:word").decode()
    path.write_text(
        json.dumps(
            {
                "auths": {
                    "https://index.docker.io/v1/": {"auth": pair},
                    "reg.example.com:5000": {"username": "u", "password": "p"},
                    "empty.example.com": {},
                }
            }
        )
    )
    found = credentials_from_file(path)
    assert set(found) == {"docker.io", "reg.example.com:5000"}
    assert found["docker.io"].password.reveal() == "pass:word"
    path.write_text('{"auths": {"a": {}}, "credsStore": "desktop"}')
    with pytest.raises(AssetError, match="credential helper"):
        credentials_from_file(path)
    path.write_text("nope")
    with pytest.raises(AssetError, match="is not JSON"):
        credentials_from_file(path)
    with pytest.raises(AssetError, match="cannot be read"):
        credentials_from_file(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("rancher/x:v1", "docker.io/rancher/x:v1"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost/x", "localhost/x:latest"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b:1"),
        (f"a.b/c@sha256:{'0' * 64}", f"a.b/c@sha256:{'0' * 64}"),
        (f"a.b/c:1@sha256:{'0' * 64}", f"a.b/c:1@sha256:{'0' * 64}"),
    ],
)
def test_references(text: str, full: str) -> None:
    assert str(ImageReference.parse(text)) == full


@pytest.mark.parametrize("text", ["", "A", "a/../b", "a b", "a:b:c", "a@sha256:12", "x/y:-", "../x", "a//b"])
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(AssetError):
        ImageReference.parse(text)


def test_targets_and_mirrors() -> None:
    assert parse_target("reg.example.com:5000/team/k8s") == ("reg.example.com:5000", "team/k8s")
    assert parse_target("reg.example.com") == ("reg.example.com", "")
    for bad in ("http://x", "", "x/UPPER", "x/a//b"):
        with pytest.raises(AssetError):
            parse_target(bad)
    assert parse_mirrors(["a=https://x/p", "https://y", "a=http://z"]) == {
        "a": ("https://x/p", "http://z"),
        "*": ("https://y",),
    }
    for bad in ("a=x", "ftp://x", "a=https://"):
        with pytest.raises(AssetError, match="does not name a registry mirror"):
            parse_mirrors([bad])
