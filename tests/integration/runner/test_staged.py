"""Staged programs on a whole system: an older layout is taken over, and delete's own parts give everything back."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.components.removal.programs import ProgramsGone
from kubexm.runner import Baseline, Facts, Originals, Outcome, Staged
from kubexm.runner.facts import PROGRAMS
from kubexm.runner.placed import Placed

BIN = PurePosixPath("/usr/local/bin")
OWN = "/opt/kubexm"
TREE = "find /usr/local/bin /opt -printf '%p %y %m %u %l\\n' 2>/dev/null | LC_ALL=C sort"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tool"
    path.write_bytes(b"#!/bin/sh\necho v1\n")
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def place(sandbox: Any, facts: Facts, source: Path, version: str, name: str = "tool") -> None:
    """As a step places a version."""
    staged = PROGRAMS / name / version
    await Placed(sandbox, facts).put(
        name, source, staged / "bin" / name, sha256=digest(source), mode=0o755, stamp=staged / "stamp", keep=False,
        snapshot=None,
    )  # fmt: skip


@pytest.mark.parametrize("own", [True, False], ids=["the host had one", "the host had none"])
async def test_an_older_layout_is_taken_over_and_given_back(
    sandbox: Any, facts: Facts, source: Path, own: bool
) -> None:
    sandbox.sh("mkdir -p /usr/local/bin; rm -f /usr/local/bin/tool; rm -rf /opt/kubexm")
    if own:
        sandbox.sh("echo mine >/usr/local/bin/tool; chmod 700 /usr/local/bin/tool")
    before = sandbox.sh(TREE)
    await Baseline(sandbox, facts).keep([OWN])
    # what kubexm 0.1 did
    await Placed(sandbox, facts).put("tool", source, BIN / "tool", sha256=digest(source), mode=0o755, snapshot=None)
    assert sandbox.sh("/usr/local/bin/tool").strip() == "v1"
    # what this one does
    await place(sandbox, facts, source, "v1")
    staged = Staged(sandbox, facts)
    assert await staged.why_not(PROGRAMS, "tool", "v1", BIN, ["tool"]) == "none is active"
    await staged.activate(PROGRAMS, "tool", "v1", BIN, ["tool"], snapshot=None)
    assert await staged.why_not(PROGRAMS, "tool", "v1", BIN, ["tool"]) == ""
    assert sandbox.sh("readlink -f /usr/local/bin/tool").strip() == f"{PROGRAMS}/tool/v1/bin/tool"
    assert sandbox.sh("/usr/local/bin/tool").strip() == "v1"
    # what delete does
    await Baseline(sandbox, facts).clear()
    restored = await Originals(sandbox, facts).restore()
    assert {one.outcome for one in restored} <= {Outcome.RESTORED, Outcome.UNCHANGED}
    assert sandbox.sh(TREE) == before


async def test_what_is_kept_on_purpose_stays_and_all_else_goes(sandbox: Any, facts: Facts, source: Path) -> None:
    sandbox.sh("rm -rf /opt/kubexm; mkdir -p /opt/kubexm/haproxy/usr")
    for name in ("runc", "kubelet"):
        await place(sandbox, facts, source, "v1", name)
    step = ProgramsGone(keep=("runc", "crictl"))
    script = step._script
    assert sandbox.sh(f"{script}kx_others").split() == ["/opt/kubexm/haproxy", "/opt/kubexm/programs/kubelet"]
