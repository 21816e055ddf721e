"""Assets on a host, by real scripts in a real shell below one temporary directory."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from kubexm import config
from kubexm.assets import Bundle
from kubexm.assets.catalog import Install
from kubexm.components.assets import AssetPresent, PackagesPlaced
from kubexm.components.assets.packages import PackageFile, PackageNeed, WantedPackage
from kubexm.errors import AssetError, CommandError
from kubexm.plan.codec import decode, encode
from kubexm.runtime import AssetShelf, HostRuntime
from kubexm.step import Step
from tests.unit.runtime.bundles import KUBERNETES, content_of, tar_of, whole_bundle
from tests.unit.runtime.clusters import HEAD, LOCAL, needs_root
from tests.unit.step.bench import Bench, fake_host


def shelf_of(bundle: Path, cache: Path) -> AssetShelf:
    body = "".join(f"  {line}\n" for line in LOCAL.strip("\n").splitlines())
    cluster = config.loads(f"{HEAD}{body}  kubernetes: {{version: {KUBERNETES}}}\n", name="t.yaml").cluster
    return AssetShelf(cluster, {"amd64": Bundle.open(bundle)}, cache=cache)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_bundle(tmp_path_factory.mktemp("assets") / "bundle", packages=["conntrack", "socat"])


@pytest.fixture
def bench(tmp_path: Path, bundle: Path) -> Bench:
    made = Bench.make(tmp_path)
    return replace(made, context=replace(made.context, assets=shelf_of(bundle, tmp_path / "cache")))


@pytest.fixture
def packing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A host that has zstd, and files that are worth packing however small they are."""
    if shutil.which("zstd") is None:
        pytest.skip("this machine has no zstd")
    monkeypatch.setattr("kubexm.assets.kept._WORTH", 0)
    old = bench.context.host_runtimes["n1"]
    facts = replace(old.facts, commands=(*old.facts.commands, "zstd"))
    host = HostRuntime(old.host, old.connector, facts, old.runner)
    return replace(bench, context=replace(bench.context, host_runtimes={"n1": host}))


def asset(bench: Bench, name: str, install: Install | None = None, **more: object) -> AssetPresent:
    """The asset as planned, but below the bench's own directory."""
    file = bench.context.assets.file(name, "amd64")
    place = install or replace(
        file.install, to=bench.path(str(file.install.to).replace("/usr/local/", "programs/").lstrip("/"))
    )
    step = AssetPresent(name=name, version=file.version, install=place, sums=(("amd64", file.sha256),))
    return replace(step, **more)  # type: ignore[arg-type]


@needs_root
async def test_a_program_is_put_in_its_place(bench: Bench) -> None:
    step = asset(bench, "kubelet")
    await bench.reach(step)
    program = bench.local("programs/bin/kubelet")
    assert program.read_bytes() == content_of("kubelet")
    assert program.stat().st_mode & 0o777 == 0o755
    assert decode(encode(step), AssetPresent) == step


async def test_members_of_an_archive_are_put_side_by_side(bench: Bench) -> None:
    keep = bench.local("programs/bin/mine")
    keep.write_bytes(b"mine")
    await bench.reach(asset(bench, "etcd"))
    await bench.reach(asset(bench, "crictl"))
    there = {path.name for path in keep.parent.iterdir()}
    assert there == {"etcd", "etcdctl", "etcdutl", "crictl", "mine"}
    assert keep.with_name("etcdctl").read_bytes() == content_of("etcd")
    assert keep.with_name("etcd").stat().st_mode & 0o777 == 0o755
    assert list((bench.root / "state" / "incoming").iterdir()) == [], "no archive is left"


async def test_all_of_an_archive_goes_into_its_directory(bench: Bench) -> None:
    await bench.reach(asset(bench, "cni-plugins"))
    assert {path.name for path in bench.local("opt/cni/bin/one").parent.iterdir()} == {"one", "two"}


@needs_root
async def test_where_there_is_zstd_a_program_travels_packed(packing: Bench, tmp_path: Path) -> None:
    before = packing.local("programs/bin/kubelet")
    before.write_bytes(b"the distribution's own")
    step = asset(packing, "kubelet")
    await packing.reach(step)
    program = packing.local("programs/bin/kubelet")
    assert program.read_bytes() == content_of("kubelet")
    assert program.stat().st_mode & 0o777 == 0o755
    assert [path.suffix for path in (tmp_path / "cache" / "archives").glob("*.zst")] == [".zst"], "it was packed"
    assert list((packing.root / "state" / "incoming").iterdir()) == [], "what was sent is gone"
    (packing.root / "state" / "assets" / "kubelet").unlink()
    await packing.reach(step)  # the file is right, only its stamp was lost
    await packing.rollback(step)
    assert before.read_bytes() == b"the distribution's own"


