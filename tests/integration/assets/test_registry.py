"""Pushing to and pulling from a real registry, also over TLS with a password and through a network that cuts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubexm.assets import Bundle, ImageReference, pack
from kubexm.assets.oci import BlobStore
from kubexm.assets.registry import Credentials, Endpoint, Puller, Pusher, RegistryAccess, RegistrySession
from kubexm.assets.transfer import Refused, Retry, open_client
from kubexm.redact import Secret
from tests.integration.assets.servers import PASSWORD, USER, RealRegistry, cutting_proxy, real_registry

QUICK = Retry(base=0.01, cap=0.05, attempts=10)
WHO = Credentials(username=USER, password=Secret(PASSWORD))


@pytest.fixture(scope="module")
def secure(registry_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with real_registry(registry_binary, tmp_path_factory.mktemp("secure"), secure=True) as running:
        yield running


@pytest.fixture
def plain(registry_binary: Path, tmp_path: Path) -> Iterator[RealRegistry]:
    with real_registry(registry_binary, tmp_path / "registry", secure=False) as running:
        yield running


async def test_push_and_pull_over_tls_with_a_password(secure: RealRegistry, big_bundle: Path, tmp_path: Path) -> None:
    endpoint = Endpoint(url=f"https://{secure.host}", prefix="team/k8s", credentials=WHO)
    async with open_client(ca_file=secure.ca_file, trust_env=False) as client:
        with Bundle.open(big_bundle) as bundle:
            session = RegistrySession(client, endpoint)
            first = await Pusher(session, bundle, chunk=1_000_000).push(bundle.manifest.images)
            again = await Pusher(session, bundle).push(bundle.manifest.images)
        assert (first.images, first.present, first.mounted) == (3, 0, 2)
        assert (again.present, again.sent, again.bytes_sent) == (3, 0, 0)
        access = RegistryAccess(credentials={secure.host: WHO})
        for image in bundle.manifest.images:
            reference = ImageReference.parse(f"{secure.host}/team/k8s/test/{image.name}:v1")
            pulled = await Puller(client, access).pull(reference, "amd64", BlobStore(tmp_path / "blobs"))
            assert pulled.manifest.digest == image.digest
            assert tuple(blob.digest for blob in pulled.blobs) == image.blobs
    assert len(list((tmp_path / "blobs").iterdir())) == len(bundle.manifest.blobs)


@pytest.mark.parametrize("trusted", [True, False])
async def test_strangers_are_told(secure: RealRegistry, big_bundle: Path, trusted: bool) -> None:
    wrong = Credentials(username=USER, password=Secret("wrong-password"))
    endpoint = Endpoint(url=f"https://{secure.host}", credentials=wrong)
    ca_file = secure.ca_file if trusted else None
    async with open_client(ca_file=ca_file, trust_env=False) as client:
        with Bundle.open(big_bundle) as bundle:
            telling = "refuses the user 'pusher'" if trusted else "certificate is not trusted"
            with pytest.raises(Refused, match=telling) as caught:
                await Pusher(RegistrySession(client, endpoint, retry=QUICK), bundle).push(bundle.manifest.images)
    assert "wrong-password" not in str(caught.value)


async def test_pushing_through_a_network_that_cuts(plain: RealRegistry, big_bundle: Path, tmp_path: Path) -> None:
    port = int(plain.host.rpartition(":")[2])
    async with cutting_proxy(port, after=700_000, times=6) as cuts, open_client(trust_env=False) as client:
        endpoint = Endpoint(url=f"http://127.0.0.1:{cuts.port}")
        with Bundle.open(big_bundle) as bundle:
            session = RegistrySession(client, endpoint, retry=QUICK)
            await Pusher(session, bundle, chunk=500_000).push(bundle.manifest.images)
        assert cuts.done == 6
        access = RegistryAccess(plain_http=frozenset({plain.host}))
        for image in bundle.manifest.images:  # straight from the registry: all of it arrived whole
            reference = ImageReference.parse(f"{plain.host}/test/{image.name}:v1")
            pulled = await Puller(client, access).pull(reference, "amd64", BlobStore(tmp_path / "blobs"))
            assert pulled.manifest.digest == image.digest


async def test_pulling_through_a_network_that_cuts(plain: RealRegistry, big_bundle: Path, tmp_path: Path) -> None:
    port = int(plain.host.rpartition(":")[2])
    async with open_client(trust_env=False) as client:
        with Bundle.open(big_bundle) as bundle:
            await Pusher(RegistrySession(client, Endpoint(url=f"http://{plain.host}")), bundle).push(
                bundle.manifest.images
            )
        async with cutting_proxy(port, after=1_000_000, times=5) as cuts:
            host = f"127.0.0.1:{cuts.port}"
            puller = Puller(client, RegistryAccess(plain_http=frozenset({host})), retry=QUICK)
            image = bundle.manifest.images[0]
            pulled = await puller.pull(
                ImageReference.parse(f"{host}/test/{image.name}:v1"), "amd64", BlobStore(tmp_path / "blobs")
            )
            assert cuts.done == 5
    assert pulled.manifest.digest == image.digest
    assert " 206 " in plain.log.read_text(), "the registry was asked for the rest only"


def test_the_command_pushes_a_packed_bundle(secure: RealRegistry, big_bundle: Path, tmp_path: Path) -> None:
    pack(big_bundle, tmp_path / "big.tar.zst")
    environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    result = subprocess.run(
        [
            *(sys.executable, "-m", "kubexm", "bundle", "push", str(tmp_path / "big.tar.zst"), f"{secure.host}/cli"),
            *("--ca-file", str(secure.ca_file), "--user", USER, "--password", "env:PUSH_PASSWORD"),
        ],
        env={**environment, "PUSH_PASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert f"3 images are at {secure.host}/cli" in result.stdout
    repositories = secure.storage / "docker/registry/v2/repositories/cli/test"
    assert {path.name for path in repositories.iterdir()} == {"one", "two", "three"}
