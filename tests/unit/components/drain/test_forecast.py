"""What a drain would do with the pods of a batch of nodes, and who would stop it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubexm.components.drain.budgets import budget_of, budgets_for, grouped
from kubexm.components.drain.forecast import Forecast, forecast
from kubexm.components.drain.pods import PodKind, pod_of
from kubexm.components.drain.selectors import accepts, matches_labels
from tests.unit.components.drain.objects import Document, budget, node, pod

NODES = (node("w1"), node("w2"), node("w3"))
ANYTHING = [{"operator": "Exists"}]


def seen(
    pods: list[Document], budgets: tuple[Document, ...] = (), *, batch: tuple[str, ...] = ("w1",), **more: Any
) -> Forecast:
    nodes = more.pop("nodes", NODES)
    return forecast(batch, map(pod_of, pods), [*map(budget_of, budgets)], nodes, **more)


def names(pods: tuple[Any, ...]) -> list[str]:
    return [one.name for one in pods]


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (pod("a"), PodKind.EVICTABLE),
        (pod("a", owner="StatefulSet/db"), PodKind.EVICTABLE),
        (pod("a", owner="DaemonSet/net"), PodKind.DAEMON_SET),
        (pod("a", owner="DaemonSet/net", terminating=True), PodKind.DAEMON_SET),
        (pod("a", owner="Node/w1", annotations={"kubernetes.io/config.mirror": "x"}), PodKind.MIRROR),
        (pod("a", owner=""), PodKind.UNMANAGED),
        (pod("a", owner="", phase="Succeeded"), PodKind.FINISHED),
        (pod("a", owner="Job/j", phase="Failed"), PodKind.FINISHED),
        (pod("a", terminating=True), PodKind.TERMINATING),
        (pod("a", tolerations=ANYTHING), PodKind.TOLERATES),
        (pod("a", tolerations=[{"key": "gpu", "operator": "Exists"}]), PodKind.EVICTABLE),
    ],
)
def test_a_pod_is_what_its_owner_and_state_make_it(document: Document, kind: PodKind) -> None:
    assert pod_of(document).kind is kind


def test_a_pod_names_the_deployment_behind_its_replica_set() -> None:
    assert str(pod_of(pod("web-5d-x"))) == "pod default/web-5d-x (Deployment web)"
    assert pod_of(pod("db-0", owner="StatefulSet/db")).owner == "StatefulSet db"
    assert pod_of(pod("a", owner="ReplicaSet/bare", labels={"pod-template-hash": ""})).owner == "ReplicaSet bare"


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
    ],
)
def test_label_selectors_choose_as_kubernetes_does(selector: Document | None, chosen: bool) -> None:
    assert matches_labels(selector, {"app": "web"}) is chosen


def test_a_budget_of_another_namespace_is_not_for_a_pod() -> None:
    web = budget_of(budget())
    assert budgets_for(pod_of(pod("a")), [web]) == (web,)
    assert budgets_for(pod_of(pod("a", namespace="other")), [web]) == ()
    groups = grouped([pod_of(pod("a")), pod_of(pod("b", labels={"app": "db"}))], [web])
    assert {key: names(tuple(pods)) for key, pods in groups.items()} == {(web,): ["a"], (): ["b"]}


def test_only_pods_with_a_controller_are_evicted() -> None:
    found = seen(
        [
            pod("web"),
            pod("net", owner="DaemonSet/net"),
            pod("static", annotations={"kubernetes.io/config.mirror": "x"}),
            pod("done", phase="Succeeded"),
            pod("going", terminating=True),
            pod("lone", owner=""),
            pod("elsewhere", "w2"),
        ]
    )
    assert names(found.evicted) == ["web"]
    assert names(found.left) == ["done", "net", "static"]
    assert names(found.awaited) == ["going"]
    assert [str(one) for one in found.blockers] == [
        "pod default/lone: nothing would create it again: delete it, or give it a controller"
    ]


def test_an_unmanaged_pod_goes_only_if_it_is_named() -> None:
    found = seen([pod("lone", owner=""), pod("other", owner="")], force=["default/lone"])
    assert names(found.evicted) == ["lone"]
    assert [one.pod.name for one in found.blockers] == ["other"]


def test_data_of_empty_dirs_is_announced() -> None:
    found = seen([pod("cache", volumes=[{"name": "tmp", "emptyDir": {}}, {"name": "cfg", "configMap": {}}])])
    assert found.lines() == ["evicts pod default/cache (Deployment web), which loses emptyDir tmp"]


def test_an_exhausted_budget_is_named_with_pod_and_owner() -> None:
    found = seen([pod("web-5d-a")], (budget(allowed=0, healthy=2, desired=2, expected=3),))
    assert found.lines()[0].startswith("blocked: pod default/web-5d-a (Deployment web): ")
    assert found.blockers[0].reason == (
        "PodDisruptionBudget default/web allows no eviction: 2 of 3 pods are healthy, and it wants at least 2"
    )
    assert not found.blockers[0].lasting


def test_a_budget_that_never_allows_anything_is_told_from_one_that_waits() -> None:
    found = seen([pod("a")], (budget(allowed=0, healthy=3, desired=3, expected=3),))
    assert found.blockers[0].lasting
    assert "it wants 3 of 3 pods healthy at all times" in found.blockers[0].reason


def test_pods_of_a_batch_share_their_budget() -> None:
    pods = [pod("a", "w1"), pod("b", "w2")]
    alone, together = seen(pods, (budget(),)), seen(pods, (budget(),), batch=("w1", "w2"))
    assert alone.rounds == ()
    assert [str(one) for one in together.rounds] == ["PodDisruptionBudget default/web: 2 pods, 1 at a time"]
    assert names(together.on("w2").evicted) == ["b"]


def test_two_budgets_on_a_pod_block_it_for_good() -> None:
    found = seen([pod("a")], (budget("web"), budget("all", selector={})))
    assert found.blockers[0].lasting
    assert "PodDisruptionBudget default/web and PodDisruptionBudget default/all are both" in found.blockers[0].reason


@pytest.mark.parametrize(
    ("policy", "healthy", "blocked"),
    [("IfHealthyBudget", 2, False), ("IfHealthyBudget", 1, True), ("AlwaysAllow", 1, False)],
)
def test_a_pod_that_is_not_ready_goes_by_the_policy_of_its_budget(policy: str, healthy: int, blocked: bool) -> None:
    made = budget(allowed=0, healthy=healthy, desired=2, expected=3, unhealthyPodEvictionPolicy=policy)
    assert bool(seen([pod("a", ready=False)], (made,)).blockers) is blocked


def test_a_pod_that_never_started_needs_no_budget() -> None:
    assert not seen([pod("a", ready=False, phase="Pending")], (budget(allowed=0, healthy=1),)).blockers


def test_pods_that_have_nowhere_to_go_stay_and_nothing_is_drained() -> None:
    pods = [pod("a"), pod("lone", owner="")]
    for nodes in ([node("w1")], [node("w1"), node("w2", ready=False)], [node("w1"), node("w2", cordoned=True)]):
        found = seen(pods, nodes=nodes)
        assert found.nowhere
        assert names(found.staying) == ["a", "lone"]
        assert not found.evicted
        assert not found.blockers
        assert "nowhere to go" in found.lines()[0]


def test_a_pod_that_no_other_node_takes_stays() -> None:
    disk = node("w1", labels={"disk": "ssd"})
    found = seen([pod("a", nodeSelector={"disk": "ssd"}), pod("b")], nodes=[disk, node("w2")])
    assert names(found.staying) == ["a"]
    assert names(found.evicted) == ["b"]


def affinity(*terms: Document) -> Document:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"nodeAffinity": required}


def test_taints_and_affinity_decide_which_node_takes_a_pod() -> None:
    tainted = node("w2", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    assert not accepts(tainted, pod("a"))
    assert accepts(tainted, pod("a", tolerations=[{"key": "gpu", "value": "yes"}]))
    assert not accepts(tainted, pod("a", tolerations=[{"key": "gpu", "value": "no"}]))
    assert accepts(node("w2", taints=[{"key": "gpu", "effect": "PreferNoSchedule"}]), pod("a"))
    big = node("w2", labels={"cores": "8"})
    more = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}
    mine = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w2"]}]}
    assert accepts(big, pod("a", affinity=affinity(more)))
    assert not accepts(node("w3"), pod("a", affinity=affinity(more)))
    assert accepts(node("w2"), pod("a", affinity=affinity(more, mine)))
    assert not accepts(node("w2"), pod("a", affinity=affinity({})))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["w1", "w2", "w3"]), st.booleans()), max_size=8),
    st.integers(0, 3),
    st.sets(st.sampled_from(["w1", "w2"]), min_size=1),
)
def test_every_pod_of_a_batch_has_exactly_one_fate(
    placed: list[tuple[str, bool]], allowed: int, batch: set[str]
) -> None:
    pods = [
        pod(f"p{number}", place, owner="ReplicaSet/web-5d" if managed else "")
        for number, (place, managed) in enumerate(placed)
    ]
    found = seen(pods, (budget(allowed=allowed),), batch=tuple(sorted(batch)))
    told = [*names(found.evicted), *names(found.staying), *(one.pod.name for one in found.blockers)]
    assert Counter(told) == Counter(one["metadata"]["name"] for one in pods if one["spec"]["nodeName"] in batch)
    managed_here = [one for one in pods if one["spec"]["nodeName"] in batch and one["metadata"].get("ownerReferences")]
    assert bool(found.rounds) is (0 < allowed < len(managed_here))
    parts = [found.on(name) for name in batch]
    assert sum(len(part.evicted) for part in parts) == len(found.evicted)
