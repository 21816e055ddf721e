from __future__ import annotations

import json
import pickle

import pytest
from pydantic import ValidationError

from kubexm.apis.v1alpha1 import (
    Cluster,
    EnvSecret,
    FileSecret,
    LiteralSecret,
    PromptSecret,
    SecretSource,
    StoredSecret,
    digest,
    edits,
    guarded,
    json_schema,
)
from kubexm.redact import MASK, Secret
from tests.unit.config.files import cluster

SECRET = "hunter2-correct-horse"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("env:OPS_SUDO", EnvSecret("OPS_SUDO")),
        ("file:./sudo", FileSecret("./sudo")),
        ("prompt", PromptSecret()),
        ("secret:ops.sudo-1", StoredSecret("ops.sudo-1")),
        (SECRET, LiteralSecret(Secret(SECRET))),
        ("a:b:c", LiteralSecret(Secret("a:b:c"))),
        (":odd", LiteralSecret(Secret(":odd"))),
        ("prompt:x", LiteralSecret(Secret("prompt:x"))),
        ("environment", LiteralSecret(Secret("environment"))),
    ],
)
def test_where_a_secret_comes_from(text: str, source: SecretSource) -> None:
    assert SecretSource.parse(text) == source


@pytest.mark.parametrize(
    "value",
    ["", "  ", "env:", "env:1X", "env:A-B", "file:", "secret:", "secret:a b", 12345678, True, [SECRET], {"a": SECRET}],
)
def test_a_wrong_secret_is_refused_without_repeating_it(value: object) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        SecretSource.parse(value)
    assert SECRET not in str(caught.value)
    assert "12345678" not in str(caught.value)


@pytest.fixture
def with_literals() -> Cluster:
    return cluster(
        {
            "global": {
                "password": SECRET,
                "sudoPassword": SECRET,
                "privateKey": SECRET,
                "privateKeyPassphrase": SECRET,
            },
            "registry": {"auths": {"docker.io": {"username": "joe", "password": SECRET}}},
        }
    )


def test_a_literal_shows_nowhere(with_literals: Cluster) -> None:
    other = cluster({"global": {"password": "something-else"}})
    shown = [
        repr(with_literals),
        str(with_literals),
        repr(with_literals.hosts),
        repr(with_literals.model_dump()),
        with_literals.model_dump_json(),
        json.dumps(guarded(with_literals)),
        repr(edits(other, with_literals)),
        json.dumps(json_schema()),
    ]
    assert all(SECRET not in text for text in shown)
    assert MASK in with_literals.model_dump_json()


def test_a_literal_is_not_pickled(with_literals: Cluster) -> None:
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(with_literals)


def test_pydantics_own_error_does_not_show_the_input() -> None:
    with pytest.raises(ValidationError) as caught:
        cluster({"global": {"password": [SECRET]}, "registry": {"auths": {"docker.io": SECRET}}})
    assert SECRET not in str(caught.value)


def test_a_reference_is_shown_as_written() -> None:
    assert cluster({"global": {"password": "env:PW"}}).model_dump()["spec"]["global"]["password"] == "env:PW"


def test_secrets_are_compared_and_stay_outside_the_digest(with_literals: Cluster) -> None:
    changed = cluster({"global": {"password": "other"}})
    same = cluster({"global": {"password": "other"}})
    assert changed == same
    assert changed != with_literals
    assert digest(changed) == digest(cluster())
