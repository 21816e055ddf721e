"""Container runtimes are one record each: whatever else needs one asks for it by the name in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import kubexm
from kubexm.apis.v1alpha1 import Cluster
from kubexm.apis.v1alpha1.kubernetes import ContainerRuntime as Settings
from kubexm.components.runtimes import DEFAULT_RUNTIME, RUNTIMES, runtime_named
from tests.unit.components.around import cluster, context_of

SOURCE = Path(kubexm.__file__).parent
OWN = {
    "containerd": (
        r"/(run|etc|opt)/containerd\b|(?<!/)containerd\.(service|sock)\b|\bctr\b|is-active \S+ containerd",
        ("components/containerd/",),
    )
}
"""How each runtime's socket, tool, unit and paths look, and its folder."""
ELSEWHERE = (
    "runner/facts/",  # finds every program a host may run, also runtimes that kubexm does not install
    "runner/scripts/programs.sh",  # keeps programs that containers of any runtime still refer to
    "lab/",  # builds and boots hosts
    "assets/",  # formats of archives, and files of releases
    "connector/dial.py",  # ciphers
    "cli/bundle.py",  # writes archives for others
    "runtime/assets.py",
)


@pytest.mark.parametrize("name", [runtime.name for runtime in RUNTIMES])
def test_nothing_outside_its_folder_names_a_runtimes_socket_tool_unit_and_paths(name: str) -> None:
    pattern, folder = OWN[name]
    found = []
    for path in sorted(SOURCE.rglob("*")):
        place = path.relative_to(SOURCE).as_posix()
        if path.suffix not in (".py", ".sh") or place.startswith((*folder, *ELSEWHERE)):
            continue
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        found += [f"{place}:{number}: {line.strip()}" for number, line in lines if re.search(pattern, line)]
    assert found == []


def test_every_runtime_of_the_file_is_there_and_the_default_is_its_default() -> None:
    known = get_args(Settings.model_fields["type"].annotation)
    assert {runtime.name for runtime in RUNTIMES} == set(known) == set(OWN)
    default = Settings()
    assert default.type == DEFAULT_RUNTIME
    assert runtime_named(DEFAULT_RUNTIME).usual_data == default.data_dir


def test_what_is_kept_with_a_runtime_covers_all_that_its_module_writes(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path)
    assert isinstance(context.cluster, Cluster)
    for runtime in RUNTIMES:
        graph = runtime.module().fragment(context.pipeline_context().for_module())
        written = [
            name.removeprefix("file:").rstrip("*").rstrip("/")
            for node in graph.nodes
            for name in node.step.writes()
            if name.startswith("file:/etc/")
        ]
        assert written
        kept = (*runtime.files, "/etc/cni")
        assert [path for path in written if not path.startswith(kept)] == []
