"""The plan of preflight: the same bytes for the same file, no barriers, nothing that the file leaves out."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from kubexm.apis.v1alpha1.execution import CHECKS
from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES
from kubexm.pipeline.preflight import PreflightPipeline
from kubexm.plan import ExecutionGraph, RunStatus
from kubexm.runner.facts.model import Clock, Cpu, Unit
from kubexm.runtime import RuntimeBuilder
from kubexm.step import NOTHING, ModulesLoaded, SwapOff, SysctlSet, TimeKept
from tests.unit.components.preflight.fleet import Fleet, cluster
from tests.unit.config.files import PINNED

EXAMPLES = Path(__file__).parents[4] / "examples"
GOLDEN = Path(__file__).parent / "golden"


def offline(file: Path, *, fix: bool = False) -> ExecutionGraph:
    context = RuntimeBuilder(file, logger=logging.getLogger("test")).build_offline()
    return PreflightPipeline(fix=fix).plan(context.pipeline_context())


@pytest.mark.parametrize("fix", [False, True], ids=["check", "fix"])
@pytest.mark.parametrize("example", ["single", "ha", "airgap", "full"])
def test_golden(example: str, fix: bool, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text((EXAMPLES / f"{example}.yaml").read_text().replace(str(DEFAULT_KUBERNETES), PINNED))
    graph = offline(file, fix=fix)
    text = json.dumps(graph.to_dict(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    path = GOLDEN / f"preflight-{example}{'-fix' if fix else ''}.json"
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new plan"
    assert ExecutionGraph.from_dict(json.loads(text)).to_json() == graph.to_json()


def test_nobody_waits_for_anybody(tmp_path: Path) -> None:
    graph = PreflightPipeline().plan(Fleet().context(tmp_path).pipeline_context())
    assert all(not node.after and not node.after_same_host for node in graph.nodes.values())
    assert all(node.step.writes() == NOTHING for node in graph.nodes.values())
    assert all(len(node.hosts) == 5 for node in graph.nodes.values())
    assert len(graph.nodes) == 31


def test_every_check_is_documented() -> None:
    page = (EXAMPLES.parent / "docs" / "preflight.md").read_text()
    for node in offline(EXAMPLES / "ha.yaml").nodes:
        assert f"### `{node.rpartition('.')[2]}`" in page, node


def test_the_pipeline_changes_nothing_unless_told_to() -> None:
    assert not PreflightPipeline().changes
    assert PreflightPipeline(fix=True).changes


def test_checks_can_be_left_out_by_name_or_id(tmp_path: Path) -> None:
    fleet = Fleet(cluster("preflight: {skip: [swap, preflight.capacity.cpu]}"))
    graph = PreflightPipeline().plan(fleet.context(tmp_path).pipeline_context())
    excluded = [node.id for node in graph.nodes.values() if node.excluded]
    assert excluded == ["preflight.capacity.cpu", "preflight.settings.swap"]


def test_the_model_knows_every_check(tmp_path: Path) -> None:
    """What a file may leave out is validated with no plan made."""
    fleet = Fleet().change("w1", clock=Clock(), units=(Unit(name="chrony.service", active="inactive"),))
    context = fleet.context(tmp_path).pipeline_context()
    plans = (PreflightPipeline().plan(context), PreflightPipeline(fix=True).plan(context))
    known = {f"preflight.{task}.{name}" for task, names in CHECKS.items() for name in names}
    assert {node for plan in plans for node in plan.nodes} == known


def test_fix_puts_steps_in_place_of_checks(tmp_path: Path) -> None:
    fleet = Fleet().change("w1", clock=Clock(), units=(Unit(name="chrony.service", active="inactive"),))
    fleet.change("w2", clock=Clock())
    graph = PreflightPipeline(fix=True).plan(fleet.context(tmp_path).pipeline_context())
    steps = {node.id.rpartition(".")[2]: node for node in graph.nodes.values()}
    assert steps["swap"].step == SwapOff()
    assert isinstance(steps["modules-loaded"].step, ModulesLoaded)
    assert steps["modules-loaded"].step.modules == ("overlay", "br_netfilter", "nf_conntrack", "vxlan")
    assert isinstance(steps["forwarding"].step, SysctlSet)
    assert steps["forwarding"].after_same_host == ("preflight.settings.modules-loaded",)
    assert steps["time-kept"].step == TimeKept()
    assert steps["time-kept"].hosts == ("w1",)
    assert "w1" not in steps["time-service"].hosts
    assert "w2" in steps["time-service"].hosts


def test_fix_leaves_alone_what_the_user_wants(tmp_path: Path) -> None:
    fleet = Fleet(cluster("kubernetes: {kubelet: {config: {failSwapOn: false}}}"))
    graph = PreflightPipeline(fix=True).plan(fleet.context(tmp_path).pipeline_context())
    assert not isinstance(graph.nodes["preflight.settings.swap"].step, SwapOff)


def test_planning_reads_no_facts_without_fix(tmp_path: Path) -> None:
    context = Fleet().context(tmp_path)
    PreflightPipeline().plan(context.pipeline_context())
    assert context.facts_trace.reads() == ()


async def test_a_check_of_all_hosts_takes_three_reads_each_and_no_change(tmp_path: Path) -> None:
    fleet = Fleet()
    await fleet.preflight(tmp_path)
    for name, connector in fleet.connectors.items():
        assert len(connector.commands) == 3, (name, connector.scripts)
        assert not any(command.changes for command in connector.commands)
        assert sum(command.long for command in connector.commands) == 1, "names are looked up beside all other reads"


async def test_a_dry_run_tells_the_same_findings(tmp_path: Path) -> None:
    report = await Fleet().change("w1", cpu=Cpu(count=1)).preflight(tmp_path, dry_run=True)
    assert list(report.errors) == [("cpu", "w1")]
    assert report.result.status is RunStatus.FAILED


async def test_a_host_nobody_reached_is_left_out_of_comparisons(tmp_path: Path) -> None:
    fleet = Fleet().change("w1", is_assumed=True, machine_id="id-of-w2", hostname="w2", clock=Clock(offset=99.0))
    report = await fleet.preflight(tmp_path)
    assert {host for _, host in report.errors} == {"w1"}


def test_etcd_hosts_of_their_own_need_less(tmp_path: Path) -> None:
    text = cluster().replace('    etcd: ["cp[1:3]"]', "    etcd: [e1]")
    text = text.replace("  roleGroups:", "    - {name: e1, address: 10.0.0.31}\n  roleGroups:")
    graph = PreflightPipeline().plan(Fleet(text).context(tmp_path).pipeline_context())
    ports = graph.nodes["preflight.network.ports"].step
    (share,) = [share for share in ports.uses if "e1" in share.hosts]  # type: ignore[attr-defined]
    assert {use.port for use in share.items} == {2379, 2380, 2381}
    modules = graph.nodes["preflight.system.modules"].step
    assert not any("e1" in share.hosts for share in modules.wanted)  # type: ignore[attr-defined]
