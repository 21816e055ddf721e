"""The code in docs/add-a-step.md, run as it stands there."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubexm import step as steps
from kubexm.plan import ExecutionGraph
from kubexm.plan.codec import decode, encode
from kubexm.step import Reversible, Step, step_kinds
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

PAGE = Path(__file__).parents[3] / "docs" / "add-a-step.md"


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A module made of all the code on the page, in order."""
    text = PAGE.read_text()
    made = types.ModuleType("add_a_step_page")
    sys.modules[made.__name__] = made
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text[: match.start()].count("\n") + 1
        source = "from __future__ import annotations\n" + "\n" * line + match[1]
        exec(compile(source, str(PAGE), "exec", dont_inherit=True), made.__dict__)
    yield made
    del sys.modules[made.__name__]


def test_its_own_tests_pass(page: Any, tmp_path: Path) -> None:
    page.test_every_host_is_greeted(tmp_path)


async def test_its_own_test_of_a_step_passes(page: Any, tmp_path: Path) -> None:
    await page.test_a_greeting_that_is_there_is_left_alone(tmp_path)


def test_its_plan_can_be_saved_and_read_again(page: Any, tmp_path: Path) -> None:
    context = memory_context(tmp_path, {"n1": MemoryConnector("n1")})
    graph = page.Greet().plan(context.pipeline_context())
    assert ExecutionGraph.from_dict(graph.to_dict()).to_json() == graph.to_json()


def test_a_quiet_cluster_needs_no_greeting(page: Any, tmp_path: Path) -> None:
    text = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: quiet, labels: {motd: "off"}}
spec:
  hosts: [{name: n1, address: 10.0.0.1}]
  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n1]}
"""
    context = memory_context(tmp_path, {"n1": MemoryConnector("n1")}, cluster=text)
    assert not page.Greet().plan(context.pipeline_context()).nodes


def test_its_steps_are_what_the_page_says(page: Any) -> None:
    assert not issubclass(page.GreetingShown, Reversible)
    assert issubclass(page.GreetingKept, Reversible)
    greeting = page.GreetingKept(greeting="Hello.")
    assert decode(encode(greeting), page.GreetingKept) == greeting


def test_every_generic_step_is_in_its_table() -> None:
    text = PAGE.read_text()
    generic = [
        name
        for name in steps.__all__
        if inspect.isclass(kind := getattr(steps, name)) and issubclass(kind, Step) and kind is not Step
    ]
    assert len(generic) >= 16
    assert [name for name in generic if f"`{name}`" not in text] == []
    assert all(f"{getattr(steps, name).__module__}.{name}" in step_kinds() for name in generic)
