"""No literal secret in any message, wherever it stands in the file and whatever else is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.config.files import HA, problems, spec

# Letters that stand in no other part of the files, so that finding one piece of a secret is no accident.
secrets = st.text(alphabet="QZJX0189#:,!%&*{}[]' \"", min_size=6, max_size=16).map(lambda text: f"Q{text}Z")

HOLDERS = [
    "global: {{password: {0}, nope: 1}}",
    "global:\n  sudoPassword: {0}\n  nope: 1",
    "global:\n  sudoPasword: {0}",
    "global:\n  privateKey: {0}\n  privateKeyPath: x",
    "global: {{nope: 1, bastion: [{{address: b, password: {0}, prot: 22}}]}}",
    "registry: {{auths: {{docker.io: {{username: joe, password: {0}, nope: 1}}}}}}",
    "registry: {{auths: {{docker.io: {0}}}}}",
    "global: {{password: {0}, password: {0}}}",
    "global: {{password: {{value: {0}}}}}",
    "global: {{password: [{0}]}}",
    "global: {{nope: 1, password: {0}",
    "global:\n  password: {0}\n   indented: wrong",
    "global:\n  secret_token: {0}",
]


def quoted(secret: str) -> str:
    return "'" + secret.replace("'", "''") + "'"


@given(st.sampled_from(HOLDERS), secrets)
@settings(deadline=None)
def test_a_quoted_literal_is_never_shown(holder: str, secret: str) -> None:
    found = problems(spec(holder.format(quoted(secret))))
    assert found, "each of these files has something wrong with it"
    for problem in found:
        text = problem.render() + str(problem.as_json()) + repr(problem)
        assert secret not in text
        assert secret.replace("'", "''") not in text


@given(st.sampled_from(HOLDERS), secrets)
@settings(deadline=None)
def test_a_literal_that_should_have_been_quoted_is_never_shown(holder: str, secret: str) -> None:
    for problem in problems(spec(holder.format(secret))):
        assert secret not in problem.render() + str(problem.as_json())


def test_a_block_is_masked_line_by_line() -> None:
    text = spec("global:\n  privateKey: |\n    QQQQ\n    ZZZZ\n  privateKeyPath: x\n  nope: 1")
    assert all("QQQQ" not in problem.render() and "ZZZZ" not in problem.render() for problem in problems(text))


def test_a_broken_line_inside_a_block_is_masked() -> None:
    text = spec("global:\n  privateKey:\n    QQQQ: QQQQ: QQQQ\n")
    assert problems(text)
    assert all("QQQQ" not in problem.render() for problem in problems(text))


@pytest.mark.parametrize("reference", ["env:OPS_SUDO", "file:./sudo", "prompt"])
def test_references_are_shown(reference: str) -> None:
    (problem,) = problems(spec(f"global: {{nope: 1, password: {reference}}}"))
    assert reference in problem.render()


def test_paths_and_names_of_fields_are_shown() -> None:
    (problem,) = problems(spec("global: {privateKeyPath: ~/.ssh/id, nope: 1}"))
    assert "~/.ssh/id" in problem.render()


def test_the_caret_stays_below_what_it_means() -> None:
    (problem,) = problems(HA.replace('{name: "w[01:03]"', '{password: "QQQQQQQQQQQQQQQQ", prot: 22, name: "w[01:03]"'))
    _, line, caret, _ = problem.render().splitlines()
    assert line[caret.index("^") :].startswith("prot")
    assert caret.count("^") == 4
