"""Renderings, compared with kept ones. To accept new ones: KUBEXM_UPDATE_GOLDEN=1 pytest tests/unit/plan/render"""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from kubexm.plan.render import Collapse, PlanDiff, PlanFormat, draw, render, render_diff
from kubexm.plan.render.layout import place
from tests.unit.plan.render.samples import edited, graph, result

GOLDEN = Path(__file__).parent / "golden"
ENDINGS = {
    PlanFormat.TREE: "tree.txt",
    PlanFormat.TABLE: "table.txt",
    PlanFormat.JSON: "json",
    PlanFormat.DOT: "dot",
    PlanFormat.MERMAID: "mermaid",
    PlanFormat.SVG: "svg",
}


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("how", PlanFormat)
def test_plans(how: PlanFormat) -> None:
    check(f"plan.{ENDINGS[how]}", render(graph(), how))


@pytest.mark.parametrize("how", [PlanFormat.DOT, PlanFormat.MERMAID, PlanFormat.SVG])
def test_executed_plans(how: PlanFormat) -> None:
    check(f"executed.{ENDINGS[how]}", render(graph(), how, results=result().nodes, outcome="partial after 12.5 s"))


@pytest.mark.parametrize("level", [Collapse.TASK, Collapse.MODULE])
def test_collapsed_plans(level: Collapse) -> None:
    check(f"collapsed-{level}.svg", render(graph(), PlanFormat.SVG, collapse=level, results=result().nodes))


@pytest.mark.parametrize("how", [PlanFormat.TREE, PlanFormat.JSON, PlanFormat.DOT, PlanFormat.SVG])
def test_differences(how: PlanFormat) -> None:
    check(f"diff.{ENDINGS[how]}", render_diff(PlanDiff.between(graph(), edited()), how))


def test_no_difference() -> None:
    diff = PlanDiff.between(graph(), graph())
    assert not diff
    assert render_diff(diff, PlanFormat.TREE) == "the plans are the same, 10 nodes\n"


def test_the_same_plan_gives_the_same_bytes() -> None:
    for how in PlanFormat:
        assert render(graph(), how) == render(type(graph()).from_dict(graph().to_dict()), how)


def test_svg_is_well_formed_and_boxes_do_not_overlap() -> None:
    root = ET.fromstring(render(graph(), PlanFormat.SVG))
    space = "{http://www.w3.org/2000/svg}"
    boxes = []
    for group in root.iter(f"{space}g"):
        rect = group.find(f"{space}rect")
        assert rect is not None
        x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        boxes.append((x, y, x + width, y + height))
    assert len(boxes) == 10
    for index, (left, top, right, bottom) in enumerate(boxes):
        assert 0 <= left < right <= float(root.attrib["width"])
        assert 0 <= top < bottom <= float(root.attrib["height"])
        for other in boxes[index + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_json_is_json() -> None:
    data = json.loads(render(graph(), PlanFormat.JSON))
    assert data["digest"] == graph().digest
    join = next(node for node in data["nodes"] if node["id"] == "workers.join.join")
    assert join["after_same_host"] == ["runtime.install.containerd"]
    assert join["reversible"] is False


@pytest.mark.skipif(which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_it() -> None:
    for text in (render(graph(), PlanFormat.DOT, results=result().nodes), render_diff(_diff(), PlanFormat.DOT)):
        subprocess.run(["dot", "-Tsvg"], input=text, text=True, check=True, capture_output=True)


def _diff() -> PlanDiff:
    return PlanDiff.between(graph(), edited())


def test_boxes_without_links_stand_in_rows_not_in_one_tall_stack() -> None:
    looked = next(iter(graph().nodes.values()))
    alone = graph([replace(looked, id=f"preflight.hosts.c{number}") for number in range(31)])
    cells = place(draw(alone)).cells.values()
    assert len(set(cells)) == 31
    assert {column for column, _ in cells} == set(range(6))
    assert max(row for _, row in cells) == 5


def test_big_plans_collapse_by_themselves() -> None:
    looked = next(iter(graph().nodes.values()))
    many = [replace(looked, id=f"m{number % 10}.t{number % 50}.n{number}") for number in range(500)]
    assert len(draw(graph(many)).boxes) == 50
    more = [replace(looked, id=f"m{number % 10}.t{number}.n") for number in range(500)]
    assert len(draw(graph(more)).boxes) == 10
