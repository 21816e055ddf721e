"""`lab down` leaves a machine as it was, whatever happened before: proven by comparing it before and after."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kubexm.lab import DEFAULT_SYSTEM, SYSTEMS
from kubexm.lab.flavours import DEFAULT, flavour
from kubexm.lab.image import ImageStore
from kubexm.lab.places import cache_directory
from tests.cluster.sandbox import sandbox

_ROUNDS = Path(__file__).with_name("lab_rounds.py")


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("lab_machine")
def test_nothing_is_left_also_after_runs_killed_at_random_moments(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    outcomes = _rounds(tmp_path, seed=seed, rounds=int(os.environ.get("KUBEXM_TEST_KILLS", "12")))
    assert outcomes[0]["said"] == "done", outcomes[0]
    assert outcomes[0]["mounts"] > 0, "the lab that came up mounted nothing, so this test compares nothing"
    assert any(each["said"] == "killed" and each["mounts"] for each in outcomes), "no run was killed half way"
    assert all(each["said"] in ("done", "killed") for each in outcomes), outcomes
    for each in outcomes:
        assert each["difference"] == {}, f"seed {seed}: {each}"
        assert each["down"] == 0 or "There is no lab" in each["error"], f"seed {seed}: {each}"


@pytest.mark.usefixtures("lab_machine")
def test_nothing_is_left_of_an_image_whose_build_was_killed(tmp_path: Path) -> None:
    store = tmp_path / "cache" / "lab"
    environment = {**os.environ, "KUBEXM_STATE": str(tmp_path / "state"), "KUBEXM_CACHE": str(tmp_path / "cache")}

    def kubexm(*words: str) -> list[str]:
        return [sys.executable, "-m", "kubexm", "lab", *words]

    with subprocess.Popen(
        kubexm("up", "--hosts", "1"), cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        while not list(store.glob("tmp-*/tree/debootstrap")):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        (tree,) = store.glob("tmp-*/tree")
        assert _processes_of(tree)
        process.kill()
    subprocess.run(kubexm("down"), cwd=tmp_path, env=environment, check=True)
    assert _processes_of(tree) == []
    assert not list(store.glob("tmp-*"))
    assert not (tmp_path / "state" / "labs").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def _processes_of(tree: Path) -> list[str]:
    """Processes that name the tree in their command line."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(tree).encode() in file.read_bytes():
                found.append(file.parent.name)
    return found


def _rounds(work: Path, *, seed: int, rounds: int) -> list[dict[str, Any]]:
    # The sandbox has no way out to fetch it.
    ImageStore(cache_directory()).layers(SYSTEMS[DEFAULT_SYSTEM], flavour(DEFAULT))
    folder = work / "here"
    folder.mkdir()
    environment = {"KUBEXM_STATE": str(work / "state"), "KUBEXM_CACHE": str(cache_directory())}
    with sandbox(f"{os.getpid()}") as machine:
        shown = machine.run(_ROUNDS, "2", str(seed), str(rounds), str(folder), env=environment, timeout=1800)
    return [json.loads(line) for line in shown.splitlines()]
