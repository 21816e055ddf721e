"""Addons: manifests and charts of the user's own, in the order of the file, and gone when the file has them no more."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.addons import Addons
from kubexm.components.addons.charts import ChartInstalled, ChartPlaced, chart_path
from kubexm.components.addons.manifests import AddonApplied
from kubexm.components.addons.module import addon_key
from kubexm.components.addons.pruning import NoOtherAddons
from kubexm.components.addons.sources import (
    SourceFile,
    chart_digest,
    manifest_files,
    read_chart,
    read_source,
    source_file,
)
from kubexm.components.api import RolledOut, Workload
from kubexm.components.hooks import HookRun
from kubexm.components.milestones import CLUSTER_UP
from kubexm.connector import Command, CommandResult
from kubexm.errors import AssetError, CommandError, KubexmError, PlanError
from kubexm.plan import ExecutionGraph
from kubexm.plan.codec import encode
from kubexm.runtime import StepContext, Transcript, UnitConnector, verified
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.components.api_plan import Up, api_graph
from tests.unit.components.around import cluster, context_of
from tests.unit.components.kube_api import KubeApi, changed

MANIFEST = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}\n"
SECRET = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: geheim}}\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two manifests in a directory, one beside it, and a chart."""
    folder = tmp_path / "files"
    (folder / "extra" / "sub").mkdir(parents=True)
    (folder / "extra" / "b.yaml").write_text(MANIFEST)
    (folder / "extra" / "sub" / "a.yml").write_text(SECRET)
    (folder / "extra" / "README.md").write_text("no manifest")
    (folder / "one.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n")
    (folder / "chart" / "templates").mkdir(parents=True)
    (folder / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 1.0.0\n")
    (folder / "chart" / "templates" / "cm.yaml").write_text("kind: ConfigMap\n")
    (folder / "values.yaml").write_text("a: {x: 1, y2: 2}\nmode: 0644\n")
    return folder


def plan(files: Path, tmp_path: Path, addons: str, more: str = "") -> ExecutionGraph:
    text = cluster(f"addons: {addons}\n{more}".replace("FILES", str(files)))
    return api_graph(context_of(text, tmp_path), Up, Addons)


def ours(graph: ExecutionGraph) -> list[str]:
    return [node for node in graph.nodes if node.startswith("addons")]


def test_addons_are_brought_one_after_the_other(files: Path, tmp_path: Path) -> None:
    graph = plan(
        files,
        tmp_path,
        "[{name: first, manifests: [FILES/extra], namespace: apps, wait: 1m},"
        " {name: second, manifests: [FILES/one.yaml]}]",
    )
    prefix = "addons.install"
    assert ours(graph) == [f"{prefix}.{name}" for name in ("first", "first-ready", "second", "removed")]
    assert graph.nodes[f"{prefix}.first"].needs == (CLUSTER_UP,)
    assert f"{prefix}.first-ready" in graph.nodes[f"{prefix}.second"].after
    assert f"{prefix}.second" in graph.nodes[f"{prefix}.removed"].after
    ready = graph.nodes[f"{prefix}.first-ready"].step
    assert ready == RolledOut(name="addon-first", workloads=(Workload("Deployment", "apps", "web"),), patience=60.0)
    step = graph.nodes[f"{prefix}.first"].step
    assert isinstance(step, AddonApplied)
    assert [Path(file.path).name for file in step.files] == ["b.yaml", "a.yml"]
    assert graph.nodes[f"{prefix}.removed"].step == NoOtherAddons(keep=("addon-first", "addon-second"))


def test_what_manifests_hold_is_no_part_of_a_plan(files: Path, tmp_path: Path) -> None:
    graph = plan(files, tmp_path, "[{name: first, manifests: [FILES/extra]}]")
    text = json.dumps([encode(node) for node in graph.nodes.values()])
    assert "geheim" not in text
    assert hashlib.sha256(SECRET.encode()).hexdigest() in text


def test_charts_and_helm_are_on_their_way_before_the_cluster_is_up(files: Path, tmp_path: Path) -> None:
    graph = plan(
        files,
        tmp_path,
        "[{name: web, namespace: apps, wait: 2m,"
        " chart: {path: FILES/chart, values: {a: 1}, valuesFiles: [FILES/values.yaml]}}]",
    )
    tools = ["addons.install.helm-active", "addons.install.web-chart"]
    assert ours(graph) == ["addons.install.helm", *tools, "addons.install.web", "addons.install.removed"]
    assert all(not graph.nodes[tool].after and not graph.nodes[tool].needs for tool in tools)
    node = graph.nodes["addons.install.web"]
    assert set(tools) <= set(node.after)
    step = node.step
    assert isinstance(step, ChartInstalled)
    assert (step.release, step.namespace, step.wait) == ("web", "apps", 120.0)
    assert step.chart == chart_digest(str(files / "chart"), "x")


def test_commands_of_the_user_run_once_the_cluster_is_up(files: Path, tmp_path: Path) -> None:
    graph = plan(files, tmp_path, "[]", "system: {postInstall: [{name: say hello, run: echo hello, on: worker}]}")
    node = graph.nodes["addons.post-install.say-hello"]
    assert node.hosts == ("w1", "w2")
    assert node.needs == (CLUSTER_UP,)
    assert isinstance(node.step, HookRun)


@pytest.mark.parametrize(
    ("addons", "message"),
    [
        ("[{name: a, manifests: [FILES/missing.yaml]}]", "missing.yaml cannot be read"),
        ("[{name: a, manifests: [FILES/empty]}]", "no manifests in"),
        ("[{name: a, manifests: [FILES/bad.yaml]}]", "this is no YAML"),
        ("[{name: a, chart: {path: FILES/extra}}]", "no Chart.yaml"),
        ("[{name: a, chart: {path: FILES/chart, valuesFiles: [FILES/none.yaml]}}]", "none.yaml cannot be read"),
    ],
)
def test_what_cannot_be_read_is_told_before_anything_is_done(
    files: Path, tmp_path: Path, addons: str, message: str
) -> None:
    (files / "empty").mkdir()
    (files / "bad.yaml").write_text("a: [")
    with pytest.raises(KubexmError, match=message):
        plan(files, tmp_path, addons)


async def test_a_file_that_changed_since_planning_is_refused(files: Path, tmp_path: Path) -> None:
    step = AddonApplied(name="addon-a", files=manifest_files([str(files / "one.yaml")], "a"))
    ctx = KubeApi().context(tmp_path)
    assert not (await step.precheck(ctx)).satisfied
    (files / "one.yaml").write_text(MANIFEST)
    with pytest.raises(AssetError, match="changed since this was planned"):
        await step.precheck(ctx)


async def test_an_addon_is_applied_and_satisfied_the_second_time(files: Path, tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    step = AddonApplied(name="addon-a", files=manifest_files([str(files / "extra")], "a"), namespace="apps")
    await changed(ctx, step)
    assert api.find("Deployment", "web") is not None
    assert api.find("Namespace", "apps") is not None
    assert (await step.precheck(ctx)).satisfied


async def test_addons_that_left_the_file_leave_the_cluster(files: Path, tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    for name, path in (("addon-a", "extra"), ("addon-b", "one.yaml")):
        await changed(ctx, AddonApplied(name=name, files=manifest_files([str(files / path)], "a")))
    step = NoOtherAddons(keep=("addon-b",))
    check = await step.precheck(ctx)
    assert check.reason == "to go: addon-a"
    assert "-Deployment default/web" in check.diff
    await changed(ctx, step)
    assert api.find("Deployment", "web") is None
    assert api.find("ConfigMap", "one") is not None
    assert (await step.precheck(ctx)).satisfied


def test_a_chart_is_packed_the_same_each_time(files: Path) -> None:
    digest = chart_digest(str(files / "chart"), "x")
    content = read_chart(str(files / "chart"), digest)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.getnames() == ["chart/Chart.yaml", "chart/templates/cm.yaml"]
    (files / "chart" / "Chart.yaml").touch()
    assert chart_digest(str(files / "chart"), "x") == digest
    (files / "chart" / "templates" / "cm.yaml").write_text("kind: Other\n")
    with pytest.raises(AssetError, match="changed since"):
        read_chart(str(files / "chart"), digest)


async def test_a_chart_is_sent_once_and_only_root_reads_it(files: Path, tmp_path: Path) -> None:
    digest = chart_digest(str(files / "chart"), "x")
    connector = MemoryConnector("n1").on(re.compile(r"(?s).*"), exit_code=1)
    context = memory_context(tmp_path, {"n1": connector})
    ctx = context.step_context("addons.install.web-chart", UnitConnector(connector, Transcript), "run-1")
    step = ChartPlaced(name="addon-web", source=str(files / "chart"), sha256=digest)
    assert not (await step.precheck(ctx)).satisfied
    assert digest in connector.scripts[-1]
    assert "600" in connector.scripts[-1]
    connector.on(re.compile(r"(?s).*"))
    assert (await step.precheck(ctx)).satisfied
    assert step.writes() == {f"file:{chart_path('addon-web')}"}


class Helm:
    """A helm that keeps its history, beside an API."""

    def __init__(self) -> None:
        self.api = KubeApi()
        self.history: list[dict[str, Any]] = []
        self.values: list[Any] = []
        self.error = ""
        self.api.connector.on(re.compile(r"(?s).*/admin.conf helm .*"), callback=self._answer)

    def context(self, work_dir: Path) -> StepContext:
        return self.api.context(work_dir)

    def _answer(self, command: Command) -> Any:
        words = command.script.split("helm ", 1)[1].split()
        failed = CommandResult(host="n1", command="helm", exit_code=1, stderr=self.error.encode())
        match words[0]:
            case "history":
                if self.history:
                    return json.dumps(self.history[-1:])
                return CommandResult(host="n1", command="helm", exit_code=1, stderr=b"Error: release: not found")
            case "upgrade":
                if self.error:
                    return failed
                assert command.stdin is not None
                self.values.append(json.loads(command.stdin))
                note = command.script.split("--description '", 1)[1].split("'", 1)[0]
                entry = {"revision": len(self.history) + 1, "status": "deployed", "description": note}
                self.history.append(entry)
                return "Release has been upgraded"
            case "uninstall":
                self.history.clear()
                return "uninstalled"
        raise AssertionError(words)


def release(files: Path, **more: Any) -> ChartInstalled:
    values = source_file(str(files / "values.yaml"), "x")
    given: dict[str, Any] = {"values": {"a": {"x": None, "z": 3}}, "files": (values,), **more}
    return ChartInstalled(name="addon-web", release="web", namespace="apps", chart="c" * 64, **given)


async def test_a_release_is_installed_once_and_again_only_if_something_changed(files: Path, tmp_path: Path) -> None:
    helm = Helm()
    ctx = helm.context(tmp_path)
    assert (await release(files).precheck(ctx)).reason == "it is not installed yet"
    await changed(ctx, release(files))
    assert helm.values == [{"a": {"x": None, "y2": 2, "z": 3}, "mode": 420}], "a null takes away the chart's default"
    assert (await release(files).precheck(ctx)).satisfied
    assert "another chart or other values" in (await release(files, values={"a": 2}).precheck(ctx)).reason
    (files / "values.yaml").write_text("a: 5\n")
    assert not (await release(files).precheck(ctx)).satisfied


async def test_a_release_that_somebody_else_upgraded_is_seen(files: Path, tmp_path: Path) -> None:
    helm = Helm()
    ctx = helm.context(tmp_path)
    await changed(ctx, release(files))
    helm.history.append({"revision": 2, "status": "deployed", "description": "Upgrade complete"})
    assert not (await release(files).precheck(ctx)).satisfied


async def test_what_an_interrupted_helm_left_is_forgotten_first(files: Path, tmp_path: Path) -> None:
    helm = Helm()
    ctx = helm.context(tmp_path)
    helm.history.append({"revision": 1, "status": "pending-install", "description": "Initial install underway"})
    deleted: list[list[str]] = []

    def answer(words: list[str], command: Command) -> str | None:
        if words[0] == "delete":
            deleted.append(words)
            return "deleted"
        return None

    helm.api.other = answer
    assert (await release(files).precheck(ctx)).reason == "revision 1 is pending-install"
    await changed(ctx, release(files))
    assert deleted[0][:5] == ["delete", "secret", "-n", "apps", "sh.helm.release.v1.web.v1"]
    assert (await release(files).precheck(ctx)).satisfied


async def test_a_release_that_fails_says_what_helm_said(files: Path, tmp_path: Path) -> None:
    helm = Helm()
    helm.error = "Error: UPGRADE FAILED: context deadline exceeded"
    with pytest.raises(CommandError, match="UPGRADE FAILED") as caught:
        await changed(helm.context(tmp_path), release(files))
    assert "helm -n apps status web" in caught.value.hint


async def test_a_release_whose_addon_left_the_file_is_uninstalled(files: Path, tmp_path: Path) -> None:
    helm = Helm()
    ctx = helm.context(tmp_path)
    await changed(ctx, release(files))
    step = NoOtherAddons(keep=())
    assert (await step.precheck(ctx)).reason == "to go: addon-web"
    await changed(ctx, step)
    assert helm.history == []
    assert (await step.precheck(ctx)).satisfied


def test_values_that_are_no_mapping_are_refused(files: Path) -> None:
    (files / "values.yaml").write_text("- a\n")
    with pytest.raises(KubexmError, match="values are a mapping"):
        release(files)._merged(verified)


def test_names_fit_into_labels_and_stay_apart() -> None:
    long = ["a" * 60 + end for end in ("x", "y")]
    keys = [addon_key(name) for name in long]
    assert all(len(key) <= 63 for key in keys)
    assert keys[0] != keys[1]
    assert addon_key("web") == "addon-web"


def test_missing_files_are_told_when_they_are_needed(tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        source_file(str(tmp_path / "gone"), "x")
    with pytest.raises(AssetError, match="cannot be read"):
        read_source(SourceFile(str(tmp_path / "gone"), "0" * 64))