async def test_where_there_is_zstd_an_archive_travels_repacked(packing: Bench, tmp_path: Path) -> None:
    await packing.reach(asset(packing, "etcd"))
    assert packing.local("programs/bin/etcdctl").read_bytes() == content_of("etcd")
    assert [path.suffixes for path in (tmp_path / "cache" / "archives").glob("*.zst")] == [[".tar", ".zst"]]
    assert list((packing.root / "state" / "incoming").iterdir()) == []


@needs_root
async def test_a_disk_that_is_full_while_unpacking_leaves_what_was_there(packing: Bench) -> None:
    before = packing.local("programs/bin/kubelet")
    before.write_bytes(b"the distribution's own")
    packing.program("zstd", "echo half of it; echo 'zstd: No space left on device' >&2; exit 1")
    with pytest.raises(CommandError, match="No space left"):
        await packing.run(asset(packing, "kubelet"))
    assert before.read_bytes() == b"the distribution's own"
    assert [path.name for path in before.parent.iterdir()] == ["kubelet"], "nothing half-written is left"


async def test_looking_again_takes_one_read_and_no_file_is_read_through(bench: Bench) -> None:
    step = asset(bench, "etcd")
    await bench.reach(step)
    bench.program("sha256sum", "echo 'it was read through' >&2; exit 97")
    bench.connector.commands.clear()
    assert (await bench.check(step)).satisfied
    assert len(bench.connector.commands) == 1


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: path.unlink(), "etcdctl is gone"),
        (lambda path: path.write_bytes(b"evil"), "etcdctl was changed"),
        (lambda path: path.chmod(0o777), "etcdctl has another mode or owner"),
    ],
)
async def test_a_program_that_was_touched_is_seen_and_mended(bench: Bench, harm: object, reason: str) -> None:
    step = asset(bench, "etcd")
    await bench.reach(step)
    harm(bench.local("programs/bin/etcdctl"))  # type: ignore[operator]
    check = await bench.check(step)
    assert check.satisfied is False
    assert check.reason.endswith(reason)
    await bench.reach(step)
    assert bench.local("programs/bin/etcdctl").read_bytes() == content_of("etcd")


async def test_what_was_only_looked_at_or_saw_a_reboot_is_still_right(bench: Bench) -> None:
    step = asset(bench, "etcd")
    await bench.reach(step)
    bench.local("programs/bin/etcdctl").touch()
    assert (await bench.check(step)).satisfied, "another time, the same bytes"
    stat = bench.root / "state" / "assets" / "etcd.stat"
    stat.write_text(stat.read_text().replace(stat.read_text().splitlines()[0], "another-boot"))
    assert (await bench.check(step)).satisfied


async def test_another_version_replaces_and_the_stamp_tells(bench: Bench) -> None:
    step = asset(bench, "etcd")
    await bench.reach(step)
    stamp = bench.root / "state" / "assets" / "etcd"
    before = stamp.read_text()
    newer = replace(step, sums=(("amd64", "1" * 64),))
    assert (await bench.check(newer)).reason == "another version is there"
    with pytest.raises(AssetError, match="was planned"):
        await bench.run(newer)
    bench.local("programs/bin/etcd").write_bytes(b"x")
    await bench.reach(step)
    assert stamp.read_text() == before, "the same asset leaves the same stamp, an input for services"


async def test_originals_come_back_on_rollback(bench: Bench) -> None:
    before = bench.local("programs/bin/etcd")
    before.write_bytes(b"the distribution's own")
    step = asset(bench, "etcd")
    await bench.reach(step)
    await bench.rollback(step)
    assert before.read_bytes() == b"the distribution's own"
    assert not before.with_name("etcdctl").exists()
    assert (await bench.check(step)).satisfied is False


