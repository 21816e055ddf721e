"""What a run is asked to do: one shape, which another version refuses instead of misreading."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubexm.errors import FormatError
from kubexm.plan import RunSpec

WHOLE = RunSpec(
    "remove",
    {"hosts": ("w1", "w2"), "force": True},
    only=("etcd", "pki.*"),
    skip=("verify",),
    dry_run=True,
    rollback=True,
    parallel=7,
    ignore_errors=True,
    accept_new_host_keys=True,
)


@pytest.mark.parametrize("spec", [WHOLE, RunSpec("create"), RunSpec("verify", {"probe": False})])
def test_it_survives_json(spec: RunSpec) -> None:
    data = json.loads(json.dumps(spec.to_json()))
    found = RunSpec.from_json(data)
    assert found.to_json() == spec.to_json()
    assert (found.only, found.skip, found.parallel) == (spec.only, spec.skip, spec.parallel)


def test_what_has_its_default_is_not_written() -> None:
    assert RunSpec("create").to_json() == {"format": 1, "pipeline": "create"}


def test_names_that_are_no_fields_are_options_of_the_pipeline() -> None:
    spec = RunSpec.of("delete", keep_data=True, dry_run=True, only=["etcd"])
    assert spec == RunSpec("delete", {"keep_data": True}, dry_run=True, only=("etcd",))


def test_a_plan_keeps_what_is_run_and_takes_how() -> None:
    planned = RunSpec("create", {"probes": "api"}, only=("etcd",), rollback=True)
    applied = planned.in_the_manner_of(RunSpec("create", dry_run=True, parallel=3, skip=("pki",)))
    assert applied == RunSpec("create", {"probes": "api"}, only=("etcd",), dry_run=True, parallel=3)


@pytest.mark.parametrize("data", [{}, None, [], {"pipeline": "create"}, {"format": 2, "pipeline": "create"}])
def test_another_format_is_refused_with_both_numbers(data: Any) -> None:
    with pytest.raises(FormatError, match=r"format (none|2), and this version of kubexm reads format 1") as caught:
        RunSpec.from_json(data)
    assert "use the version of kubexm that wrote it" in caught.value.hint


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"hold": True}, "hold"),
        ({"only": "etcd"}, "only"),
        ({"dry_run": 1}, "dry_run"),
        ({"parallel": "4"}, "parallel"),
        ({"options": []}, "options"),
    ],
)
def test_what_does_not_fit_is_damage(more: dict[str, Any], named: str) -> None:
    with pytest.raises(FormatError, match=f"damaged: {named}"):
        RunSpec.from_json({"format": 1, "pipeline": "create", **more})
    with pytest.raises(FormatError, match="names no pipeline"):
        RunSpec.from_json({"format": 1})
