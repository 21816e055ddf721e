"""Plans as JSON: the same plan back, the same bytes each time, nothing secret inside, nothing foreign let in."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.cache import Key, Scope
from kubexm.errors import GraphError
from kubexm.plan import Budget, ExecutionGraph, FailureMode, FailurePolicy, Milestone, Retry
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret, SecretRef
from tests.unit.plan.paper import Paper, fragment, fragments, node


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Inner:
    name: str = "x"
    parts: tuple[int, ...] = ()
    table: dict[str, int] = field(default_factory=dict)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    plain
    | st.sampled_from([Colour.RED, Scope.TASK, FailureMode.ISOLATE])
    | st.text(alphabet="abc/.").map(PurePosixPath)
    | st.builds(
        Inner, name=st.text(), parts=st.lists(st.integers()).map(tuple), table=st.dictionaries(st.text(), st.integers())
    ),
    lambda inner: (
        st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.frozensets(st.text() | st.integers())
        | st.builds(Paper, note=inner)
    ),
    max_leaves=8,
)


@given(value=values)
def test_values_come_back_equal(value: Any) -> None:
    data = json.loads(json.dumps(encode(value)))
    assert decode(data, object) == value
    assert encode(decode(data, object)) == encode(value)


@given(part=fragments(most=5), value=values)
def test_a_graph_comes_back_equal_and_byte_for_byte(part: Any, value: Any) -> None:
    calm = fragment(
        *(node(n.id, "".join(n.hosts), after=n.after, after_same_host=n.after_same_host) for n in part.nodes)
    )
    noted = node("last", "ab", Paper(note=value, makes=(Key("k", secret=True),)), retry=Retry(times=3), timeout=9.5)
    policy = FailurePolicy(FailureMode.FAIL_FAST, (Budget("worker", ("a", "b"), 1),))
    graph = ExecutionGraph.build("g", calm + fragment(noted), policy=policy)
    back = ExecutionGraph.from_dict(json.loads(graph.to_json()))
    assert back == graph
    assert back.to_json() == graph.to_json()
    assert back.digest == graph.digest


def test_the_bytes_do_not_depend_on_the_order_of_sets_and_mappings() -> None:
    one = encode(Paper(note=(frozenset({"a", "b", "c"}), {"x": 1, "y": 2})))
    two = encode(Paper(note=(frozenset({"c", "a", "b"}), {"y": 2, "x": 1})))
    assert json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)


def test_defaults_are_left_out_so_that_people_can_read_it() -> None:
    assert encode(Milestone("Ready")) == {"$": "kubexm.plan.node:Milestone", "name": "Ready"}
    assert encode(Milestone("Ready", per_host=True))["per_host"] is True


@pytest.mark.parametrize("hidden", [Secret("hush"), (Secret("hush"),), {"a": Secret("hush")}])
def test_a_secret_is_refused_and_its_name_is_not(hidden: Any) -> None:
    with pytest.raises(GraphError, match="never holds a secret") as caught:
        encode(Paper(note=hidden))
    assert "SecretRef" in caught.value.hint
    assert "hush" not in str(caught.value)
    assert decode(encode(Paper(note=SecretRef("token"))), Paper).note == SecretRef("token")


def test_what_is_no_plain_value_is_refused() -> None:
    with pytest.raises(GraphError, match="object cannot be part of a plan"):
        encode(Paper(note=object()))
    with pytest.raises(GraphError, match="keys of a mapping"):
        encode({1: "x"})


@pytest.mark.parametrize(
    "data",
    [
        {"$": "os:system", "command": "true"},
        {"$": "subprocess:Popen", "args": ["true"]},
        {"$": "kubexm.plan.node:Nothing"},
        {"$": "kubexm.nowhere:X"},
        {"$": "kubexm.__main__:main"},
        {"$": "not-imported-anywhere:X"},
        {"$": "kubexm.plan.node:Milestone"},
        {"$": "kubexm.plan.node:Milestone", "name": "x", "colour": "red"},
        {"$": "kubexm.plan.graph:FailureMode"},
        {"$enum": "kubexm.plan.graph:FailureMode", "name": "NONE"},
        {"$enum": "kubexm.plan.node:Milestone", "name": "x"},
        {"$bytes": "no base64"},
        {"$set": [["a"], {"$map": {}}]},
        {"unknown": 1},
    ],
)
def test_what_is_not_a_plan_is_refused_with_words(data: Any) -> None:
    with pytest.raises(GraphError):
        decode(data, object)


def test_decoding_imports_nothing_but_kubexm() -> None:
    sys.modules.pop("kubexm.__main__", None)
    name = "antigravity"
    assert name not in sys.modules
    with pytest.raises(GraphError, match="which is not here"):
        decode({"$": f"{name}:X"}, object)
    with pytest.raises(GraphError, match="which is not here"):
        decode({"$": "kubexm.__main__:main"}, object)
    assert not {name, "kubexm.__main__"} & set(sys.modules)


def test_the_kind_is_what_was_asked_for() -> None:
    with pytest.raises(GraphError, match="expected ExecutionNode, found Milestone"):
        ExecutionGraph.from_dict({"name": "g", "policy": encode(FailurePolicy()), "nodes": [encode(Milestone("m"))]})
    with pytest.raises(GraphError, match="not a graph"):
        ExecutionGraph.from_dict({"name": "g"})
