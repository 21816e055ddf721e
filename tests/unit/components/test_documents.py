"""YAML as Kubernetes reads it: what is written is read back the same, by YAML 1.1 and 1.2."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from kubexm.components.documents import merged, yaml_stream, yaml_text

TEXT = st.text(max_size=30) | st.sampled_from(
    ["no", "1_0", "0x1", "1e3", "~", "- a", "a: b", "a\nb\n", "a\n\nb", "a\n\n", "#"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)


def read(text: str, version: str = "1.2") -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    return yaml.load(text)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_what_is_written_is_read_back_the_same(document: dict[str, Any]) -> None:
    assert read(yaml_text(document)) == document


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "Yes",
        "on",
        "null",
        "~",
        "0o7",
        "017",
        "1:30",
        "1_000",
        ".5",
        "",
        " a",
        "a ",
        "2026-01-01",
        "a:",
        "@x",
        "*",
        "a #b",
    ],
)
def test_text_stays_text_where_yaml_1_1_would_take_it_for_something_else(text: str) -> None:
    document = {"key": text, "list": [text]}
    assert read(yaml_text(document), "1.1") == document


def test_a_document_reads_well() -> None:
    document = {
        "kind": "ConfigMap",
        "data": {"file": "one\n  two\n"},
        "list": [{"a": 1, "b": [True]}, "x"],
        "no": {},
        "v": [],
    }
    assert yaml_text(document) == (
        'kind: ConfigMap\ndata:\n  file: |\n    one\n      two\nlist:\n- a: 1\n  b:\n  - true\n- x\n"no": {}\nv: []\n'
    )


def test_several_documents() -> None:
    assert yaml_stream([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"


def test_settings_laid_over_others_go_deep_and_null_removes() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 4, "e": 5}
    assert merged(base, {"a": {"c": [3]}, "d": None, "f": {"g": None, "h": 1}}) == {
        "a": {"b": 1, "c": [3]},
        "e": 5,
        "f": {"h": 1},
    }
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 4, "e": 5}
