from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from kubexm.apis.v1alpha1.arguments import Args, FeatureGates
from kubexm.apis.v1alpha1.labels import Labels, Taint


def why(kind: Any, value: object) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    context = caught.value.errors()[0]["ctx"]
    return context["message"], context["hint"]


def test_labels_take_numbers_and_booleans_as_text() -> None:
    labels = TypeAdapter(Labels).validate_python({"disk": "ssd", "example.com/rack": 12, "gpu": True, "empty": ""})
    assert labels == {"disk": "ssd", "example.com/rack": "12", "gpu": "true", "empty": ""}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a b": "x"}, "`a b` is not a label key"),
        ({"disk": "-ssd"}, "`-ssd` is not a value of a label"),
        ({"disk": "x" * 64}, "is not a value of a label"),
        ({"version": 1.10}, "the label `version` must be text"),
        ({"disk": ["ssd"]}, "the label `disk` must be text, found a list"),
        (["disk"], "expected a mapping of labels, found a list"),
    ],
)
def test_wrong_labels(value: object, said: str) -> None:
    assert said in why(Labels, value)[0]


@pytest.mark.parametrize("text", ["gpu=true:NoSchedule", "gpu:NoExecute", "example.com/gpu=a100:PreferNoSchedule"])
def test_taints_are_read_and_written_alike(text: str) -> None:
    assert str(Taint.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("gpu=true:NoSched", "did you mean `NoSchedule`?"),
        ("gpu=true:noexecute", "did you mean `NoExecute`?"),
        ("gpu=true", "write it like `gpu=true:NoSchedule` or `gpu:NoSchedule`"),
        ("=x:NoSchedule", "write it like `gpu=true:NoSchedule` or `gpu:NoSchedule`"),
    ],
)
def test_a_wrong_taint_names_the_nearest_right_one(text: str, hint: str) -> None:
    assert why(Taint, text)[1] == hint


def test_arguments_become_text_and_lists_repeat_them() -> None:
    args = TypeAdapter(Args).validate_python({"v": 2, "profiling": False, "x": "y", "issuer": ["a", "b"]})
    assert args == {"v": ("2",), "profiling": ("false",), "x": ("y",), "issuer": ("a", "b")}
    assert TypeAdapter(Args).dump_python(args) == {"v": "2", "profiling": "false", "x": "y", "issuer": ["a", "b"]}


def test_dashes_in_front_of_an_argument_are_refused_with_the_name_that_is_meant() -> None:
    assert why(Args, {"--audit-log-maxage": "30"}) == (
        "`--audit-log-maxage` is not the name of an argument",
        "did you mean `audit-log-maxage`?",
    )


@pytest.mark.parametrize("value", [{"v": {"a": 1}}, {"v": []}, {"v": None}, ["v"]])
def test_wrong_arguments(value: object) -> None:
    assert "argument" in why(Args, value)[0]


def test_feature_gates_are_switches() -> None:
    assert TypeAdapter(FeatureGates).validate_python({"NodeSwap": True}) == {"NodeSwap": True}
    assert why(FeatureGates, {"nodeSwap": True})[1] == "write it like `NodeSwap: true`"
