"""What users see, word for word: each file in golden/ and what the loader says about it.

After a change that is meant, write the answers anew with `KUBEXM_WRITE_GOLDEN=1 pytest tests/unit/config` and read the
difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubexm import config

FILES = sorted((Path(__file__).parent / "golden").glob("*.yaml"))


def answer(file: Path) -> str:
    try:
        warnings = config.loads(file.read_text(), name=file.name).warnings
    except config.ConfigErrors as error:
        return "\n".join([str(error), *(warning.render() for warning in error.warnings)]) + "\n"
    return "".join(f"{warning.render()}\n" for warning in warnings)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_loader_says(file: Path) -> None:
    expected = file.with_suffix(".txt")
    if os.environ.get("KUBEXM_WRITE_GOLDEN"):
        expected.write_text(answer(file))
    assert answer(file) == expected.read_text()


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_no_literal_secret_is_ever_said(file: Path) -> None:
    assert "hunter2" not in answer(file)
