from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubexm import config
from kubexm.config.fields import every_field, model_at
from kubexm.config.starters import TOPOLOGIES, starter
from tests.unit.config.files import data

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=[file.stem for file in EXAMPLES])
def test_examples_are_valid_and_nothing_about_them_is_doubtful(file: Path) -> None:
    assert config.load(file).warnings == ()


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_starters_are_valid_commented_and_shown_as_examples(topology: str) -> None:
    text = starter(topology)
    assert config.loads(text).warnings == ()
    assert text.count("#") > 8
    assert (ROOT / "examples" / f"{topology}.yaml").read_text() == text


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_starter_takes_a_name(topology: str) -> None:
    assert config.loads(starter(topology, name="my-own")).cluster.name == "my-own"


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_what_a_starter_has_commented_out_is_valid_too(topology: str) -> None:
    text = re.sub(r"(?m)^( *)# ((?:  )*[a-z][A-Za-z]+:.*)$", r"\1\2", starter(topology))
    assert text != starter(topology)
    assert config.loads(text).warnings == ()


def _written(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = {path}
    if isinstance(value, dict):
        for key, part in value.items():
            found |= _written(part, (*path, key)) | _written(part, (*path, "*"))
    elif isinstance(value, list):
        for part in value:
            found |= _written(part, (*path, "*"))
    return found


def test_the_full_example_has_every_field_of_every_section() -> None:
    written = _written(data((ROOT / "examples" / "full.yaml").read_text()))
    places: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for path, _ in every_field():
        model = model_at(path[:-1])
        assert model is not None
        places.setdefault((model.__name__, str(path[-1])), set()).add(tuple(map(str, path)))
    missing = {field for field, paths in places.items() if not paths & written}
    assert missing == {("Global", "privateKey")}, "which excludes privateKeyPath"


def test_the_reference_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
