"""Pages hold together: links lead somewhere, each decision has its record, records stay short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
RECORDS = sorted(DOCS.glob("adr/[0-9]*.md"))


def anchors(page: Path) -> set[str]:
    """The names a renderer gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_every_decision_of_the_architecture_has_its_record() -> None:
    text = (DOCS / "architecture.md").read_text("utf-8")
    section = text[text.index("## Decisions") : text.index("## Layers")]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. \*\*", section, re.MULTILINE)]
    assert numbers[:22] == list(range(1, 23))
    assert numbers == sorted(set(numbers))
    texts = re.split(r"^\d+\. \*\*", section, flags=re.MULTILINE)[1:]
    assert all("(adr/" in text for text in texts[22:]), "a later decision links to its record"
    recorded = [int(path.name[:4]) for path in RECORDS]
    assert len(set(recorded)) == len(recorded)
    assert recorded[:22] == list(range(1, 23))


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_short_and_says_why_what_and_what_follows(record: Path) -> None:
    text = record.read_text("utf-8")
    assert len(text.splitlines()) <= 25
    assert text.startswith(f"# {int(record.name[:4])}. ")
    for part in ("**Context.**", "**Decision.**", "**Consequences.**"):
        assert f"\n{part} " in text
    title = text.splitlines()[0].partition(". ")[2]
    assert f"[{title}]({record.name})" in (DOCS / "adr" / "README.md").read_text("utf-8")


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    missing = [page.name for page in DOCS.glob("*.md") if page.name != "index.md" and f"({page.name})" not in index]
    assert not missing


def test_the_list_of_create_is_the_one_of_the_code() -> None:
    def listed(text: str) -> list[str]:
        start = text.index("return sequence(", text.index("class CreateCluster"))
        return text[start : text.index(".graph(", start)].split()

    code = (ROOT / "src" / "kubexm" / "pipeline" / "create.py").read_text("utf-8")
    assert listed((DOCS / "architecture.md").read_text("utf-8")) == listed(code)


def test_every_file_of_cluster_tests_is_described() -> None:
    page = (DOCS / "testing.md").read_text("utf-8")
    assert [path.name for path in (ROOT / "tests" / "cluster").glob("*.py") if f"`{path.name}`" not in page] == [
        "conftest.py"
    ]
