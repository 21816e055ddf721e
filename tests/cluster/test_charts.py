"""Helm charts as addons, by a real helm: they come, change and go with the file, and say why if they do not come up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubexm.lab import Lab
from kubexm.lab.places import cache_directory
from kubexm.lab.sources import built_bundle
from tests.cluster.commands import create, edit, kubectl, kubexm
from tests.cluster.marks import LONG, PATIENT

TEMPLATE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: web, image: {{ .Values.image | quote }}, args: [netexec]}]}
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-login}
stringData: {password: {{ .Values.password | quote }}}
"""


def bundle_has_helm() -> bool:
    found = built_bundle(cache_directory())
    if found is None or not found.path.is_dir():
        return False
    files = json.loads((found.path / "manifest.json").read_text())["files"]
    return any(file["name"] == "helm" for file in files)


pytestmark = [
    LONG,
    PATIENT,
    pytest.mark.skipif(not bundle_has_helm(), reason="no helm in the lab bundle: `kubexm lab bundle --part helm`"),
]


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Iterator[Lab]:
    """One node, created."""
    made = make_lab(topology="single")
    create(made)
    yield made
    made.down()


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart of one program and a secret, as a directory."""
    directory = tmp_path / "chart"
    (directory / "templates").mkdir(parents=True)
    (directory / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.0.0\n")
    (directory / "values.yaml").write_text("replicas: 1\nimage: none\npassword: none\n")
    (directory / "templates" / "all.yaml").write_text(TEMPLATE)
    return directory


def agnhost(lab: Lab) -> str:
    found = lab.run("n1", "ctr", "-n", "k8s.io", "images", "ls", "-q").split()
    return next(image for image in found if "/agnhost:" in image)


def ready(lab: Lab) -> str:
    words = ("get", "deployment", "shop-web", "-o", "jsonpath={.status.readyReplicas}")
    return kubectl(lab, "-n", "shop", *words)


def test_a_chart_comes_changes_and_goes_with_the_file(lab: Lab, chart: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("password: geheim-geheim\n")
    addon = {
        "name": "web",
        "namespace": "shop",
        "wait": "2m",
        "chart": {
            "path": str(chart),
            "release": "shop",
            "valuesFiles": [str(values)],
            "values": {"image": agnhost(lab)},
        },
    }
    before = lab.cluster_file.read_text()
    edit(lab.cluster_file, addons=[addon])
    assert {"addons.install.web-chart", "addons.install.web"} <= create(lab).changed
    assert ready(lab) == "1"
    assert create(lab).result["changed"] is False

    values.write_text("password: geheim-geheim\nreplicas: 2\n")
    changed = create(lab).changed
    assert "addons.install.web" in changed
    assert "addons.install.web-chart" not in changed, "the chart itself is the same"
    assert ready(lab) == "2"

    # Somebody upgraded it by hand: put back.
    homes = "HELM_CACHE_HOME=/tmp/helm HELM_CONFIG_HOME=/tmp/helm HELM_DATA_HOME=/tmp/helm"
    helm = f"KUBECONFIG=/etc/kubernetes/admin.conf {homes} helm -n shop"
    lab.run("n1", f"{helm} upgrade shop /var/lib/kubexm/addons/*.tgz --reuse-values --set replicas=1", user="root")
    assert "addons.install.web" in create(lab).changed
    assert ready(lab) == "2"

    runs = (lab.cluster_file.parent / ".kubexm").rglob("*")
    assert not [path for path in runs if path.is_file() and b"geheim-geheim" in path.read_bytes()]

    lab.cluster_file.write_text(before)
    assert "addons.install.removed" in create(lab).changed
    assert kubectl(lab, "-n", "shop", "get", "deployment,secret", "-o", "name") == ""
    assert create(lab).result["changed"] is False


def test_a_chart_that_does_not_come_up_says_why(lab: Lab, chart: Path) -> None:
    before = lab.cluster_file.read_text()
    bad = {"path": str(chart), "release": "bad", "values": {"image": "registry.invalid/nothing:1"}}
    edit(lab.cluster_file, addons=[{"name": "bad", "namespace": "shop", "wait": "20s", "chart": bad}])
    done = kubexm(lab.cluster_file, "create", "cluster")
    assert done.exit_code == 1
    error = done.errors["addons.install.bad", "n1"]
    assert "bad" in error["message"]
    assert "helm -n shop status bad" in error["hint"]
    lab.cluster_file.write_text(before)
    create(lab)
    assert kubectl(lab, "-n", "shop", "get", "deployment", "-o", "name") == ""
