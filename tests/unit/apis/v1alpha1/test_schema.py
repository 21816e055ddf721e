from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kubexm.apis.v1alpha1 import Cluster, json_schema
from tests.unit.apis.v1alpha1.shapes import Shapes
from tests.unit.config.files import HA, MINIMAL, data

SCHEMA = json_schema()
SHAPES = Shapes(SCHEMA)
FULL = (Path(__file__).parents[4] / "examples" / "full.yaml").read_text()


def loader_accepts(value: Any) -> bool:
    try:
        Cluster.model_validate(value, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("text", [MINIMAL, HA, FULL], ids=["minimal", "ha", "full"])
def test_valid_files_are_accepted(text: str) -> None:
    assert SHAPES.accepts(data(text))


def test_the_dialect_is_named() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    json.dumps(SCHEMA)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [path] * bool(path) + [found for key, child in children for found in _paths(child, (*path, key))]


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    result = deepcopy(value)
    parent = result
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = new
    return result


FULL_DATA = data(FULL)
PATHS = _paths(FULL_DATA)
ANYTHING: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    70000,
    1.5,
    "",
    "x",
    "10s",
    "10.0.0.1",
    [],
    ["x"],
    [1],
    {},
    {"x": "y"},
]


@given(st.sampled_from(PATHS), st.sampled_from(ANYTHING))
@settings(max_examples=120, deadline=None)
def test_the_schema_never_refuses_what_the_loader_takes(path: tuple[Any, ...], new: Any) -> None:
    changed = _replaced(FULL_DATA, path, new)
    assert SHAPES.accepts(changed) or not loader_accepts(changed)


@given(st.sampled_from(PATHS), st.sampled_from([None, True, 5, 1.5, ["x"], {"x": "y"}]))
@settings(max_examples=120, deadline=None)
def test_the_schema_refuses_wrong_types_as_the_loader_does(path: tuple[Any, ...], new: Any) -> None:
    old = FULL_DATA
    for part in path:
        old = old[part]
    if isinstance(old, type(new)) or (isinstance(old, list) and isinstance(new, list)):
        return
    changed = _replaced(FULL_DATA, path, new)
    assert SHAPES.accepts(changed) == loader_accepts(changed)


@given(st.sampled_from([path for path in PATHS if isinstance(path[-1], str)]))
@settings(max_examples=120, deadline=None)
def test_the_schema_refuses_unknown_fields_as_the_loader_does(path: tuple[Any, ...]) -> None:
    changed = _replaced(FULL_DATA, (*path[:-1], "somethingElse"), "x")
    assert SHAPES.accepts(changed) == loader_accepts(changed)


def test_required_fields_are_the_same() -> None:
    for path in [("metadata",), ("metadata", "name"), ("spec",), ("spec", "hosts"), ("spec", "roleGroups")]:
        changed = data(HA)
        parent: Any = changed
        for part in path[:-1]:
            parent = parent[part]
        del parent[path[-1]]
        assert not SHAPES.accepts(changed)
        assert not loader_accepts(changed)


def test_defaults_are_written_as_in_the_file() -> None:
    properties = SCHEMA["$defs"]["Preflight"]["properties"]
    assert properties["minMemory"]["default"] == "1700Mi"
    assert SCHEMA["$defs"]["Global"]["properties"]["connectionTimeout"]["default"] == "10s"
    assert SCHEMA["$defs"]["Network"]["properties"]["podCIDR"]["default"] == "10.244.0.0/16"


def test_every_default_is_itself_accepted() -> None:
    for name, definition in SCHEMA["$defs"].items():
        for key, field in definition["properties"].items():
            if "default" in field:
                assert Shapes({**field, "$defs": SCHEMA["$defs"]}).accepts(field["default"]), f"{name}.{key}"
