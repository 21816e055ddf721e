"""Names that are imported when they are first used."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from kubexm.later import later


def test_a_name_is_imported_once_and_then_belongs_to_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("a_package")
    monkeypatch.setitem(sys.modules, "a_package", package)
    called: list[str] = []
    find = later("a_package", {"json.decoder": ("JSONDecoder",)}, before=lambda: called.append("before"))
    package.__getattr__ = find  # type: ignore[method-assign]
    from json.decoder import JSONDecoder

    assert (package.JSONDecoder, package.JSONDecoder) == (JSONDecoder, JSONDecoder)
    assert called == ["before"], "the second time it was there"
    with pytest.raises(AttributeError, match="'a_package' has no attribute 'nothing'"):
        _ = package.nothing
