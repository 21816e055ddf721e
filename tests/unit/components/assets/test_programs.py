"""Programs staged by version, by real scripts in a real shell: placing, switching, going back, and pruning."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from kubexm import config
from kubexm.assets import Bundle
from kubexm.components.assets import AssetPresent, ProgramActive, ProgramsPruned
from kubexm.errors import CommandError
from kubexm.plan.codec import decode, encode
from kubexm.runner.base import library
from kubexm.runtime import AssetShelf
from tests.unit.runtime.bundles import KUBERNETES, content_of, whole_bundle
from tests.unit.runtime.clusters import HEAD, LOCAL, needs_root
from tests.unit.step.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.make(tmp_path)


def root(bench: Bench) -> PurePosixPath:
    return bench.path("programs")


def staged(bench: Bench, version: str, *names: str, program: str = "containerd") -> Path:
    """Puts a version there, as placing does."""
    place = bench.local(f"programs/{program}/{version}/bin/x").parent
    place.mkdir(parents=True, exist_ok=True)
    for name in names or ("containerd", "ctr"):
        (place / name).write_text(f"{name} {version}")
    return place.parent


def active(bench: Bench, version: str, *members: str, program: str = "containerd") -> ProgramActive:
    return ProgramActive(program=program, version=version, into=bench.path("bin"), members=members, root=root(bench))


async def test_all_files_of_a_program_switch_with_one_link(bench: Bench) -> None:
    for version in ("v2.1.9", "v2.2.0"):
        staged(bench, version)
    await bench.reach(active(bench, "v2.1.9", "containerd", "ctr"))
    links = [bench.local("bin/containerd"), bench.local("bin/ctr")]
    before = [link.readlink() for link in links]
    assert [link.read_text() for link in links] == ["containerd v2.1.9", "ctr v2.1.9"]
    newer = active(bench, "v2.2.0", "containerd", "ctr")
    assert (await bench.check(newer)).reason == "v2.1.9 is active"
    await bench.reach(newer)
    assert [link.read_text() for link in links] == ["containerd v2.2.0", "ctr v2.2.0"]
    assert [link.readlink() for link in links] == before, "only one link was changed"
    assert bench.local("programs/containerd/previous").readlink() == Path("v2.1.9")
    assert decode(encode(newer), ProgramActive) == newer


async def test_placing_another_version_changes_nothing_that_is_started(bench: Bench) -> None:
    staged(bench, "v2.1.9")
    step = active(bench, "v2.1.9", "containerd", "ctr")
    await bench.reach(step)
    staged(bench, "v2.2.0")
    assert (await bench.check(step)).satisfied
    assert bench.local("bin/containerd").read_text() == "containerd v2.1.9"


async def test_looking_at_many_links_takes_one_read(bench: Bench) -> None:
    names = [f"plugin-{number}" for number in range(20)]
    staged(bench, "v1.7.1", *names, program="cni-plugins")
    step = active(bench, "v1.7.1", program="cni-plugins")
    await bench.reach(step)
    assert {path.name for path in bench.local("bin/x").parent.iterdir()} == set(names)
    bench.connector.commands.clear()
    assert (await bench.check(step)).satisfied
    assert len(bench.connector.commands) == 1
    bench.local("bin/plugin-7").unlink()
    assert "do not lead to it" in (await bench.check(step)).reason
    await bench.reach(step)


async def test_what_a_link_replaces_is_kept_and_comes_back(bench: Bench) -> None:
    """A distribution's own program, and one that an earlier kubexm put there itself."""
    mine = bench.local("bin/containerd")
    mine.write_text("the distribution's own")
    staged(bench, "v2.1.9")
    step = active(bench, "v2.1.9", "containerd", "ctr")
    await bench.reach(step)
    kept = bench.root / "state" / "originals" / "file"
    assert any((entry / "content").is_file() for entry in kept.iterdir())
    await bench.rollback(step)
    assert mine.read_text() == "the distribution's own"
    assert not mine.is_symlink()
    assert not mine.with_name("ctr").exists()
    assert not bench.local("programs/containerd/current").is_symlink()


async def test_a_rollback_activates_what_was_active_before(bench: Bench) -> None:
    for version in ("v2.1.9", "v2.2.0"):
        staged(bench, version)
    await bench.reach(active(bench, "v2.1.9", "containerd"))
    later = replace(bench, run_id="run-2")
    newer = active(later, "v2.2.0", "containerd")
    await later.reach(newer)
    await later.rollback(newer)
    assert bench.local("bin/containerd").read_text() == "containerd v2.1.9"
    assert not bench.local("programs/containerd/previous").is_symlink()


async def test_a_version_that_is_not_whole_is_never_activated(bench: Bench) -> None:
    staged(bench, "v2.1.9")
    await bench.reach(active(bench, "v2.1.9", "containerd", "ctr"))
    staged(bench, "v2.2.0", "containerd")
    with pytest.raises(CommandError, match=r"there is no .*/v2\.2\.0/bin/ctr"):
        await bench.run(active(bench, "v2.2.0", "containerd", "ctr"))
    with pytest.raises(CommandError, match="there is nothing in"):
        await bench.run(active(bench, "v2.3.0"))
    assert bench.local("bin/containerd").read_text() == "containerd v2.1.9"


