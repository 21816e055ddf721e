"""What a run cost, as the command line shows it."""

from __future__ import annotations

from typing import Any

from kubexm.cli.display.cost import cost_lines
from kubexm.components.probes.records import Cost, Measured


def shown(**more: Any) -> list[str]:
    data: dict[str, Any] = {"id": "m", "level": "full", "started": 1.0, "ended": 2.0, "host": "w1", **more}
    return cost_lines(Cost(**data).to_dict())


def measured(**more: Any) -> Measured:
    return Measured(**{"name": "api-new", "target": "balancer", "source": "w1", "phase": "run", **more})


def test_misses_stand_beside_their_causes() -> None:
    row = measured(sent=1200, ok=1195, misses={"refused": 3, "401": 2}, longest_gap=0.44, p50_ms=5, p99_ms=20, slow=1)
    text = "\n".join(shown(measured=(row,)))
    assert "measured from w1" in text
    assert "API, new connections, balancer" in text
    assert "2 401, 3 refused" in text
    assert "0.44 s" in text
    assert "1,200" in text


def test_what_was_lost_restarted_and_elected_is_said() -> None:
    text = "\n".join(
        shown(
            measured=(measured(sent=1, ok=1),),
            writes={"acknowledged": 300, "verified": 299, "unverified": 1, "lost": [7]},
            watch={"events": 300, "missed": [], "reconnects": 2, "causes": {"ended": 2}},
            nodes=({"name": "w2", "flaps": 2, "not_ready_seconds": 12.0}, {"name": "w3", "flaps": 0}),
            containers={"before": 9, "restarted": ["kube-system/x/y"], "gone": [], "new": []},
            leader_changes=1,
        )
    )
    assert "writes: 300 acknowledged, 1 lost, 1 could not be read back" in text
    assert "watch: 300 events, 0 missed, 2 reconnects (2 ended)" in text
    assert "nodes that were not Ready: w2 2x, 12 s" in text
    assert "containers restarted: 1 (kube-system/x/y)" in text
    assert "leader changes of etcd: 1" in text


def test_a_measurement_that_proves_nothing_says_so() -> None:
    text = "\n".join(shown(measured=(measured(sent=1, ok=1),), doubts=("the prober itself was late",)))
    assert "too busy to judge: the prober itself was late" in text


def test_a_measurement_that_failed_says_why() -> None:
    assert shown(problems=("no bundle holds it",)) == [
        "",
        "What it cost the cluster's users was not measured: no bundle holds it",
    ]
