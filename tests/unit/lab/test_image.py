"""Images are whole or not there, and built once."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab.flavours import FLAVOURS
from kubexm.lab.image import ImageStore
from kubexm.lab.locks import locked
from kubexm.lab.systems import SYSTEMS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="builds images, which needs root")

_DEBOOTSTRAP = """\
#!/bin/sh
# Stands in for debootstrap: a tree with just enough in it for the steps that follow.
for tree; do case $tree in */tree) break ;; esac; done
echo "I: Installing"
echo "$@" >>{calls}
{extra}
mkdir -p $tree/bin $tree/etc $tree/proc
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageStore:
    """An image store whose debootstrap and chroot are stand-ins."""
    _install(tmp_path, monkeypatch)
    return ImageStore(tmp_path / "cache", mirror="http://mirror.test/debian")


def test_an_image_is_built_once(store: ImageStore, tmp_path: Path) -> None:
    (base,) = store.layers(SYSTEMS["debian12"], FLAVOURS["plain"])
    assert (base / "usr/local/lib/kubexm-lab/setup").stat().st_mode & stat.S_IXUSR
    assert not (base / "etc/dpkg/dpkg.cfg.d/unsafe-io").exists()
    assert store.layers(SYSTEMS["debian12"], FLAVOURS["plain"]) == (base,)
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert "--force-check-gpg" in call
    assert call.endswith("http://mirror.test/debian")
    assert not list((tmp_path / "cache/lab").glob("tmp-*"))


def test_each_system_has_an_image_of_its_own(store: ImageStore, tmp_path: Path) -> None:
    bases = {name: store.layers(system, FLAVOURS["plain"])[-1] for name, system in SYSTEMS.items()}
    assert len(set(bases.values())) == len(SYSTEMS) == 3
    assert all(base.parent.name.startswith(f"{name}-") for name, base in bases.items())
    suites = [line.split()[-3] for line in (tmp_path / "calls").read_text().splitlines()]
    assert suites == ["bullseye", "bookworm", "trixie"]


def test_two_who_want_the_same_image_at_once_build_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each build waits until the other one has come as far as it can without building.
    _install(tmp_path, monkeypatch, extra=f"while [ ! -e {tmp_path}/both ]; do sleep 0.01; done")
    with ThreadPoolExecutor(2) as pool:
        stores = [ImageStore(tmp_path / "cache", mirror="http://mirror.test/debian") for _ in range(2)]
        builds = [pool.submit(store.layers, SYSTEMS["debian12"], FLAVOURS["plain"]) for store in stores]
        while not _waits(tmp_path / "cache/lab"):
            assert not any(build.done() for build in builds)
        (tmp_path / "both").touch()
        assert builds[0].result() == builds[1].result()
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_build_that_fails_leaves_nothing_and_says_where_its_output_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, monkeypatch, extra="echo 'E: Release signed by unknown key'; mkdir -p $tree/x; exit 1")
    store = ImageStore(tmp_path / "cache", mirror="http://mirror.test/debian")
    with pytest.raises(LabError) as caught:
        store.layers(SYSTEMS["debian12"], FLAVOURS["plain"])
    assert "http://mirror.test/debian" in caught.value.message
    assert "unknown key" in caught.value.message
    (log,) = (tmp_path / "cache/lab").glob("*.log")
    assert str(log) in caught.value.hint
    assert "--mirror" in caught.value.hint
    assert not list((tmp_path / "cache/lab").glob("tmp-*"))
    assert not [path for path in (tmp_path / "cache/lab").glob("debian12-*") if path.is_dir()]


def test_what_a_killed_build_left_is_removed_but_not_one_that_goes_on(store: ImageStore, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "lab"
    for key in ("debian12-dead", "debian12-alive"):
        (folder / f"tmp-{key}.x1" / "tree" / "etc").mkdir(parents=True)
    with locked(folder / "debian12-alive.lock"):
        store.sweep()
    assert [path.name for path in folder.glob("tmp-*")] == ["tmp-debian12-alive.x1"]
    store.sweep()
    assert not list(folder.glob("tmp-*"))


def test_an_architecture_without_images_is_said(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(LabError, match="no image for riscv64"):
        store.layers(SYSTEMS["debian12"], FLAVOURS["plain"])


def _waits(folder: Path) -> bool:
    """Whether somebody waits for a lock on a file in the folder, as the kernel tells."""
    locks = {str(file.stat().st_ino) for file in folder.glob("*.lock")}
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(words[6].rpartition(":")[2] in locks for words in waiting)


def _install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, extra: str = "") -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (
        ("debootstrap", _DEBOOTSTRAP.format(calls=tmp_path / "calls", extra=extra)),
        ("chroot", "#!/bin/sh\nexit 0\n"),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
