from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.apis.v1alpha1.versions import NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion, Version

minors = st.integers(OLDEST_MINOR, NEWEST_MINOR)


@given(minors, st.integers(0, 30), st.booleans())
def test_supported_versions_are_read_with_and_without_v(minor: int, patch: int, prefix: bool) -> None:
    version = KubernetesVersion.parse(f"{'v' if prefix else ''}1.{minor}.{patch}")
    assert str(version) == f"v1.{minor}.{patch}"
    assert version.minor_text == f"v1.{minor}"


def test_versions_compare_as_numbers() -> None:
    assert KubernetesVersion(1, 34, 10) > KubernetesVersion(1, 34, 9)
    assert Version(3, 10, 0) > Version(3, 9, 9)


@pytest.mark.parametrize(
    ("text", "nearest"), [("v1.29.9", "v1.30"), ("1.38.0", "v1.37"), ("v0.9.1", "v1.30"), ("v2.0.0", "v1.37")]
)
def test_an_unsupported_version_names_the_nearest_minor(text: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=r"this kubexm installs v1\.30 to v1\.37") as caught:
        KubernetesVersion.parse(text)
    assert nearest in caught.value.context["hint"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["1.34", "v1.34", "latest", "v1.34.4-rc.1", 1.34, 1, True, None, "", "1.34.4.5"])
def test_a_version_has_three_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="expected a version") as caught:
        KubernetesVersion.parse(value)
    assert "v1.34.4" in caught.value.context["hint"]  # type: ignore[attr-defined]
