"""A whole build out of small artefacts: made once, put together once, and clear about what cannot be made."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from kubexm.assets.manifest import Manifest
from kubexm.errors import LabError, UsageError
from kubexm.lab.bundle import builder as building
from kubexm.lab.bundle.artefacts import Artefact, Workplace
from kubexm.lab.bundle.builder import BundleBuild
from kubexm.lab.bundle.contents import Contents, PlannedFile, PlannedImage, plan_contents
from kubexm.lab.bundle.debian import DebianPackages
from kubexm.lab.bundle.images import Image, Layer
from kubexm.lab.bundle.toolchain import Missing
from kubexm.lab.bundle.trees import Taken
from tests.unit.lab.bundle.samples import Note, Tools

NO_GO = Missing(tool="go", reason="no Go compiler", remedy="Install Go.")
NO_GCC = Missing(tool="gcc", reason="no C compiler", packages=("gcc",), remedy="Install gcc.")


@dataclass(frozen=True, kw_only=True)
class Packages(DebianPackages):
    """Packages that need no Debian."""

    @property
    def tools(self) -> tuple[str, ...]:
        return ()

    def make(self, place: Workplace) -> None:
        (place.out / "socat_1_amd64.deb").write_text("socat")
        index = '[{"name": "socat", "version": "1", "file": "socat_1_amd64.deb", "licence": "MIT", "requested": true}]'
        (place.out / "packages.json").write_text(index)


class Watch:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.told: list[str] = []
        self.counts: list[tuple[int, int]] = []

    def planned(self, to_make: int, total: int) -> None:
        self.counts.append((to_make, total))

    def started(self, name: str, number: int, of: int) -> None:
        self.told.append(f"{number}/{of} {name}")

    def doing(self, name: str, what: str) -> None:
        pass

    def finished(self, name: str, seconds: float, *, made: bool) -> None:
        if made:
            self.made.append(name)

    def note(self, text: str) -> None:
        self.told.append(text)


class Build(BundleBuild):
    """A build of `go` (from `module`), `c`, an image of it, and packages."""

    def __init__(self, root: Path, tools: Tools | None = None, *, text: str = "kubelet", fails: str = "") -> None:
        self.watch = Watch()
        super().__init__(["1.34.4"], cache=root, progress=self.watch, toolchain=tools or Tools())
        self.contents = small_contents(text, fails)


def small_contents(text: str, fails: str) -> Contents:
    def fail(_: Workplace) -> None:
        raise LabError("it broke", hint="Mend it.")

    catalog = plan_contents(["1.34.4"], arch="amd64")
    kubelet = Note(name="kubelet", text=text, uses=("go",), on_make=fail if fails == "kubelet" else None)
    pause = Note(name="pause", text="pause", uses=("gcc",), on_make=fail if fails == "pause" else None)
    layer = Layer(name="layer", parts=(Taken(path="pause", artefact=pause, file="note"),))
    image = Image(name="image", arch="amd64", layers=(layer,))
    file = next(item for item in catalog.files if item.asset.name == "kubelet")
    picture = next(item for item in catalog.images if item.asset.name == "pause")
    return Contents(
        kubernetes=("v1.34.4",),
        arch="amd64",
        parts=("cluster",),
        files=(PlannedFile(asset=file.asset, artefact=kubelet, file="note", origin="here"),),
        images=(PlannedImage(asset=picture.asset, image=image, origin="here"),),
        packages=Packages(name="packages", release="bookworm", arch="amd64", packages=("socat",)),
        package_roles=("worker",),
    )


@pytest.fixture(autouse=True)
def _on_amd64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "machine_arch", lambda: "amd64")


def manifest(place: Path) -> Manifest:
    return Manifest.from_json((place / "manifest.json").read_bytes())


def test_a_bundle_comes_out(tmp_path: Path) -> None:
    build = Build(tmp_path)
    place = build.run()
    found = manifest(place)
    assert found.file("kubelet").path == "files/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet"
    assert (place / found.file("kubelet").path).read_text() == "kubelet"
    assert found.image("pause").reference == "registry.k8s.io/pause:3.10.1"
    assert [(group.target, group.requested) for group in found.packages] == [("debian-12-amd64", ("socat",))]
    assert build.watch.counts == [(5, 5)]
    assert build.watch.made == ["kubelet", "pause", "layer", "image", "packages"]


def test_the_same_again_makes_nothing_and_reads_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Build(tmp_path).run()
    monkeypatch.setattr("kubexm.assets.disk.hash_file", lambda _path: pytest.fail("a warm run hashes nothing"))
    again = Build(tmp_path)
    assert again.run() == place
    assert again.watch.counts == [(0, 5)]
    assert again.watch.told == []


def test_two_caches_give_the_same_bundle(tmp_path: Path) -> None:
    one, other = Build(tmp_path / "one").run(), Build(tmp_path / "other").run()
    assert (one / "manifest.json").read_bytes() == (other / "manifest.json").read_bytes()
    assert one.name == other.name


def test_a_changed_input_makes_what_depends_on_it_and_no_more(tmp_path: Path) -> None:
    before = Build(tmp_path).run()
    changed = Build(tmp_path, text="kubelet, patched")
    after = changed.run()
    assert changed.watch.made == ["kubelet"]
    assert after != before
    assert before.is_dir(), "somebody may be installing from it"


def test_a_new_compiler_makes_only_what_it_compiles(tmp_path: Path) -> None:
    Build(tmp_path).run()
    changed = Build(tmp_path, Tools(gcc="13"))
    changed.run()
    assert changed.watch.made == ["pause"], "its content is the same, so nothing made from it changes"


def test_a_bundle_somebody_touched_is_put_together_again(tmp_path: Path) -> None:
    build = Build(tmp_path)
    place = build.run()
    file = place / manifest(place).file("kubelet").path
    file.write_text("kubelex")
    assert Build(tmp_path).run() == place
    assert file.read_text() == "kubelet"
    shutil.rmtree(place / "images")
    assert (Build(tmp_path).run() / "images" / "index.json").is_file()


def test_what_cannot_be_made_is_said_before_anything_is(tmp_path: Path) -> None:
    build = Build(tmp_path, Tools(go=NO_GO, gcc=NO_GCC))
    with pytest.raises(LabError) as caught:
        build.run()
    assert "no Go compiler; needed for kubelet" in caught.value.message
    assert "no C compiler; needed for pause" in caught.value.message
    assert "Install Go." in caught.value.hint
    assert "`--keep-going` makes the other 1 now" in caught.value.hint
    assert "bundle create" in caught.value.hint
    assert build.watch.made == []


def test_apt_is_offered_for_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Tools(gcc=NO_GCC)
    monkeypatch.setattr(type(tools), "has_apt", True)
    with pytest.raises(LabError) as caught:
        Build(tmp_path, tools).run()
    assert "`--install` installs gcc with apt." in caught.value.hint
    build = Build(tmp_path, tools)
    build.run(install=True)
    assert tools.installed == ["gcc"]
    assert "installing gcc" in build.watch.told


def test_keep_going_makes_the_rest_and_still_fails(tmp_path: Path) -> None:
    build = Build(tmp_path, Tools(gcc=NO_GCC))
    with pytest.raises(LabError, match="no C compiler; needed for pause"):
        build.run(keep_going=True)
    assert build.watch.made == ["kubelet", "packages"]
    later = Build(tmp_path)
    later.run()
    assert later.watch.made == ["pause", "layer", "image"]


def test_a_failure_names_the_artefact_and_keeps_what_was_finished(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="pause: it broke") as caught:
        Build(tmp_path, fails="pause").run()
    assert caught.value.hint == "Mend it."
    later = Build(tmp_path)
    later.run()
    assert "kubelet" not in later.watch.made


def test_keep_going_after_a_failure(tmp_path: Path) -> None:
    build = Build(tmp_path, fails="kubelet")
    with pytest.raises(LabError, match="kubelet: it broke"):
        build.run(keep_going=True)
    assert build.watch.made == ["pause", "layer", "image", "packages"]


def test_without_the_compiler_what_it_made_before_will_do(tmp_path: Path) -> None:
    place = Build(tmp_path, Tools(go="go1.26")).run()
    without = Build(tmp_path, Tools(go=NO_GO, gcc=NO_GCC))
    assert without.run() == place
    assert without.missing() == []


def test_refreshing_makes_again_what_ages_and_nothing_that_comes_out_the_same(tmp_path: Path) -> None:
    place = Build(tmp_path).run()
    build = Build(tmp_path)
    assert build.run(refresh=True) == place
    assert build.watch.made == ["packages"]


def test_a_refresh_that_fails_loses_nothing(tmp_path: Path) -> None:
    place = Build(tmp_path).run()
    build = Build(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Packages, "make", lambda *_: (_ for _ in ()).throw(LabError("no network")))
        with pytest.raises(LabError, match="packages: no network"):
            build.run(refresh=True)
    again = Build(tmp_path)
    assert again.run() == place
    assert again.watch.made == []


@pytest.mark.parametrize(("free", "warned"), [(10**9, True), (10**11, False)])
def test_little_room_is_said_before_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, warned: bool
) -> None:
    monkeypatch.setattr(building, "GoPrograms", Note)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    build = Build(tmp_path)
    build.run()
    assert any("953.7 MiB are free" in line and "--prune" in line for line in build.watch.told) is warned


def test_single_artefacts(tmp_path: Path) -> None:
    build = Build(tmp_path)
    entries = build.provide(["layer"])
    assert list(entries) == ["layer"]
    assert build.watch.made == ["pause", "layer"]
    there = {name for name, entry in build.state().items() if entry}
    assert there == {"pause", "layer"}
    with pytest.raises(UsageError, match="no artefact 'kubelex'"):
        build.provide(["kubelex"])


def test_pruning_keeps_this_bundle(tmp_path: Path) -> None:
    old = Build(tmp_path, text="old").run()
    build = Build(tmp_path)
    place = build.run()
    assert build.prune() > 0
    assert not old.exists()
    assert place.is_dir()
    again = Build(tmp_path)
    assert again.run() == place
    assert again.watch.made == []


def test_the_short_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(kubernetes: Iterable[str], *, arch: str, parts: Iterable[str], mirror: str) -> Contents:
        assert (tuple(kubernetes), tuple(parts), arch, mirror) == ((), (), "amd64", "")
        return small_contents("kubelet", "")

    monkeypatch.setattr(building, "plan_contents", planned)
    monkeypatch.setattr(building, "Toolchain", Tools)
    assert manifest(building.build(cache=tmp_path)).kubernetes == ("v1.34.4",)


def test_artefacts_are_of_known_kinds() -> None:
    assert all(isinstance(artefact, Artefact) for artefact in plan_contents((), arch="amd64").artefacts())
