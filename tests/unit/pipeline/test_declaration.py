"""What pipelines declare, and that everything that offers them agrees with it."""

from __future__ import annotations

from typing import Any

import pytest

from kubexm.errors import UsageError
from kubexm.pipeline import (
    PIPELINES,
    RESERVED,
    SHARED,
    Edits,
    Kind,
    Option,
    Pipeline,
    accepting,
    every_pipeline,
    pipeline_for,
    pipeline_named,
)
from kubexm.pipeline.declaration import checked
from kubexm.plan import RunSpec

EVERY = (
    Option(name="force", kind=Kind.FLAG, help="Force."),
    Option(name="to", kind=Kind.TEXT, help="Where to.", required=True),
    Option(name="level", kind=Kind.CHOICE, choices=("low", "high"), default="low", help="Level."),
    Option(name="wait", kind=Kind.NUMBER, least=0, most=60, default=5.0, help="Seconds."),
    Option(name="count", kind=Kind.COUNT, least=1, help="How many."),
    Option(name="hosts", kind=Kind.HOSTS, positional=True, metavar="HOST", help="Hosts."),
)


class Everything(Pipeline):
    """Has every kind of option, and disrupts."""

    name = "everything"
    options = EVERY
    takes = ("dry_run",)
    disrupts = True

    def __init__(self, **options: Any) -> None:
        self.given = options


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(PIPELINES, "everything", f"{__name__}:Everything")
    return "everything"


def test_every_pipeline_declares_itself_whole() -> None:
    names: dict[str, Kind] = {}
    for each in every_pipeline():
        assert each.summary.endswith(".")
        assert each.description
        assert each.name not in RESERVED
        assert PIPELINES[each.name].endswith(f":{each.__name__}")
        assert set(each.takes) <= set(SHARED)
        for option in each.all_options():
            assert option.help.endswith(".")
            assert option.name not in SHARED, "shared settings have these names"
            assert names.setdefault(option.name, option.kind) is option.kind, "kubexm plan offers it once"
            if not option.required and option.usual not in (None, "", ()):
                assert option.check(option.usual) == option.usual


def test_words_of_commands_are_unique() -> None:
    words = [each.words() for each in every_pipeline()]
    assert len(words) == len(set(words))


def test_options_are_checked_and_completed(everything: str) -> None:
    made = pipeline_named(everything, to="there", hosts=["w1", "w2"], wait=3)
    assert isinstance(made, Everything)
    assert made.given == {
        "force": False,
        "to": "there",
        "level": "low",
        "wait": 3.0,
        "count": None,
        "hosts": ("w1", "w2"),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"to": "x", "frce": True}, "everything has no option 'frce'"),
        ({}, "everything needs --to"),
        ({"to": "x", "force": "yes"}, "--force must be true or false, and is 'yes'"),
        ({"to": 3}, "--to must be a line of at most 300 characters, and is 3"),
        ({"to": "a\nb"}, "--to must be a line"),
        ({"to": "x", "level": "medium"}, "--level must be one of low, high, and is 'medium'"),
        ({"to": "x", "wait": 61}, "--wait must be a number from 0 to 60, and is 61"),
        ({"to": "x", "wait": True}, "--wait must be a number from 0 to 60, and is True"),
        ({"to": "x", "count": 0}, "--count must be a whole number of at least 1, and is 0"),
        ({"to": "x", "count": 1.5}, "--count must be a whole number"),
        ({"to": "x", "hosts": "w1"}, "HOST must be a list of at most 1000 names, and is 'w1'"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked("everything", EVERY, given)


def test_what_disrupts_is_measured_unless_asked_otherwise(everything: str) -> None:
    assert pipeline_named(everything, to="x").probes == "api"
    assert pipeline_named(everything, to="x", probes="none").probes == "none"
    assert pipeline_named("create").probes == "none"


def test_settings_it_does_not_take_are_refused(everything: str) -> None:
    assert pipeline_for(RunSpec(everything, {"to": "x"}, dry_run=True)).name == everything
    with pytest.raises(UsageError, match="everything does not take --rollback"):
        pipeline_for(RunSpec(everything, {"to": "x"}, rollback=True))


def test_commands_are_found_by_the_edits_they_accept() -> None:
    assert accepting(Edits.LIVE) == ["kubexm create cluster"]