async def test_an_archive_that_reaches_out_is_refused(bench: Bench, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(tar_of({"../evil": b"x"}))
    host = bench.context.host_runtimes["n1"]
    with pytest.raises(CommandError) as caught:
        await host.placed.unpack("bad", bad, bench.path("into"), sha256="0" * 64, snapshot=None)
    assert "Do not trust this archive" in caught.value.hint or "'..'" in str(caught.value)
    assert not bench.local("evil").exists()
    lacking = tmp_path / "lacking.tar.gz"
    lacking.write_bytes(tar_of({"one": b"x"}))
    with pytest.raises(CommandError, match="there is no two in the archive"):
        await host.placed.unpack(
            "lacking", lacking, bench.path("into"), sha256="0" * 64, members=("two",), snapshot=None
        )
    assert [path.name for path in bench.local("into/x").parent.iterdir()] == []


async def test_without_a_bundle_it_says_what_to_do(bench: Bench) -> None:
    cluster = bench.context.cluster
    bench = replace(bench, context=replace(bench.context, assets=AssetShelf(cluster)))
    step = AssetPresent(name="etcd", version="v3.6.5", install=Install(to=PurePosixPath("/x"), members=("etcd",)))
    assert "not known without a bundle" in (await bench.check(step)).reason
    with pytest.raises(AssetError) as caught:
        await bench.run(step)
    assert "spec.assets.sources" in caught.value.hint


def test_it_says_narrowly_what_it_touches(bench: Bench) -> None:
    etcd = asset(bench, "etcd", Install(to=PurePosixPath("/usr/local/bin"), unpack=True, members=("etcd", "etcdctl")))
    assert etcd.writes() == {"asset:etcd", "file:/usr/local/bin/etcd", "file:/usr/local/bin/etcdctl"}
    whole = asset(bench, "cni-plugins", Install(to=PurePosixPath("/opt/cni/bin"), unpack=True))
    assert "file:/opt/cni/bin/*" in whole.writes()


# OS packages


class Database:
    """A stand-in for the host's package manager."""

    def __init__(self, *installed: str, broken: int = 0) -> None:
        self.there = set(installed)
        self.asked: list[tuple[str, list[str]]] = []
        self.broken = broken

    async def installed(self, names: list[str]) -> dict[str, str]:
        return {name: "1" for name in names if name in self.there}

    async def install(self, names: list[str]) -> tuple[str, ...]:
        self.asked.append(("repositories", list(names)))
        self.there |= set(names)
        return tuple(names)

    async def install_files(self, paths: list[PurePosixPath]) -> tuple[str, ...]:
        names = [path.name.partition("_")[0] for path in paths]
        self.asked.append(("files", names))
        if self.broken:
            self.broken -= 1
            raise CommandError(host="n1", command="apt", exit_code=100, stderr="unmet dependencies")
        self.there |= set(names)
        return tuple(names)


def placed(bench: Bench, *names: str, extra: tuple[str, ...] = ()) -> PackagesPlaced:
    group = bench.context.assets.packages("debian-12-amd64")
    assert group is not None
    files = tuple(PackageFile(name=file.name, path=file.path, sha256=file.sha256) for file in group.packages)
    wanted = (*(WantedPackage(name=name, roles=("worker",)) for name in names), *map(_plain, extra))
    return PackagesPlaced(needs=(PackageNeed(target="debian-12-amd64", packages=wanted, files=files),))


def _plain(name: str) -> WantedPackage:
    return WantedPackage(name=name)


def with_role(bench: Bench, role: str) -> Bench:
    runtime = bench.context.host_runtimes["n1"]
    host = replace(runtime.host, roles=frozenset({role}))
    return replace(bench, context=replace(bench.context, host_runtimes={"n1": replace(runtime, host=host)}))


async def _reach(bench: Bench, step: Step) -> None:
    assert (await bench.check(step)).satisfied is False
    await bench.run(step)
    assert (await bench.check(step)).satisfied


async def test_missing_packages_come_from_the_bundle(bench: Bench) -> None:
    database = Database("socat")
    bench = fake_host(with_role(bench, "worker"), packages=database)
    await _reach(bench, placed(bench, "conntrack", "socat"))
    assert database.asked == [("files", ["conntrack"])], "what is there is neither sent nor upgraded"
    assert list((bench.root / "state" / "incoming").iterdir()) == []


async def test_what_the_bundle_lacks_comes_from_repositories(bench: Bench) -> None:
    database = Database("conntrack", "socat")
    bench = fake_host(with_role(bench, "worker"), packages=database)
    await _reach(bench, placed(bench, "conntrack", extra=("nfs-common",)))
    assert database.asked == [("repositories", ["nfs-common"])]


async def test_old_dependencies_are_mended_with_all_the_files(bench: Bench) -> None:
    database = Database("socat", broken=1)
    bench = fake_host(with_role(bench, "worker"), packages=database)
    await _reach(bench, placed(bench, "conntrack"))
    assert database.asked == [("files", ["conntrack"]), ("files", ["conntrack", "socat"])]


async def test_a_role_that_needs_none_gets_none(bench: Bench) -> None:
    bench = fake_host(with_role(bench, "etcd"), packages=Database())
    assert (await bench.check(placed(bench, "conntrack"))).satisfied
