"""What the integration tests of assets stand on: programs the lab builds, and bundles with images of some size."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from kubexm.assets import BundleWriter, DockerArchive
from kubexm.errors import KubexmError
from kubexm.lab.bundle import BundleBuild
from tests.unit.assets.samples import docker_archive, layer


@pytest.fixture(scope="session")
def registry_binary() -> Path:
    """The distribution registry: one that is named, one that is installed, or one of the lab, built if need be."""
    if found := os.environ.get("KUBEXM_TEST_REGISTRY") or shutil.which("docker-registry"):
        return Path(found)
    return built("registry-", parts=["registry"]) / "registry"


def built(prefix: str, *, parts: list[str]) -> Path:
    """The directory of an artefact of the lab's bundle, built now if need be; skips where that cannot be done."""
    build = BundleBuild(parts=parts)
    name = next(name for name in build.state() if name.startswith(prefix))
    entry = build.state()[name]
    if entry is None:
        missing = build.toolchain.missing(
            next(artefact for artefact in build.contents.artefacts() if artefact.name == name).tools
        )
        if missing:
            pytest.skip(f"{name} is not built, and cannot be: {missing[0].reason}")
        try:
            entry = build.provide([name])[name]
        except KubexmError as error:
            pytest.skip(f"{name} cannot be built here: {error.message}")
    return entry.directory


@pytest.fixture(scope="session")
def big_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with three images of some megabytes that share a layer."""
    work = tmp_path_factory.mktemp("big")
    rng = random.Random(1)
    shared = layer({"shared": rng.randbytes(6_000_000)})
    with BundleWriter(work / "bundle", kubernetes=["v1.34.4"], arch="amd64") as writer:
        for name in ("one", "two", "three"):
            reference = f"registry.k8s.io/test/{name}:v1"
            path = docker_archive(work / f"{name}.tar", reference, [shared, layer({name: rng.randbytes(1_500_000)})])
            writer.add_image(
                DockerArchive(path=path),
                reference=reference,
                name=name,
                component="test",
                version="v1",
                roles=["worker"],
                origin="here",
                licence="MIT",
            )
        writer.finish()
    return work / "bundle"
