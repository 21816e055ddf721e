"""What agents recorded becomes the cost of a run, and says when it proves nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubexm.components.probes.observed import (
    Elections,
    changed_containers,
    elections_between,
    parse_containers,
    parse_elections,
)
from kubexm.components.probes.records import Cost, cost_of, parse_record, rows_of
from kubexm.errors import KubexmError


def stats(sent: int, misses: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    missed = misses or {}
    return {"sent": sent, "ok": sent - sum(missed.values()), "misses": missed, "started": 1.0, **more}


def series(name: str, target: str, **phases: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "target": target, "phases": phases}


def record(name: str, *found: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"format": 1, "name": name, "series": list(found), **more}


def cost(*records: dict[str, Any]) -> Cost:
    return cost_of(records, mark="m", level="full", started=1, ended=61, host="w1", targets={"balancer": "https://x"})


WRITES = {"acknowledged": 5, "verified": 5, "unverified": 0, "lost": [3]}


def test_misses_are_added_up_by_cause_and_gaps_are_not() -> None:
    pods = [
        record("w1", series("pod-udp", "w2", run=stats(100, {"lost": 2}, longest_gap=0.3))),
        record("w2", series("pod-udp", "w1", run=stats(100, {"lost": 1, "refused": 4}, longest_gap=0.7))),
    ]
    api = record("w1", series("api-new", "balancer", run=stats(600)), series("api-new", "endpoint", run=stats(600)))
    found = cost({**api, "writes": WRITES, "nodes": [{"name": "w2", "flaps": 1}]}, *pods)
    assert found.missed == 7
    assert found.writes == WRITES
    rows = {(row.name, row.target): row for row in rows_of(found.measured)}
    assert set(rows) == {("api-new", "balancer"), ("api-new", "endpoint"), ("pod-udp", "")}
    merged = rows["pod-udp", ""]
    assert (merged.sent, merged.misses, merged.longest_gap) == (200, {"lost": 3, "refused": 4}, 0.7)


def test_baselines_count_for_nobody() -> None:
    phases = {
        "idle": stats(50, {"late": 1}),
        "run": stats(600, {"reset": 2}),
        "ended": stats(9, {"eof": 9}),
        "setup": stats(3, {"refused": 3}),
    }
    found = cost(record("w1", series("api-kept", "balancer", **phases)))
    assert found.missed == 2
    assert {row.phase for row in found.measured} == {"idle", "run"}


def test_a_baseline_that_is_not_clean_proves_nothing() -> None:
    found = cost(record("w1", series("api-new", "balancer", busy=stats(100, {"late": 3}), run=stats(600, {"late": 9}))))
    assert found.doubts == ("3 of 100 requests failed in the busy baseline, when nothing was done",)
    slow = cost(record("w1", series("api-new", "balancer", idle=stats(100, longest_gap=1.4), run=stats(600))))
    assert slow.doubts == ("api-new: no answer for 1.4 s in the idle baseline",)


def test_a_prober_that_was_late_itself_proves_nothing() -> None:
    late = series("api-new", "balancer", run=stats(100, ticks_late=2, tick_worst_ms=300.0))
    assert "the prober itself was late: 2 of 100" in cost(record("w1", late)).doubts[0]
    on_time = series("api-new", "balancer", run=stats(1000, ticks_late=2, tick_worst_ms=300.0))
    assert cost(record("w1", on_time)).doubts == ()
    stalled = series("api-new", "balancer", run=stats(1000, ticks_late=1, tick_worst_ms=2500.0))
    assert cost(record("w1", stalled)).doubts != ()


def test_a_cost_survives_json() -> None:
    found = cost(
        record("w1", series("api-new", "balancer", run=stats(10, {"eof": 1}, recent=[])), writes=WRITES, watch={})
    )
    assert Cost.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert found.to_dict()["missed"] == 1
    assert found.to_dict()["measured"][0]["missed"] == 1


def test_a_record_of_another_format_is_refused() -> None:
    assert parse_record('{"format": 1, "series": []}', host="w1")["series"] == []
    with pytest.raises(KubexmError, match="w1: the probe's record has format 7"):
        parse_record('{"format": 7}', host="w1")
    with pytest.raises(KubexmError, match="damaged"):
        parse_record('{"format": 1, "ser', host="w1")


def test_containers_are_compared_by_id_and_start_in_pods_that_stayed() -> None:
    before = parse_containers(
        "u1\tdefault/web\tweb=c://1@10:00 side=c://2@10:00 \n"
        "u2\tdefault/gone\tweb=c://3@10:00 \n"
        "u3\tkubexm-probe-abc/agent-x\tagent=c://4@10:00 \n"
        "u5\tdefault/waiting\t\n",
        without=("kubexm-probe",),
    )
    after = parse_containers("u1\tdefault/web\tweb=c://1@10:00 side=c://9@10:05 \nu4\tdefault/new\tweb=c://5@10:07 \n")
    found = changed_containers(before, after)
    assert found["before"] == 3
    assert found["restarted"] == ["default/web/side"]
    assert found["gone"] == ["default/gone", "default/waiting"]
    assert found["new"] == ["default/new"]


def test_leader_changes_are_those_of_the_member_that_saw_most() -> None:
    before = {"m1": Elections(3, 100.0), "m2": Elections(3, 100.0), "m3": Elections(1, 100.0)}
    after = {"m1": Elections(4, 100.0), "m2": Elections(1, 200.0), "m3": Elections(2, 100.0)}
    assert elections_between(before, after) == 1
    assert elections_between(before, {"m2": Elections(3, 200.0)}) == 2
    assert elections_between({}, after) is None
    assert parse_elections("changes 2\nstarted 1.7e+09\n") == Elections(2.0, 1.7e9)
    assert parse_elections("") is None
