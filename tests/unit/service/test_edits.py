"""Edits of the file of a cluster that exists: refused with both values, named, reported, or let through."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from kubexm.components.identity.record import ClusterRecord, SpecRecorded, SpecRecordedHere, applied_text
from kubexm.components.milestones import API_READY
from kubexm.errors import ConfigError, FormatError
from kubexm.module import Module, link
from kubexm.pipeline import Edits
from kubexm.pipeline.create import CreateCluster
from kubexm.plan import ExecutionFragment
from kubexm.plan.codec import decode, encode
from kubexm.releases import default_kubernetes
from kubexm.runtime import ModuleContext
from kubexm.service.edits import judge_edits
from kubexm.step import CommandRun
from kubexm.task import FragmentBuilder
from tests.unit.components.pki.fleet import HA, Fleet
from tests.unit.step.bench import Bench

BEFORE = HA.format(more="")


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A cluster that was brought up, as its marks say, and recorded on cp1 and here."""
    fleet = Fleet(tmp_path)
    text = applied_text(fleet.context().cluster)
    for host in ("cp1", "cp2", "cp3"):
        fleet.mark(host, uid="u", name="prod", roles=["controlPlane", "etcd"], caFingerprint="sha256:aa")
    (fleet.root / "cp1/state/applied.json").write_text(text)
    (fleet.work_dir / "uid").write_text("u\n")
    (fleet.work_dir / "applied.json").write_text(text)
    return fleet


async def judge(fleet: Fleet, more: str = "", **replaced: str) -> None:
    await judge_for(CreateCluster.accepts, fleet, more, **replaced)


async def judge_for(accepts: frozenset[Edits], fleet: Fleet, more: str = "", **replaced: str) -> None:
    text = HA.format(more=more)
    for old, new in replaced.items():
        text = text.replace(old, new)
    fleet.text = text
    await judge_edits(fleet.context(), accepts)


async def test_no_edit_costs_one_read_on_one_host(fleet: Fleet) -> None:
    await judge(fleet)
    assert {name: len(one.commands) for name, one in fleet.connectors.items() if one.commands} == {"cp1": 1}


async def test_a_live_edit_goes_through(fleet: Fleet) -> None:
    await judge(fleet, "  kubernetes: {apiServer: {extraArgs: {v: 2}}}\n  system: {timezone: UTC}")


async def test_fixed_edits_are_refused_all_at_once_with_both_values(fleet: Fleet) -> None:
    with pytest.raises(ConfigError) as caught:
        await judge(fleet, "  network: {podCIDR: 10.50.0.0/16}\n  kubernetes: {type: kubexm}")
    assert "spec.network.podCIDR: 10.244.0.0/16 → 10.50.0.0/16" in caught.value.message
    assert "spec.kubernetes.type: kubeadm → kubexm" in caught.value.message
    assert caught.value.hint == "put the old values back"


async def test_an_upgrade_is_refused_and_no_command_is_named_that_does_not_exist(fleet: Fleet) -> None:
    with pytest.raises(ConfigError) as caught:
        await judge(fleet, "  kubernetes: {version: v1.37.1}")
    said = (
        f"spec.kubernetes.version: {default_kubernetes()} → v1.37.1 (this version of kubexm cannot upgrade a cluster)"
    )
    assert said in caught.value.message
    assert "put the old values back; for another version make a new cluster" in caught.value.hint
    assert "kubexm upgrade" not in caught.value.message + caught.value.hint
    with pytest.raises(ConfigError, match="Kubernetes cannot be downgraded"):
        await judge(fleet, "  kubernetes: {version: v1.33.0}")


async def test_a_pipeline_that_accepts_versions_gets_them(fleet: Fleet) -> None:
    accepts = frozenset({Edits.LIVE, Edits.VERSIONS})
    await judge_for(accepts, fleet, "  kubernetes: {version: v1.37.1, apiServer: {extraArgs: {v: 2}}}")


async def test_one_that_accepts_less_names_the_command_for_the_rest(fleet: Fleet) -> None:
    with pytest.raises(ConfigError, match=r"spec.system.timezone: .* → UTC") as caught:
        await judge_for(frozenset({Edits.REMOVED}), fleet, "  system: {timezone: UTC}")
    assert caught.value.hint == "put the old values back, or apply the edits with `kubexm create cluster`"


async def test_one_that_accepts_nothing_does_not_look(fleet: Fleet) -> None:
    await judge_for(frozenset(), fleet, "  network: {podCIDR: 10.50.0.0/16}")
    assert not any(one.commands for one in fleet.connectors.values())


async def test_a_host_that_moved_is_refused(fleet: Fleet) -> None:
    with pytest.raises(ConfigError, match=r"spec.hosts\[cp1\].address: 10.0.0.11 → 10.0.7.11") as caught:
        await judge(fleet, **{"10.0.0.[11:13]": "10.0.7.[11:13]"})
    assert "under another name" in caught.value.message


