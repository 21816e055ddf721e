"""Which operation of a cluster is under way, as its hosts record it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.errors import ConflictError, FormatError
from kubexm.runner import ClusterMarker, Facts, Intent
from kubexm.runner.facts.parse import parse_intent, parse_marker
from kubexm.runtime import Context
from kubexm.runtime.operation import refuse_newer_layout, refuse_other_operation
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

OPEN = Intent(operation="upgrade", start="v1.34.4", goal="v1.35.8", run="r1", token=5)


def context(directory: Path, *records: Intent | None, layout: int = 1) -> Context:
    names = [f"n{number}" for number, _ in enumerate(records, 1)]
    marker = ClusterMarker(uid="u", name="test", layout=layout)
    facts = {
        name: replace(Facts.assumed(), intent=record, marker=marker)
        for name, record in zip(names, records, strict=True)
    }
    return memory_context(directory, {name: MemoryConnector(name) for name in names}, facts=facts)


def test_the_newest_record_counts(tmp_path: Path) -> None:
    closed = replace(OPEN, token=6, open=False)
    assert context(tmp_path, None, OPEN).open_intent == OPEN
    assert context(tmp_path, closed, OPEN).open_intent is None
    assert context(tmp_path, replace(closed, token=4), OPEN).open_intent == OPEN
    assert context(tmp_path, None, None).open_intent is None


def test_another_operation_is_refused_and_the_same_goes_on(tmp_path: Path) -> None:
    ctx = context(tmp_path, OPEN, None)
    refuse_other_operation(ctx, "upgrade")
    for other in ("", "remove"):
        with pytest.raises(ConflictError, match=r"the operation upgrade \(v1.34.4 → v1.35.8\) of test is not finished"):
            refuse_other_operation(ctx, other)
    back = context(tmp_path, replace(OPEN, direction="back"), None)
    with pytest.raises(ConflictError, match="being undone, of test is not finished"):
        refuse_other_operation(back, "")


def test_planning_that_looks_at_it_is_guarded_by_it(tmp_path: Path) -> None:
    ctx = context(tmp_path, OPEN, None)
    assert ctx.pipeline_context().intent == OPEN
    reads = {(read.host, str(read)): read.value for read in ctx.facts_trace.reads()}
    assert reads[("n1", "intent.token")] == 5
    other = replace(Facts.assumed(), intent=replace(OPEN, token=6, open=False))
    assert any(read.again(other) != read.value for read in ctx.facts_trace.reads() if read.host == "n1")


def test_a_record_survives_json_and_a_damaged_one_is_no_licence(tmp_path: Path) -> None:
    import json

    assert parse_intent(json.dumps(OPEN.to_json())) == OPEN
    assert parse_intent("") is None
    broken = parse_intent('{"operation": "upgrade"')
    assert broken is not None
    with pytest.raises(ConflictError, match=r"n2: /var/lib/kubexm/intent.json cannot be read"):
        refuse_other_operation(context(tmp_path, None, broken), "upgrade")


def test_records_of_a_newer_kubexm_are_refused(tmp_path: Path) -> None:
    refuse_newer_layout(context(tmp_path, OPEN, None, layout=0))
    for ctx in (context(tmp_path, None, None, layout=2), context(tmp_path, replace(OPEN, layout=2), None)):
        with pytest.raises(FormatError, match="n1: a newer kubexm has been here: its records have the layout 2"):
            refuse_newer_layout(ctx)
    marker = parse_marker('{"uid": "u", "name": "n", "layout": 3}')
    assert marker is not None
    assert marker.layout == 3