async def test_a_kill_between_link_and_link_is_repaired(bench: Bench) -> None:
    staged(bench, "v2.1.9")
    step = active(bench, "v2.1.9", "containerd", "ctr")
    bench.local("programs/containerd/current").symlink_to("v2.1.9")
    bench.local("bin/ctr").write_text("an older one")
    await bench.reach(step)
    assert bench.local("bin/ctr").read_text() == "ctr v2.1.9"


@contextmanager
def running(program: Path) -> Iterator[None]:
    """A process of this program."""
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen([str(program), "60"])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def test_pruning_leaves_what_is_active_was_before_runs_or_was_just_placed(bench: Bench) -> None:
    for version in ("v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0"):
        staged(bench, version)
    await bench.run(active(bench, "v1.3.0", "containerd"))
    await bench.run(active(bench, "v1.4.0", "containerd"))
    step = ProgramsPruned(keep=("containerd/v1.5.0", "runc/v1.0.0"), root=root(bench))
    with running(bench.local("programs/containerd/v1.1.0/bin/shim")):
        assert (await bench.check(step)).reason == "nothing uses containerd/v1.0.0, containerd/v1.2.0"
        await bench.reach(step)
        left = {path.name for path in bench.local("programs/containerd/x").parent.iterdir() if path.is_dir()}
        assert left == {"current", "previous", "v1.1.0", "v1.3.0", "v1.4.0", "v1.5.0"}
    await bench.reach(step)
    assert not bench.local("programs/containerd/v1.1.0").exists()
    assert (await bench.check(step)).satisfied


async def test_a_version_that_a_container_was_started_from_is_not_pruned(bench: Bench, tmp_path: Path) -> None:
    for version in ("v1.0.0", "v1.1.0"):
        staged(bench, version)
    await bench.run(active(bench, "v1.1.0", "containerd"))
    other, bundle = tmp_path / "task" / "k8s.io" / "aaa", tmp_path / "task" / "k8s.io" / "abc"
    for place, shim in ((other, "/usr/local/bin"), (bundle, f"{root(bench)}/containerd/v1.0.0/bin")):
        place.mkdir(parents=True)
        (place / "shim-binary-path").write_text(f"{shim}/containerd-shim-runc-v2")
    script = library("programs").replace("/run/containerd/io.containerd.runtime.v2.task", str(tmp_path / "task"))

    def prunable() -> str:
        call = f"{script}kx_prunable {root(bench)} ''"
        return subprocess.run(["sh", "-c", call], capture_output=True, text=True, check=True).stdout

    assert prunable() == ""
    shutil.rmtree(bundle)
    assert prunable() == f"{root(bench)}/containerd/v1.0.0\n"


def test_each_step_says_what_it_touches(bench: Bench) -> None:
    step = active(bench, "v2.1.9", "containerd")
    assert step.writes() == {f"file:{root(bench)}/containerd/*", f"file:{bench.path('bin')}/containerd"}
    assert f"file:{bench.path('bin')}/*" in active(bench, "v1.7.1", program="cni-plugins").writes()
    assert ProgramsPruned().writes() == {"file:/opt/kubexm/programs/*"}


# Placing


@pytest.fixture
def shelf(tmp_path: Path) -> AssetShelf:
    body = "".join(f"  {line}\n" for line in LOCAL.strip("\n").splitlines())
    cluster = config.loads(f"{HEAD}{body}  kubernetes: {{version: {KUBERNETES}}}\n", name="t.yaml").cluster
    bundle = whole_bundle(tmp_path / "bundle", packages=[])
    return AssetShelf(cluster, {"amd64": Bundle.open(bundle)}, cache=tmp_path / "cache")


@needs_root
@pytest.mark.parametrize("name", ["kubelet", "etcd"])
async def test_a_version_is_placed_whole_with_its_stamp_and_taken_back(
    bench: Bench, shelf: AssetShelf, name: str
) -> None:
    bench = replace(bench, context=replace(bench.context, assets=shelf))
    file = shelf.file(name, "amd64")
    place = root(bench) / name / file.version
    to = place / "bin" if file.install.unpack else place / "bin" / name
    step = AssetPresent(
        name=name,
        version=file.version,
        install=replace(file.install, to=to),
        sums=(("amd64", file.sha256),),
        staged=place,
    )
    await bench.reach(step)
    assert Path(place / "bin" / name).read_bytes() == content_of(name)
    assert Path(place / "stamp").read_text().startswith(file.sha256)
    assert not (bench.root / "state" / "originals").exists(), "the place is kubexm's own"
    await bench.rollback(step)
    assert not Path(place).exists()
    assert decode(encode(step), AssetPresent) == step


def test_the_shelf_names_the_programs_of_its_cluster(shelf: AssetShelf) -> None:
    found = dict(shelf.programs("amd64"))
    assert found["kubelet"] == KUBERNETES
    assert "haproxy" not in found
    assert "etcd-bridge" not in found
