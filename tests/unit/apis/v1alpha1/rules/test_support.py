"""Versions that upstream no longer supports, by the day."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from kubexm import config, releases
from kubexm.apis.v1alpha1.rules.support import supported_on
from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES
from tests.unit.config.files import HA

DAY = timedelta(days=1)


def warnings(day: date, text: str) -> list[config.Problem]:
    return list(config.loads(text, name="cluster.yaml", more=[supported_on(day)]).warnings)


@pytest.mark.parametrize("minor", releases.minors())
def test_the_last_day_of_support_is_the_last_without_a_warning(minor: str) -> None:
    ends = releases.end_of_life(minor)
    text = HA + f"  kubernetes: {{version: v{minor}.0}}\n"
    assert warnings(ends, text) == []
    (found,) = warnings(ends + DAY, text)
    assert found.message == f"Kubernetes {minor} gets no more security fixes: upstream support ended on {ends}"
    assert (found.path, found.severity) == ("spec.kubernetes.version", "warning")
    assert found.line == HA.count("\n") + 1
    assert f"the default is {DEFAULT_KUBERNETES}" in found.hint


def test_the_hint_names_the_minors_that_are_supported() -> None:
    (found,) = warnings(date(2026, 11, 18), HA + "  kubernetes: {version: v1.34.4}\n")
    assert found.hint.startswith("supported are 1.35, 1.36, 1.37")
    (late,) = warnings(date(2099, 1, 1), HA)
    assert late.hint.startswith("so are all that this kubexm knows; ")
    assert late.path == "spec", "a version that is not in the file has the place where it would be"
