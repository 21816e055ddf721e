"""Manifests and charts of the catalog: planned by digest, images under the names of the cluster, nothing unlisted."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm import config
from kubexm.assets import Bundle, catalog
from kubexm.assets.catalog import load
from kubexm.components.assets.objects import CatalogObjects, catalog_objects
from kubexm.errors import AssetError
from kubexm.runtime import AssetShelf, StepContext, TaskContext, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.components.around import cluster
from tests.unit.runtime.bundles import whole_bundle

IMAGE = "registry.k8s.io/pause:3.10.1"
TEXT = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  template:
    spec:
      initContainers: [{{name: first, image: "{IMAGE}"}}]
      containers:
        - name: web
          image: {IMAGE}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: image}}
data: {{image: not-an-image}}
"""
SUM = hashlib.sha256(TEXT.encode()).hexdigest()
ENTRY = {
    "name": "web",
    "component": "web",
    "version": "helm",
    "url": "https://example.com/web/{version}/all.yaml",
    "licence": "Apache-2.0",
    "roles": ["controlPlane"],
    "images": ["pause"],
}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A catalog with a manifest and a chart."""
    version = catalog.release("v1.34.4", "amd64").versions["helm"]
    components = copy.deepcopy(load._components())
    components["manifest"] = [{**ENTRY, "sha256": {version: SUM}}]
    components["chart"] = [{**ENTRY, "name": "web-chart", "url": "https://example.com/web-{number}.tgz", "images": []}]
    monkeypatch.setattr(load, "_components", lambda: components)
    load._release.cache_clear()
    yield
    load._release.cache_clear()


@pytest.fixture
def bundle(listed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle that holds both."""
    from tests.unit.runtime import bundles

    plain = bundles.content_of
    monkeypatch.setattr(bundles, "content_of", lambda name, arch="amd64": _content(name, plain(name, arch)))
    return whole_bundle(tmp_path / "bundle")


def _content(name: str, usual: bytes) -> bytes:
    return TEXT.encode() if name == "web" else usual


def contexts(tmp_path: Path, bundle: Path | None, more: str = "") -> tuple[TaskContext, StepContext]:
    text = cluster(f"kubernetes: {{version: v1.34.4}}\n{more}")
    loaded = config.loads(text, name="t.yaml").cluster
    shelf = AssetShelf(loaded, {"amd64": Bundle.open(bundle)} if bundle else None, cache=tmp_path / "cache")
    connectors = {host.name: MemoryConnector(host.name) for host in loaded.hosts}
    context = replace(memory_context(tmp_path / "work", connectors, cluster=text), assets=shelf)
    connector = UnitConnector(connectors[loaded.hosts[0].name], Transcript)
    task = context.pipeline_context().for_module().for_task()
    return task, context.step_context("web.install.objects", connector, "run-1")


def test_the_catalog_tells_the_sum_before_there_is_a_bundle(listed: None, tmp_path: Path) -> None:
    task, _ = contexts(tmp_path, None)
    found = catalog_objects(task, "web")
    assert (found.kind, found.sha256) == ("manifest", SUM)
    assert found.images == ((IMAGE, IMAGE),)
    assert catalog_objects(task, "web-chart").kind == "chart"
    with pytest.raises(AssetError, match="is a manifest, which is not put on hosts"):
        task.assets.file("web", "amd64")
    with pytest.raises(AssetError, match="no manifest 'kubelet'"):
        task.assets.objects("kubelet")


async def test_images_are_named_as_in_this_cluster(bundle: Path, tmp_path: Path) -> None:
    task, step = contexts(tmp_path, bundle, "registry: {private: reg.example.com/k8s}")
    found = catalog_objects(task, "web")
    assert found.sha256 == SUM
    deployment, settings = await found.documents(step)
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "reg.example.com/k8s/pause:3.10.1"
    assert pod["initContainers"][0]["image"] == "reg.example.com/k8s/pause:3.10.1"
    assert settings["data"] == {"image": "not-an-image"}


async def test_an_image_that_the_catalog_does_not_list_is_refused(bundle: Path, tmp_path: Path) -> None:
    task, step = contexts(tmp_path, bundle)
    found = replace(catalog_objects(task, "web"), images=())
    with pytest.raises(AssetError, match=f"uses the image {IMAGE}, which the catalog does not list"):
        await found.documents(step)


async def test_another_file_than_the_planned_one_is_refused(bundle: Path, tmp_path: Path) -> None:
    task, step = contexts(tmp_path, bundle)
    planned = replace(catalog_objects(task, "web"), sha256="0" * 64)
    assert isinstance(planned, CatalogObjects)
    with pytest.raises(AssetError, match="was planned"):
        await planned.documents(step)
