"""docs/add-a-component.md, done word for word to a copy of the sources; and that nothing else names a plugin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "add-a-component.md"
TEXT = PAGE.read_text("utf-8")
OWN = Path("tests/unit/components/kindnet/test_kindnet.py")
OF_ALL = Path("tests/unit/components/test_networks.py")
_NAMES = ("components/around", "components/api_plan", "config/files", "pipeline/test_create")
USED = [f"tests/unit/{name}.py" for name in _NAMES]


def blocks(kind: str) -> list[str]:
    """The code on the page, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def edit(root: Path, pattern: str, lines: list[str]) -> None:
    """Replaces what the page shows with ` ` and `-` by what it shows with ` ` and `+`, in each file of that name."""
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    files = list(root.glob(pattern))
    assert files, f"there is no {pattern}"
    for file in files:
        text = file.read_text("utf-8")
        assert text.count(before) == 1, f"{file.name} does not hold once:\n{before}"
        file.write_text(text.replace(before, after), "utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, with what the page adds and changes."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for block in blocks("python"):
        name = block.partition("\n")[0].removeprefix("# ")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(block, "utf-8")
    for block in blocks("diff"):
        for part in re.split(r"^--- ", block, flags=re.MULTILINE)[1:]:
            pattern, *lines = part.splitlines()
            edit(root, pattern, lines)
    for name in (*USED, str(OF_ALL), "pyproject.toml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    return root


def run(copy: Path, *command: str) -> str:
    """Runs a tool of this environment on the copy."""
    path = os.pathsep.join((str(copy / "src"), str(copy)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_tests_and_those_of_every_plugin_pass(copy: Path) -> None:
    told = run(copy, "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", str(OWN), str(OF_ALL))
    assert "no tests ran" not in told
    written = len(re.findall(r"^def test_", (copy / OWN).read_text() + (copy / OF_ALL).read_text(), re.MULTILINE))
    assert f"{written} passed" in told


def test_the_code_on_the_page_is_as_all_other(copy: Path) -> None:
    run(copy, "ruff", "check", "--no-cache", "src/kubexm/components/kindnet", str(OWN))
    run(copy, "ruff", "format", "--no-cache", "--check", "src/kubexm/components/kindnet", str(OWN))


def test_nothing_else_names_a_plugin() -> None:
    sources, texts = ROOT / "src" / "kubexm", (".py", ".sh", ".toml", ".yaml", ".js", ".html")
    named = {
        str(path.relative_to(sources))
        for path in sources.rglob("*")
        if path.suffix in texts and "flannel" in path.read_text("utf-8").lower()
    }
    outside = {name for name in named if not name.startswith(("components/flannel/", "lab/bundle/"))}
    minors = {name for name in outside if re.fullmatch(r"releases/kubernetes/v1\.\d+\.toml", name)}
    assert minors
    assert outside - minors == {
        "apis/v1alpha1/network.py",
        "apis/v1alpha1/rules/networks.py",
        "assets/catalog/components.toml",
        "components/networks.py",
        "config/starters/ha.yaml",
    }


def test_the_files_it_names_are_there() -> None:
    for name in re.findall(r"`((?:apis|assets|components|pipeline|runtime|lab|tests)/[\w/.]+)`", TEXT):
        if "kindnet" not in name:
            assert (ROOT / "src" / "kubexm" / name).exists() or (ROOT / name).exists(), name
