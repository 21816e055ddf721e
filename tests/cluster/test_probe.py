"""Probes on a real cluster: what is measured when an API server stops, what an edit costs, and what is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import create, edit, killed, kubectl, kubexm, start_kubexm
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [LONG, PATIENT, BUNDLE]


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Two control planes would have no quorum with one stopped: three, and a worker with a balancer."""
    made = make_lab(topology="3+1")
    create(made)
    return made


def on(lab: Lab, host: str, script: str) -> str:
    return lab.run(host, "sh", stdin=script)


def assert_nothing_left(lab: Lab) -> None:
    for host in names(lab):
        left = on(lab, host, "ls -d /var/lib/kubexm/probes /usr/local/bin/kubexm-probe-* 2>/dev/null || :")
        assert left == "", host
        assert "kubexm-probe" not in on(lab, host, "systemctl list-units --all --plain --no-legend 'kubexm-probe*'")
    until = time.monotonic() + 90
    words = ("get", "namespaces,clusterroles,clusterrolebindings", "-l", "kubexm.io/probe", "-o", "name")
    while left := kubectl(lab, *words):
        assert time.monotonic() < until, left
        time.sleep(1)


def assert_measuring(lab: Lab) -> None:
    until = time.monotonic() + 90
    while "record.json" not in on(lab, "n4", "ls /var/lib/kubexm/probes/*/api 2>/dev/null || :"):
        assert time.monotonic() < until
        time.sleep(0.5)


def names(lab: Lab) -> list[str]:
    return [host.name for host in lab.hosts]


def rows(cost: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["name"], row["target"]): row for row in cost["measured"] if row["phase"] == "run"}


def test_a_stopped_api_server_shows_with_its_cause_through_the_endpoint_only(lab: Lab) -> None:
    first = names(lab)[0]
    moved = "/etc/kubernetes/manifests/kube-apiserver.yaml"
    stopped = f"if [ -e {moved} ]; then mv {moved} /tmp/; else systemctl stop kube-apiserver; fi"
    back = f"if [ -e /tmp/kube-apiserver.yaml ]; then mv /tmp/kube-apiserver.yaml {moved}; fi; systemctl start kubelet"

    def interrupt() -> None:
        on(lab, first, stopped)
        time.sleep(15)
        on(lab, first, f"{back}; systemctl cat kube-apiserver >/dev/null 2>&1 && systemctl start kube-apiserver || :")

    faults = threading.Timer(40, interrupt)
    faults.start()
    try:
        outcome = kubexm(lab.cluster_file, "probe", "--duration", "90")
    finally:
        faults.join()
    assert outcome.exit_code == 0
    cost = outcome.result["cost"]
    found = rows(cost)
    endpoint = found["api-new", "endpoint"]
    assert endpoint["misses"].get("refused", 0) >= 10, endpoint
    assert endpoint["longest_gap"] > 5
    assert set(found) >= {("api-new", "balancer"), ("api-kept", "balancer"), ("api-write", "balancer")}
    assert {name for name, _ in found} == {
        *("api-new", "api-kept", "api-write", "pod-start", "pod-udp", "pod-tcp", "service", "dns")
    }
    assert len([name for name, _ in found if name == "pod-udp"]) >= 3
    assert found["api-new", "balancer"]["ok"] > 100
    assert cost["writes"]["lost"] == []
    assert cost["watch"]["missed"] == []
    assert len(cost["nodes"]) == len(lab.hosts)
    assert cost["leader_changes"] is not None
    assert_nothing_left(lab)


def test_what_a_killed_measurement_left_is_removed_by_the_next(lab: Lab) -> None:
    process = start_kubexm(lab.cluster_file, "probe", "--duration", "120", "--probes", "api")
    assert_measuring(lab)
    killed(process)
    assert kubectl(lab, "get", "namespaces", "-l", "kubexm.io/probe", "-o", "name")
    for host in names(lab):  # as two minutes later
        on(lab, host, "touch -d '-300 seconds' /var/lib/kubexm/probes/*/*/heartbeat 2>/dev/null || :")
    assert kubexm(lab.cluster_file, "probe", "--duration", "5", "--probes", "api").exit_code == 0
    assert_nothing_left(lab)


def test_an_edit_says_what_it_cost_and_a_second_create_measures_nothing(lab: Lab) -> None:
    edit(lab.cluster_file, kubernetes={"apiServer": {"extraArgs": {"profiling": "false"}}})
    outcome = create(lab, "--probes", "api")
    cost = outcome.result["cost"]
    assert cost["level"] == "api"
    assert cost["problems"] == []
    assert rows(cost)["api-kept", "balancer"]["sent"] > 0
    assert cost["writes"]["lost"] == []
    assert "cost" not in create(lab, "--probes", "api").result
    assert_nothing_left(lab)
