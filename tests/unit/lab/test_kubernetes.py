"""Which Kubernetes a lab runs, and the reason it gives."""

from __future__ import annotations

import pytest

from kubexm import releases
from kubexm.lab.bundle import default_kubernetes
from kubexm.lab.kubernetes import Choice, choose

USUAL = releases.default_kubernetes()
CGROUP = "this machine uses cgroup v1, which Kubernetes 1.35 and later refuse by default"


def test_the_default_where_the_machine_can_run_it() -> None:
    assert choose(cgroup_v1=False) == Choice(version=USUAL)
    assert choose(["v1.33.13", USUAL, "v1.34.4"], cgroup_v1=False) == Choice(version=USUAL)
    assert default_kubernetes(cgroup_v1=False).version == USUAL


def test_what_cgroup_v1_can_run_and_why() -> None:
    newest = releases.kubernetes_data("1.34")["newest"]
    assert choose(cgroup_v1=True) == Choice(version=newest, reason=CGROUP)
    assert choose(["v1.33.13", USUAL, "v1.34.4"], cgroup_v1=True) == Choice(version="v1.34.4", reason=CGROUP)
    assert default_kubernetes(cgroup_v1=True) == Choice(version="v1.34.4", reason=CGROUP)


@pytest.mark.parametrize("cgroup_v1", [True, False])
def test_what_the_bundle_has(cgroup_v1: bool) -> None:
    reason = f"the default, {USUAL}, is not available"
    assert choose(["v1.33.13", "v1.34.4"], cgroup_v1=cgroup_v1) == Choice(version="v1.34.4", reason=reason)
    only = choose(["v1.37.0"], cgroup_v1=cgroup_v1)
    assert only == Choice(version="v1.37.0", reason=reason), "nothing else is there, and the lab's file lets it start"
