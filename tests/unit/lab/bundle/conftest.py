"""Places and programs for tests of the bundle build."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kubexm.lab.bundle.artefacts import Workplace
from kubexm.lab.bundle.commands import Commands


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """Somewhere to make an artefact that needs nothing."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "out").mkdir()
    return Workplace(
        scratch=tmp_path / "scratch", out=tmp_path / "out", needs={}, commands=Commands(), say=lambda _what: None
    )


@pytest.fixture
def programs_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts shell scripts on PATH, in front of or instead of the real programs."""

    def put(alone: bool = False, **scripts: str) -> Path:
        directory = tmp_path / "bin"
        directory.mkdir(exist_ok=True)
        for name, script in scripts.items():
            path = directory / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", str(directory) if alone else f"{directory}:{os.environ['PATH']}")
        return directory

    return put
