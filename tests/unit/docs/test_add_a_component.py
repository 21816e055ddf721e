"""The code in docs/add-a-component.md, run as it stands there, and what it says of other files."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.api import ManifestsApplied
from kubexm.plan import ExecutionGraph
from kubexm.runtime import Context
from tests.unit.components.api_plan import api_graph
from tests.unit.components.around import cluster, context_of

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "add-a-component.md"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module made of all the code on the page, in order; the catalog does not know its image."""
    text = PAGE.read_text("utf-8")
    made = types.ModuleType("add_a_component_page")
    sys.modules[made.__name__] = made
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text[: match.start()].count("\n") + 1
        source = "from __future__ import annotations\n" + "\n" * line + match[1]
        exec(compile(source, str(PAGE), "exec", dont_inherit=True), made.__dict__)
    monkeypatch.setitem(made.__dict__, "image", lambda ctx, name: f"example/{name}:1")
    yield made
    del sys.modules[made.__name__]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Hosts of a cluster whose file asks for the plugin: the model refuses a value it does not know yet."""
    base = context_of(cluster(), tmp_path)
    spec = base.cluster.spec
    network = spec.network.model_copy(update={"plugin": "kube-router"})
    asked = base.cluster.model_copy(update={"spec": spec.model_copy(update={"network": network})})
    return replace(base, cluster=asked)


def test_its_own_tests_pass(page: Any, context: Context) -> None:
    page.test_it_is_applied_the_moment_the_api_answers(context)
    page.test_the_api_is_reached_as_the_node_reaches_it(context)


def test_its_plan_holds_every_object_and_can_be_saved(page: Any, context: Context) -> None:
    graph = api_graph(context, page.KubeRouter)
    step = graph.nodes["kube-router.apply.manifests"].step
    assert isinstance(step, ManifestsApplied)
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet")
    assert re.findall(r"^kind: (\w+)$", step.manifests, re.MULTILINE) == list(kinds)
    assert ExecutionGraph.from_dict(graph.to_dict()).to_json() == graph.to_json()


def test_other_clusters_get_nothing(page: Any, tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster(), tmp_path), page.KubeRouter)
    assert not [node for node in graph.nodes if node.startswith("kube-router")]


def test_the_files_it_names_are_there_and_know_plugins() -> None:
    sources = ROOT / "src" / "kubexm"
    for name in re.findall(r"`((?:apis|assets|components|pipeline|runtime|lab)/[\w/.]+\.py)`", PAGE.read_text("utf-8")):
        if "kube_router" in name:
            continue
        assert (sources / name).is_file(), name
        if name != "components/milestones.py":
            assert "flannel" in (sources / name).read_text("utf-8").lower(), f"{name} knows nothing of plugins"
