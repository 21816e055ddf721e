"""Clusters on every operating system the lab has: what docs/systems.md calls tested."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubexm.lab import SYSTEMS, Lab
from tests.cluster.commands import assert_nothing_to_do, create, edit, kubexm, ready_nodes
from tests.cluster.conftest import MakeLab
from tests.cluster.host_snapshot import allowed_to_differ, take
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [PATIENT, BUNDLE]

MODES: dict[str, dict[str, Any]] = {
    "kubeadm": {},
    "stacked": {"etcd": {"type": "kubeadm"}},
    "binary": {"kubernetes": {"type": "kubexm"}},
}


def systemd(lab: Lab, host: str) -> int:
    """The version of the host's systemd."""
    found = re.match(r"systemd (\d+)", lab.run(host, "systemctl", "--version"))
    assert found is not None
    return int(found[1])


def assert_deleted(lab: Lab, before: dict[str, Any]) -> None:
    """Delete gives the hosts back as they were."""
    done = kubexm(lab.cluster_file, "delete", "cluster", "--yes")
    assert (done.exit_code, done.errors, done.warnings) == (0, {}, {}), done.stderr
    for name, host in before.items():
        found = host.differences(take(lab, name), allowed_to_differ())
        assert not found, (name, found)


def test_a_control_plane_on_debian_13_and_a_worker_on_debian_12(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+1", system="debian13", systems={"n2": "debian12"})
    assert [systemd(lab, host.name) for host in lab.hosts] == [257, 252]
    before = {host.name: take(lab, host.name) for host in lab.hosts}
    looked = kubexm(lab.cluster_file, "preflight")
    assert looked.exit_code == 0, looked.errors
    assert not [node for node, _ in looked.warnings if node == "preflight.system.os"], "both are tested systems"
    done = create(lab)
    assert ready_nodes(lab) == {"n1", "n2"}
    assert done.states["verify.probe.workloads", "cluster"] == "succeeded"
    assert_nothing_to_do(lab)

    # A new unit of somebody else's makes systemd 257 want all units read again: nothing of the cluster may restart.
    unit = "[Service]\\nExecStart=/bin/true\\n"
    for host in ("n1", "n2"):
        lab.run(host, "sh", "-c", f"printf '{unit}' >/etc/systemd/system/theirs.service")
    assert_nothing_to_do(lab)
    for host in ("n1", "n2"):
        lab.run(host, "sh", "-c", "rm /etc/systemd/system/theirs.service && systemctl daemon-reload")
    assert_deleted(lab, before)


@LONG
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_in_every_mode_with_an_edit_a_reboot_and_delete(
    fresh_lab: MakeLab, system: str, mode: str
) -> None:
    lab = fresh_lab(topology="1+1", system=system)
    edit(lab.cluster_file, **MODES[mode])
    before = {host.name: take(lab, host.name) for host in lab.hosts}
    create(lab)
    assert ready_nodes(lab) == {"n1", "n2"}

    edit(lab.cluster_file, kubernetes={**MODES[mode].get("kubernetes", {}), "kubelet": {"config": {"maxPods": 99}}})
    changed = create(lab).changed
    assert "kubelet.install.settings" in changed
    assert not changed & {"containerd.start.service", "etcd.keep.start", "haproxy.install.start"}
    assert_nothing_to_do(lab)
    assert_deleted(lab, before)

    # A boot changes a host too, so that the proof above comes first.
    create(lab)
    for host in ("n1", "n2"):
        lab.kill(host)
        lab.start(host)
    create(lab)
    assert ready_nodes(lab) == {"n1", "n2"}
    assert_nothing_to_do(lab)
    done = kubexm(lab.cluster_file, "delete", "cluster", "--yes")
    assert (done.exit_code, done.errors, done.warnings) == (0, {}, {}), done.stderr
