"""What is planned to give hosts back: the same bytes for the same file, and nothing before all hosts are known."""

from __future__ import annotations

import json
import logging
import os
from itertools import pairwise
from pathlib import Path

import pytest

from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES
from kubexm.components.removal.guard import HostNotAnothers
from kubexm.components.removal.local import WorkDirectoryCleared
from kubexm.components.removal.restoring import HostRestored
from kubexm.components.removal.steps import DirectoriesCleared, HostReleased, NetworkCleared, WorkloadsGone
from kubexm.pipeline import declared, pipeline_named
from kubexm.pipeline.delete import DeleteCluster
from kubexm.plan import Budget, ExecutionGraph
from kubexm.runner.facts import ClusterMarker
from kubexm.runtime import RuntimeBuilder
from tests.unit.components.preflight.fleet import Fleet, cluster
from tests.unit.config.files import PINNED

EXAMPLES = Path(__file__).parents[4] / "examples"
GOLDEN = Path(__file__).parent / "golden"
CHAIN = ("workloads", "network", "directories", "originals", "packages", "mark")


def plan(fleet: Fleet, work_dir: Path, *, keep_data: bool = False, keep_runtime: bool = False) -> ExecutionGraph:
    context = fleet.context(work_dir).pipeline_context()
    return DeleteCluster(keep_data=keep_data, keep_runtime=keep_runtime).plan(context)


def step(graph: ExecutionGraph, name: str) -> object:
    return graph.nodes[f"removal.{name}"].step


@pytest.mark.parametrize("keep", [False, True], ids=["all", "keep"])
@pytest.mark.parametrize("example", ["single", "ha"])
def test_golden(example: str, keep: bool, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text((EXAMPLES / f"{example}.yaml").read_text().replace(str(DEFAULT_KUBERNETES), PINNED))
    context = RuntimeBuilder(file, logger=logging.getLogger("test")).build_offline()
    graph = DeleteCluster(keep_data=keep, keep_runtime=keep).plan(context.pipeline_context())
    text = json.dumps(graph.to_dict(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    path = GOLDEN / f"delete-{example}{'-keep' if keep else ''}.json"
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new plan"
    assert ExecutionGraph.from_dict(json.loads(text)).to_json() == graph.to_json()


def test_nothing_is_touched_before_every_host_is_known_to_be_ours(tmp_path: Path) -> None:
    graph = plan(Fleet(), tmp_path)
    assert graph.nodes["removal.host.workloads"].after == ("removal.guard.membership",)
    assert graph.nodes["removal.guard.membership"].hosts == ("cp1", "cp2", "cp3", "w1", "w2")


def test_each_host_goes_at_its_own_pace_and_this_machine_comes_last(tmp_path: Path) -> None:
    graph = plan(Fleet(), tmp_path)
    for first, second in pairwise(CHAIN):
        node = graph.nodes[f"removal.host.{second}"]
        assert node.after_same_host == (f"removal.host.{first}",)
        assert node.after == ()
        assert len(node.hosts) == 5
    local = graph.nodes["removal.host.work-directory"]
    assert (local.hosts, local.after) == (("control-node",), ("removal.host.mark",))


def test_the_clusters_uid_comes_from_the_work_directory_or_a_host(tmp_path: Path) -> None:
    fleet = Fleet()
    assert step(plan(fleet, tmp_path), "guard.membership") == HostNotAnothers(cluster="prod")
    fleet.change("w1", marker=ClusterMarker(uid="worker", name="prod"))
    fleet.change("w2", marker=ClusterMarker(uid="unreadable", name=""))
    assert step(plan(fleet, tmp_path), "guard.membership") == HostNotAnothers(cluster="prod", uid="worker")
    fleet.change("cp2", marker=ClusterMarker(uid="keeper", name="prod"))
    fleet.change("cp1", marker=ClusterMarker(uid="other", name="elsewhere"))
    assert step(plan(fleet, tmp_path), "guard.membership") == HostNotAnothers(cluster="prod", uid="keeper")
    (tmp_path / "uid").write_text("known\n")
    assert step(plan(fleet, tmp_path), "guard.membership") == HostNotAnothers(cluster="prod", uid="known")


def test_hosts_that_are_missing_are_within_budget_and_keep_the_work_directory(tmp_path: Path) -> None:
    graph = plan(Fleet().change("cp3", "w2", is_assumed=True), tmp_path)
    assert graph.policy.budgets == (Budget("missing", ("cp3", "w2"), 2),)
    assert step(graph, "host.work-directory") == WorkDirectoryCleared(missing=("cp3", "w2"))


def test_where_no_host_is_reached_there_is_no_budget(tmp_path: Path) -> None:
    fleet = Fleet()
    for name in fleet.facts:
        fleet.change(name, is_assumed=True)
    graph = plan(fleet, tmp_path)
    assert graph.policy.budgets == ()


def test_what_flannel_made_goes_and_another_plugins_stays(tmp_path: Path) -> None:
    text = cluster("network: {podCIDR: 10.1.0.0/16, flannel: {vni: 7}}")
    made = step(plan(Fleet(text), tmp_path), "host.network")
    assert made == NetworkCleared(links=("cni0", "flannel.7", "flannel-v6.7"), networks=("10.1.0.0/16",))
    own = step(plan(Fleet(cluster("network: {plugin: none}")), tmp_path), "host.network")
    assert own == NetworkCleared()


def test_data_is_kept_on_demand(tmp_path: Path) -> None:
    text = cluster("etcd: {dataDir: /srv/etcd}\nstorage: {localPath: {path: /srv/volumes}}")
    graph = plan(Fleet(text), tmp_path, keep_data=True)
    kept = ("/srv/etcd", "/srv/volumes")
    assert step(graph, "host.directories") == DirectoriesCleared(keep=kept, why="--keep-data")
    assert step(graph, "host.originals") == HostRestored(keep=kept)
    assert step(graph, "host.mark") == HostReleased(keep=("originals",))
    gone = step(graph, "host.workloads")
    assert isinstance(gone, WorkloadsGone)
    assert (gone.keep_data, gone.keep_runtime) == (True, False)


def test_the_runtime_is_kept_on_demand(tmp_path: Path) -> None:
    graph = plan(Fleet(), tmp_path, keep_runtime=True)
    directories, restored = step(graph, "host.directories"), step(graph, "host.originals")
    assert isinstance(directories, DirectoriesCleared)
    assert isinstance(restored, HostRestored)
    assert "/var/lib/containerd" in directories.keep
    assert "/var/lib/kubelet" not in directories.keep
    assert {"containerd.service", "/usr/local/sbin/runc", "/var/lib/containerd"} <= set(restored.keep)
    gone = step(graph, "host.workloads")
    assert isinstance(gone, WorkloadsGone)
    assert (gone.keep_data, gone.keep_runtime) == (False, True)
    assert [tool.partition(":")[0].rpartition("/")[2] for tool in gone.tools] == ["kube-proxy", "flannel"]


def test_it_is_known_to_leave_hosts() -> None:
    assert declared("delete").leaves_hosts
    assert not declared("preflight").leaves_hosts
    assert isinstance(pipeline_named("delete", keep_data=True), DeleteCluster)
