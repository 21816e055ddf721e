"""Control groups on machines of version 1, version 2 and both; on a tree of files, since one machine has one kind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab import cgroups
from kubexm.lab.cgroups import Hierarchy, Subtree, read_hierarchies

_V1 = """\
30 20 0:25 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:26 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
32 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
33 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""
_HYBRID = _V1 + "34 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
_V2 = """\
22 20 0:20 / /proc rw - proc proc rw
30 20 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
31 20 0:26 / /mnt/elsewhere rw - cgroup2 cgroup2 rw
"""


def test_a_machine_of_version_1() -> None:
    found = read_hierarchies(_V1)
    assert [(tree.root.name, tree.version, tree.is_systemd) for tree in found] == [
        ("cpu,cpuacct", 1, False),
        ("memory", 1, False),
        ("systemd", 1, True),
    ]


def test_a_machine_of_both_has_the_one_of_version_2_beside_the_others() -> None:
    found = read_hierarchies(_HYBRID)
    assert [(tree.root.name, tree.version) for tree in found] == [
        ("cpu,cpuacct", 1),
        ("memory", 1),
        ("systemd", 1),
        ("unified", 2),
    ]


def test_a_machine_of_version_2_has_one_tree_and_what_is_mounted_elsewhere_does_not_count() -> None:
    assert read_hierarchies(_V2) == (Hierarchy(root=Path("/sys/fs/cgroup"), version=2, is_systemd=True),)


@pytest.mark.parametrize("hidden", [(), (Hierarchy(root=Path("/hidden/by/another/mount"), version=1),)])
def test_a_machine_without_any_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, hidden: tuple[Hierarchy, ...]
) -> None:
    monkeypatch.setattr(cgroups, "read_hierarchies", lambda _text: hidden)
    with pytest.raises(LabError) as caught:
        cgroups.hierarchies()
    assert "mount -t cgroup2" in caught.value.hint


def test_a_machine_without_one_for_systemd_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    monkeypatch.setattr(cgroups, "read_hierarchies", lambda _text: (Hierarchy(root=tmp_path, version=1),))
    with pytest.raises(LabError) as caught:
        cgroups.hierarchies()
    assert "name=systemd" in caught.value.hint


def test_version_1_gets_a_directory_under_each_controller_and_the_parent_s_processors(tmp_path: Path) -> None:
    memory, cpuset = tmp_path / "memory", tmp_path / "cpuset"
    memory.mkdir()
    cpuset.mkdir()
    (cpuset / "cpuset.cpus").write_text("0-3\n")
    (cpuset / "cpuset.mems").write_text("0\n")
    for group in ("kubexm-lab-x", "kubexm-lab-x/n1"):  # the kernel makes these files with the directory
        (cpuset / group).mkdir()
        (cpuset / group / "cpuset.cpus").write_text("\n")
        (cpuset / group / "cpuset.mems").write_text("\n")
    trees = (Hierarchy(root=memory, version=1), Hierarchy(root=cpuset, version=1))
    Subtree(path="kubexm-lab-x", trees=trees).child("n1").make()
    assert (memory / "kubexm-lab-x" / "n1").is_dir()
    assert (cpuset / "kubexm-lab-x" / "n1" / "cpuset.cpus").read_text() == "0-3\n"
    assert (cpuset / "kubexm-lab-x" / "n1" / "cpuset.mems").read_text() == "0\n"


def test_what_is_set_already_is_left(tmp_path: Path) -> None:
    (tmp_path / "cpuset.cpus").write_text("0-3\n")
    group = tmp_path / "g"
    group.mkdir()
    (group / "cpuset.cpus").write_text("2\n")
    Subtree(path="g", trees=(Hierarchy(root=tmp_path, version=1),)).make()
    assert (group / "cpuset.cpus").read_text() == "2\n"


def test_version_2_hands_every_controller_down_to_the_host_s_group(tmp_path: Path) -> None:
    lab = tmp_path / "kubexm-lab-x"
    lab.mkdir()
    for folder, enabled in ((tmp_path, "memory"), (lab, "")):
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
        (folder / "cgroup.subtree_control").write_text(enabled)
    Subtree(path="kubexm-lab-x", trees=(Hierarchy(root=tmp_path, version=2),)).child("n1").make()
    assert (lab / "n1").is_dir()
    # A file keeps only the last of the writes; the kernel adds them up. What was there already is not written again.
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"
    assert (lab / "cgroup.subtree_control").read_text() == "+pids"
    assert not (lab / "n1" / "cgroup.subtree_control").exists()


def test_processes_are_found_below_the_group_in_every_hierarchy(tmp_path: Path) -> None:
    trees = (Hierarchy(root=tmp_path / "a", version=1), Hierarchy(root=tmp_path / "b", version=1))
    for path, pids in (("a/g", "1\n"), ("a/g/deep/er", "22\n333\n"), ("b/g", ""), ("b/other", "4\n")):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / path / "cgroup.procs").write_text(pids)
    (tmp_path / "a/g/deep/cgroup.procs").write_text("")
    assert Subtree(path="g", trees=trees).pids() == {1, 22, 333}


def test_killing_ends_what_is_in_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        monkeypatch.setattr(Subtree, "pids", lambda _: {process.pid} if process.poll() is None else set())
        Subtree(path="g", trees=(Hierarchy(root=tmp_path, version=1),)).kill(within=20)
        assert process.returncode == -9


def test_what_cannot_be_ended_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unkillable = 2**22 + 1  # above the highest process id there can be
    monkeypatch.setattr(Subtree, "pids", lambda _: {unkillable})
    with pytest.raises(LabError, match=f"Processes {unkillable} of the lab cannot be ended"):
        Subtree(path="g", trees=(Hierarchy(root=tmp_path, version=1),)).kill(within=0)


def test_removing_takes_the_deepest_first(tmp_path: Path) -> None:
    (tmp_path / "g" / "a" / "b").mkdir(parents=True)
    subtree = Subtree(path="g", trees=(Hierarchy(root=tmp_path, version=1), Hierarchy(root=tmp_path / "no", version=1)))
    subtree.remove()
    assert not (tmp_path / "g").exists()
    subtree.remove()


@pytest.mark.parametrize(
    ("stat", "expected"),
    [("cache 10\nrss 5\ntotal_cache 30\ntotal_rss 20\n", 20), ("anon 7\nfile 9\n", 7), (None, None)],
)
def test_memory_is_read_in_either_version_s_words(tmp_path: Path, stat: str | None, expected: int | None) -> None:
    (tmp_path / "g").mkdir()
    if stat is not None:
        (tmp_path / "g" / "memory.stat").write_text(stat)
    assert Subtree(path="g", trees=(Hierarchy(root=tmp_path, version=1),)).memory() == expected
