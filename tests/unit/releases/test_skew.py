"""Skew rules: what the Kubernetes version skew policy and etcd's upgrade rules allow, and what they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm import releases
from kubexm.releases.skew import Skew, cluster_skew, etcd_step, kubernetes_step, may_run_with

MINORS = st.integers(20, 60)


@pytest.mark.parametrize(
    ("program", "version", "servers", "reason"),
    [
        ("kubelet", "v1.34.4", ["v1.34.0"], ""),
        ("kubelet", "v1.31.0", ["v1.34.4", "v1.34.4"], ""),
        ("kubelet", "v1.30.14", ["v1.34.4"], "more than 3 minors behind"),
        ("kubelet", "v1.31.0", ["v1.34.4", "v1.35.1"], "more than 3 minors behind an API server (v1.35.1)"),
        ("kubelet", "v1.35.0", ["v1.34.4", "v1.35.0"], "newer than an API server (v1.34.4)"),
        ("kube-proxy", "v1.32.0", ["v1.35.0"], ""),
        ("kube-proxy", "v1.36.0", ["v1.35.0"], "newer than an API server"),
        ("kube-controller-manager", "v1.33.1", ["v1.34.4"], ""),
        ("kube-scheduler", "v1.32.1", ["v1.34.4"], "more than one minor behind"),
        ("kube-scheduler", "v1.35.0", ["v1.34.4", "v1.35.0"], "newer than an API server"),
        ("kube-apiserver", "v1.35.0", ["v1.34.4", "v1.35.0"], ""),
        ("kube-apiserver", "v1.36.0", ["v1.34.4", "v1.36.0"], "one minor apart"),
        ("etcd", "v3.6.5", ["v1.34.4"], ""),
        ("kubelet", "v1.20.0", [], ""),
    ],
)
def test_what_may_run_with_which_api_servers(program: str, version: str, servers: list[str], reason: str) -> None:
    found = may_run_with(program, version, servers)
    assert reason in found
    assert bool(found) == bool(reason)


@given(MINORS, st.integers(0, 6))
def test_a_kubelet_may_lag_three_minors_and_never_lead(minor: int, behind: int) -> None:
    allowed = not may_run_with("kubelet", f"v1.{minor - behind}.0", [f"v1.{minor}.3"])
    assert allowed == (behind <= 3)
    if behind:
        assert may_run_with("kubelet", f"v1.{minor}.0", [f"v1.{minor - behind}.9"])


def test_patches_do_not_count() -> None:
    assert may_run_with("kubelet", "v1.34.9", ["v1.34.0"]) == ""


def test_a_cluster_names_each_offender_once() -> None:
    running = [
        ("cp1", "kube-apiserver", "v1.35.0"),
        ("cp2", "kube-apiserver", "v1.34.4"),
        ("cp1", "kubelet", "v1.35.0"),
        ("w1", "kubelet", "v1.31.0"),
        ("w2", "kubelet", "v1.34.4"),
        ("w3", "kubelet", ""),
        ("w1", "containerd", "v2.1.9"),
    ]
    found = cluster_skew(running)
    assert [(one.host, one.program) for one in found] == [("cp1", "kubelet"), ("w1", "kubelet")]
    assert isinstance(found[0], Skew)
    assert found[0].version == "v1.35.0"
    assert cluster_skew([("w1", "kubelet", "v1.31.0")]) == ()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("v1.33.13", "v1.34.4", ""),
        ("v1.34.2", "v1.34.4", ""),
        ("v1.33.13", "v1.35.8", "one minor at a time"),
        ("v1.34.4", "v1.34.2", "cannot be downgraded"),
        ("v1.34.4", "v1.33.13", "cannot be downgraded"),
    ],
)
def test_control_planes_go_one_minor_at_a_time(old: str, new: str, reason: str) -> None:
    found = kubernetes_step(old, new)
    assert reason in found
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("v3.5.21", "v3.5.33", ""),
        ("v3.5.21", "v3.6.14", "must run v3.5.32 or later before v3.6.14"),
        ("v3.5.33", "v3.6.14", ""),
        ("v3.6.5", "v3.7.0", "must run v3.6.11 or later"),
        ("v3.6.14", "v3.7.0", ""),
        ("v3.5.33", "v3.7.0", "one minor at a time"),
        ("v3.6.5", "v3.5.33", "is older than"),
        ("v3.6.5", "v3.6.4", "is older than"),
    ],
)
def test_etcd_goes_one_minor_at_a_time_from_a_late_enough_patch(old: str, new: str, reason: str) -> None:
    found = etcd_step(old, new, releases.etcd(new).upgrade_from)
    assert reason in found
    assert bool(found) == bool(reason)
