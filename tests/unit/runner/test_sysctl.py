"""Kernel parameters in a directory of the test's own: set, kept how they were, given back."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kubexm.runner.base import library


@dataclass
class Kernel:
    """Parameters as files, and where originals and a run's snapshot of them are kept."""

    root: Path

    def put(self, name: str, value: str) -> None:
        path = self.root / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")

    def get(self, name: str) -> str:
        return (self.root / "proc" / name).read_text().strip()

    def run(self, call: str) -> str:
        kept, snapshot, proc = (self.root / name for name in ("originals", "run", "proc"))
        head = "kx_left() { return 1; }\n" + "".join(map(library, ("sum", "originals", "paths", "restore", "sysctl")))
        script = head + call.format(root=kept, snapshot=snapshot, proc=proc)
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
        assert not done.stderr
        return done.stdout

    def set(self, name: str, value: str) -> str:
        return self.run(f"kx_set_parameter {{root}} {{snapshot}} {{proc}} {name} {value}")

    def drop(self, name: str) -> str:
        return self.run(f"kx_drop_parameter {{root}} {{snapshot}} {{proc}} {name}")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    found = Kernel(tmp_path)
    found.put("vm/swappiness", "60")
    return found


def test_a_value_is_set_once_and_given_back(kernel: Kernel) -> None:
    assert kernel.set("vm/swappiness", "10") == "changed\n"
    assert kernel.set("vm/swappiness", "10") == ""
    assert kernel.set("vm/swappiness", "20") == "changed\n"
    assert kernel.drop("vm/swappiness") == "changed\n"
    assert kernel.get("vm/swappiness") == "60"
    assert kernel.drop("vm/swappiness") == ""


def test_what_others_set_since_or_kubexm_never_did_is_left(kernel: Kernel) -> None:
    kernel.put("vm/other", "5")
    assert kernel.drop("vm/other") == ""
    kernel.set("vm/swappiness", "10")
    kernel.put("vm/swappiness", "33")
    assert kernel.drop("vm/swappiness") == ""
    assert kernel.get("vm/swappiness") == "33"


def test_several_numbers_are_one_value(kernel: Kernel) -> None:
    kernel.put("net/rmem", "4096\t131072\t6291456")
    assert kernel.set("net/rmem", "'4096 131072 6291456'") == ""
    kernel.set("net/rmem", "'1 2 3'")
    kernel.drop("net/rmem")
    assert kernel.get("net/rmem") == "4096 131072 6291456"


def test_a_runs_rollback_goes_back_to_before_the_run_and_no_further(kernel: Kernel) -> None:
    kernel.run("kx_set_parameter {root} '' {proc} vm/swappiness 10")
    kernel.set("vm/swappiness", "20")
    restore = 'kx_entry {snapshot} sysctl vm/swappiness; kx_restore_sysctl "$kx_e" {proc}'
    assert kernel.run(restore) == "restored\tsysctl\tvm/swappiness\n"
    assert kernel.get("vm/swappiness") == "10"
    kernel.drop("vm/swappiness")
    assert kernel.get("vm/swappiness") == "60"
    assert kernel.run(restore) == "restored\tsysctl\tvm/swappiness\n", "giving back is a change of the run as well"
    assert kernel.get("vm/swappiness") == "10"