async def test_hosts_gone_from_the_file_are_reported(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await judge(
            fleet,
            **{
                "    - {name: lb1, address: lb.example.com, internalAddress: 10.0.0.31}\n": "",
                "loadbalancer: [lb1]": "",
            },
        )
    assert caplog.messages == ["lb1 (loadbalancer) is gone from the file: it stays in the cluster, untouched"]


async def test_a_host_that_is_added_goes_through(fleet: Fleet) -> None:
    await judge(fleet, **{"- {name: w1,": "- {name: w2, address: 10.0.0.22}\n    - {name: w1,", "[w1]": "[w1, w2]"})


async def test_a_role_that_lasts_is_not_taken_from_a_host_that_stays(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    fewer = {'controlPlane: ["cp[1:3]"]': 'controlPlane: ["cp[1:2]"]', "worker: [w1]": "worker: [w1, cp3]"}
    with pytest.raises(ConfigError, match=r"spec.roleGroups.controlPlane: cp3 is still in it"):
        await judge(fleet, **fewer)
    with caplog.at_level(logging.WARNING):
        await judge(fleet, **{"loadbalancer: [lb1]": "loadbalancer: []"})
    assert "lb1 is no longer in roleGroups.loadbalancer" in caplog.text


async def test_a_control_plane_that_is_a_worker_no_longer_is_a_live_edit(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    both = applied_text(Fleet(fleet.root, text=BEFORE.replace("[w1]", "[w1, cp1]")).context().cluster)
    (fleet.root / "cp1/state/applied.json").write_text(both)
    await judge(fleet)
    assert caplog.messages == []


async def test_saying_what_was_found_is_no_edit(fleet: Fleet) -> None:
    await judge(fleet, **{"internalAddress: 10.0.0.21": "internalAddress: 10.0.0.21, arch: amd64"})


async def test_the_hosts_record_survives_a_lost_work_directory(fleet: Fleet) -> None:
    shutil.rmtree(fleet.work_dir)
    with pytest.raises(ConfigError, match=r"spec.network.podCIDR"):
        await judge(fleet, "  network: {podCIDR: 10.50.0.0/16}")


async def test_the_hosts_record_counts_before_an_older_one_here(fleet: Fleet) -> None:
    changed = HA.format(more="  network: {podCIDR: 10.50.0.0/16}")
    (fleet.root / "cp1/state/applied.json").write_text(applied_text(Fleet(fleet.root, text=changed).context().cluster))
    await judge(fleet, "  network: {podCIDR: 10.50.0.0/16}")
    (fleet.root / "cp1/state/applied.json").unlink()
    with pytest.raises(ConfigError, match=r"spec.network.podCIDR"):
        await judge(fleet, "  network: {podCIDR: 10.50.0.0/16}")


async def test_what_was_not_brought_up_may_be_edited_at_will(fleet: Fleet) -> None:
    for host in ("cp1", "cp2", "cp3"):
        fleet.mark(host, roles=[])
    await judge(fleet, "  network: {podCIDR: 10.50.0.0/16}")


async def test_a_record_of_a_newer_layout_is_refused_with_both_numbers(fleet: Fleet) -> None:
    path = fleet.root / "cp1/state/applied.json"
    path.write_text(path.read_text().replace('"layout":1', '"layout":2'))
    with pytest.raises(FormatError, match=r"applied.json of prod has the layout 2, and this version of kubexm knows 1"):
        await judge(fleet)
    path.write_text(path.read_text().replace('"layout":2,', ""))
    await judge(fleet)  # from before there was a number


async def test_a_record_that_cannot_be_read_is_no_licence(fleet: Fleet) -> None:
    (fleet.root / "cp1/state/applied.json").write_text('{"spec": 7}')
    with pytest.raises(ConfigError, match="cannot be read"):
        await judge(fleet)


class _Control(Module):
    def plan(self, ctx: ModuleContext) -> ExecutionFragment:
        g = FragmentBuilder("control.plane")
        g.add("ready", CommandRun(command="true"), on=ctx.hosts("controlPlane")[:1], provides=API_READY)
        return g.build()


def test_it_is_recorded_on_all_control_planes_once_the_api_is_there(fleet: Fleet) -> None:
    ctx = fleet.context()
    graph = link(_Control, ClusterRecord).graph(ctx.pipeline_context(), name="x")
    assert graph.nodes["record.settings.hosts"].hosts == ("cp1", "cp2", "cp3")
    assert graph.nodes["record.settings.here"].after == ("control.plane.ready",)
    for node in ("here", "hosts"):
        step = graph.nodes[f"record.settings.{node}"].step
        assert decode(encode(step), type(step)) == step


async def test_recording_is_done_once(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    await bench.reach(SpecRecordedHere(text="{}\n"))
    await bench.reach(SpecRecorded(text="{}\n"))
    for path in (bench.context.work_dir.path / "applied.json", bench.root / "state" / "applied.json"):
        assert path.read_text() == "{}\n"
        assert path.stat().st_mode & 0o777 == 0o600
    await bench.reach(SpecRecorded(text='{"a":1}\n'))


def test_no_secret_is_recorded(fleet: Fleet) -> None:
    text = BEFORE.replace("spec:\n", "spec:\n  global: {user: ops, password: hunter22, privateKeyPath: ~/key}\n", 1)
    recorded = applied_text(Fleet(fleet.root, text=text).context().cluster)
    assert "hunter22" not in recorded
    assert "ops" not in recorded
