"""A bench for scripts that are really run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.step.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A host that is a directory."""
    return Bench.make(tmp_path)
