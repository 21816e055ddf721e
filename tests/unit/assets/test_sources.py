"""Sources and creating: the user's order, sums that must fit, and a bundle that is there whole or not at all."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import io
import struct
import tarfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from kubexm.assets import Bundle, BundleWriter, catalog, pack, verify
from kubexm.assets.cache import FileCache, default_cache
from kubexm.assets.catalog import load as catalog_load
from kubexm.assets.create import BundleRequest, PackageDirectory, create_bundle
from kubexm.assets.http_source import HttpSource
from kubexm.assets.os_packages import add_package_directory, read_package
from kubexm.assets.provide import SourceOptions, SourceSpec, covers, provide_bundle
from kubexm.assets.registry import RegistryAccess, parse_mirrors
from kubexm.assets.sources import BundleSource, Sources
from kubexm.assets.sums import PinnedSums
from kubexm.assets.transfer import Damaged, NotThere, Retry, Unreachable
from kubexm.errors import AssetError
from tests.unit.assets.registry_double import Registry
from tests.unit.assets.samples import sample_bundle, tree
from tests.unit.assets.upstream_double import KUBERNETES, content, publish
from tests.unit.assets.web import Web


@pytest.fixture
def registry(web: Web) -> Registry:
    """A server that is an upstream's mirror and a registry in one."""
    registry = Registry(web, pages_too=True)
    publish(web, registry)
    return registry


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache")


@pytest.fixture
def mirror(web: Web, registry: Registry, client: httpx.AsyncClient, cache: FileCache, retry: Retry) -> HttpSource:
    access = RegistryAccess(mirrors=parse_mirrors([web.url]))
    return HttpSource(client, cache, mirror=web.url, access=access, retry=retry)


def request(tmp_path: Path, name: str = "bundle", **more: object) -> BundleRequest:
    values: dict[str, object] = {"kubernetes": (KUBERNETES,), "arch": "amd64", "out": tmp_path / name}
    return BundleRequest(**(values | more))  # type: ignore[arg-type]


def quiet(_: str) -> None:
    pass


async def test_create_holds_the_whole_release(mirror: HttpSource, cache: FileCache, tmp_path: Path) -> None:
    heard: list[str] = []
    manifest = await create_bundle(request(tmp_path), Sources([mirror]), cache, say=heard.append)
    release = catalog.release(KUBERNETES, "amd64")
    assert {file.name for file in manifest.files} == {file.name for file in release.files}
    assert {image.reference for image in manifest.images} == {image.reference for image in release.images}
    assert verify(tmp_path / "bundle", arch="amd64").ok
    kubeadm = manifest.file("kubeadm")
    assert (tmp_path / "bundle" / kubeadm.path).read_bytes() == content(kubeadm.upstream_path)
    assert kubeadm.origin == f"https://{kubeadm.upstream_path}"
    assert manifest.image("pause").origin.startswith("registry.k8s.io/pause:3.10.1@sha256:")
    with tarfile.open(tmp_path / "bundle" / manifest.file("haproxy").path) as archive:
        assert archive.getnames() == ["usr/local/sbin/haproxy"]
    assert len(heard) == len(release.files) + len(release.images)


async def test_created_twice_is_the_same_bytes_and_asks_little(
    mirror: HttpSource, web: Web, cache: FileCache, tmp_path: Path
) -> None:
    await create_bundle(request(tmp_path, "one"), Sources([mirror]), cache, say=quiet)
    web.asked.clear()
    await create_bundle(request(tmp_path, "two"), Sources([mirror]), cache, say=quiet)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert not [asked.path for asked in web.asked if "/blobs/" in asked.path or asked.path.endswith("/kubeadm")]
    await create_bundle(request(tmp_path, "three.tar.zst"), Sources([mirror]), cache, say=quiet)
    pack(tmp_path / "one", tmp_path / "one.tar.zst")
    assert (tmp_path / "three.tar.zst").read_bytes() == (tmp_path / "one.tar.zst").read_bytes()
    assert not list(tmp_path.glob(".*"))


async def test_features_leave_out_what_is_not_used(mirror: HttpSource, cache: FileCache, tmp_path: Path) -> None:
    wanted = request(tmp_path, features=("binary", "systemdEtcd"))
    manifest = await create_bundle(wanted, Sources([mirror]), cache, say=quiet)
    assert "kubeadm" not in {file.name for file in manifest.files}
    assert {image.name for image in manifest.images} == {"pause", "coredns"}
    with pytest.raises(AssetError, match="unknown features: flanel"):
        await create_bundle(request(tmp_path, features=("flanel",)), Sources([mirror]), cache, say=quiet)


async def test_two_versions_share_what_is_the_same(
    mirror: HttpSource, web: Web, registry: Registry, cache: FileCache, tmp_path: Path
) -> None:
    publish(web, registry, "v1.34.1")
    wanted = request(tmp_path, kubernetes=("v1.34.1", KUBERNETES))
    manifest = await create_bundle(wanted, Sources([mirror]), cache, say=quiet)
    assert manifest.file("etcd", "v1.34.1").version == "v3.6.4"
    assert manifest.file("etcd", KUBERNETES).version == "v3.6.5"
    assert manifest.file("runc", KUBERNETES) == manifest.file("runc", "v1.34.1")
    with pytest.raises(AssetError, match="say for which Kubernetes version"):
        manifest.file("kubeadm")
    assert verify(tmp_path / "bundle").ok


@pytest.mark.parametrize("how", [{"host": False}, {"prefix": "/deep/down"}])
async def test_mirrors_with_and_without_host_names(
    web: Web, client: httpx.AsyncClient, cache: FileCache, retry: Retry, how: dict[str, object]
) -> None:
    publish(web, Registry(web, pages_too=True), **how)  # type: ignore[arg-type]
    source = HttpSource(client, cache, mirror=f"{web.url}{how.get('prefix', '')}/", retry=retry)
    found = await source.file("etcd", KUBERNETES, "amd64")
    assert found.local.read_bytes() == content(found.path)
    assert found.sha256 == hashlib.sha256(content(found.path)).hexdigest()


async def test_a_file_that_does_not_fit_its_sum_is_an_error(
    mirror: HttpSource, web: Web, cache: FileCache, tmp_path: Path
) -> None:
    path = "/" + catalog.release(KUBERNETES, "amd64").file("runc").path
    web.put(path, b"something else")
    with pytest.raises(Damaged, match=r"runc\.amd64 is not what it should be: expected sha256 .* got sha256"):
        await create_bundle(request(tmp_path), Sources([mirror, mirror]), cache, say=quiet)
    assert not (tmp_path / "bundle").exists()
    assert not list(tmp_path.glob(".*"))


async def test_pinned_sums_are_the_only_ones_that_count(
    web: Web, registry: Registry, client: httpx.AsyncClient, cache: FileCache, retry: Retry, tmp_path: Path
) -> None:
    asset = catalog.release(KUBERNETES, "amd64").file("runc")
    good = hashlib.sha256(content(asset.path)).hexdigest()
    for sum_, fits in ((good, True), ("0" * 64, False)):
        (tmp_path / "SUMS").write_text(f"{sum_}  {asset.path}\n")
        source = HttpSource(client, cache, mirror=web.url, pinned=PinnedSums.load(tmp_path / "SUMS"), retry=retry)
        web.asked.clear()
        if fits:
            assert (await source.file("runc", KUBERNETES, "amd64")).sha256 == good
            assert not [asked for asked in web.asked if "sha256sum" in asked.path]
        else:
            with pytest.raises(Damaged, match="expected sha256 0000"):
                await source.file("runc", KUBERNETES, "amd64")
    with pytest.raises(AssetError, match="has no sum for"):
        await source.file("etcd", KUBERNETES, "amd64")


async def test_a_manifest_must_fit_the_sum_in_the_catalog(
    mirror: HttpSource, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"kind: ConfigMap\n"
    entry = {
        "name": "web",
        "component": "web",
        "version": "helm",
        "url": "https://example.com/web/{version}.yaml",
        "licence": "Apache-2.0",
        "roles": ["controlPlane"],
    }
    version = catalog.release(KUBERNETES, "amd64").versions["helm"]
    components = copy.deepcopy(catalog_load._components())
    monkeypatch.setattr(catalog_load, "_components", lambda: components)
    web.put(f"/example.com/web/{version}.yaml", text)
    try:
        components["manifest"] = [{**entry, "sha256": {version: hashlib.sha256(text).hexdigest()}}]
        catalog_load._release.cache_clear()
        assert (await mirror.file("web", KUBERNETES, "amd64")).local.read_bytes() == text
        components["manifest"] = [{**entry, "sha256": {version: "0" * 64}}]
        catalog_load._release.cache_clear()
        with pytest.raises(AssetError, match="0000"):
            await mirror.file("web", KUBERNETES, "amd64")
        components["manifest"] = [entry]
        catalog_load._release.cache_clear()
        with pytest.raises(AssetError, match=r"sha256 of web .* is not known") as caught:
            await mirror.file("web", KUBERNETES, "amd64")
        assert "pin the sum" in caught.value.hint
    finally:
        catalog_load._release.cache_clear()


async def test_sources_are_asked_in_the_users_order(
    mirror: HttpSource, web: Web, client: httpx.AsyncClient, cache: FileCache, retry: Retry, tmp_path: Path
) -> None:
    sample_bundle(tmp_path / "small")
    web.asked.clear()
    with Bundle.open(tmp_path / "small") as bundle:
        sources = Sources([BundleSource(bundle, cache), mirror])
        kubeadm = await sources.file("kubeadm", KUBERNETES, "amd64")
        assert kubeadm.local.is_relative_to(tmp_path / "small")
        assert not web.asked
        assert (await sources.file("runc", KUBERNETES, "amd64")).local.is_relative_to(tmp_path / "cache")
        assert (await sources.image("pause", KUBERNETES, "amd64")).image.manifest.digest == bundle.manifest.image(
            "pause"
        ).digest
        assert (await sources.image("coredns", KUBERNETES, "amd64")).reference.startswith("registry.k8s.io/coredns")
        first = Sources([mirror, BundleSource(bundle, cache)])
        assert (await first.file("kubeadm", KUBERNETES, "amd64")).local.is_relative_to(tmp_path / "cache")


async def test_when_no_source_has_it_each_is_named(
    client: httpx.AsyncClient, cache: FileCache, retry: Retry, web: Web, tmp_path: Path
) -> None:
    sample_bundle(tmp_path / "small")
    Registry(web, pages_too=True)
    with Bundle.open(tmp_path / "small") as bundle:
        gone = HttpSource(client, cache, mirror="http://127.0.0.1:1", retry=retry)
        empty = HttpSource(client, cache, mirror=web.url, retry=retry)
        sources = Sources([BundleSource(bundle, cache), gone, empty])
        with pytest.raises(AssetError, match="the file runc for Kubernetes v1") as caught:
            await sources.file("runc", KUBERNETES, "amd64")
        message = caught.value.message
        assert f"bundle {tmp_path / 'small'}: the bundle holds no file 'runc'" in message
        assert "mirror http://127.0.0.1:1: " in message
        assert "no connection" in message
        assert f"mirror {web.url}: " in message
        assert "is not there (HTTP 404)" in message
        with pytest.raises(AssetError, match="the bundle is for amd64"):
            await Sources([BundleSource(bundle, cache)]).image("pause", KUBERNETES, "arm64")
        with pytest.raises(NotThere, match=r"the bundle is for Kubernetes v1\.34\.4"):
            await BundleSource(bundle, cache).file("kubeadm", "v1.33.1", "amd64")
    with pytest.raises(AssetError, match="nowhere to take files from"):
        Sources([])
    with pytest.raises(AssetError, match="is not a URL"):
        HttpSource(client, cache, mirror="mirror.example.com")


async def test_a_damaged_bundle_is_not_passed_over(mirror: HttpSource, cache: FileCache, tmp_path: Path) -> None:
    manifest = sample_bundle(tmp_path / "small")
    victim = tmp_path / "small" / manifest.file("kubeadm").path
    victim.write_bytes(b"?" + victim.read_bytes()[1:])
    with Bundle.open(tmp_path / "small") as bundle, pytest.raises(Damaged, match="kubeadm is damaged"):
        await Sources([BundleSource(bundle, cache), mirror]).file("kubeadm", KUBERNETES, "amd64")


async def test_files_of_an_archive_go_through_the_cache(cache: FileCache, tmp_path: Path) -> None:
    sample_bundle(tmp_path / "small")
    pack(tmp_path / "small", tmp_path / "small.tar.zst")
    with Bundle.open(tmp_path / "small.tar.zst") as bundle:
        source = BundleSource(bundle, cache)
        found = await source.file("kubeadm", KUBERNETES, "amd64")
        assert found.local.read_bytes() == b"kubeadm" * 1000
        assert found.install is not None
        assert await source.file("kubeadm", KUBERNETES, "amd64") == found


async def test_two_downloads_at_once_into_one_cache(
    mirror: HttpSource, web: Web, client: httpx.AsyncClient, cache: FileCache, retry: Retry
) -> None:
    other = HttpSource(client, FileCache(cache.directory), mirror=web.url, retry=retry)
    path = "/" + catalog.release(KUBERNETES, "amd64").file("runc").path
    one, two = await asyncio.gather(mirror.file("runc", KUBERNETES, "amd64"), other.file("runc", KUBERNETES, "amd64"))
    assert one.local == two.local
    assert len(web.ranges(path)) == 1
    assert [each.name for each in one.local.parent.iterdir()] == [one.sha256]


async def test_a_cached_file_that_rotted_is_fetched_again(mirror: HttpSource, cache: FileCache) -> None:
    found = await mirror.file("runc", KUBERNETES, "amd64")
    found.local.write_bytes(b"rot")
    again = await mirror.file("runc", KUBERNETES, "amd64")
    assert again.local.read_bytes() == content(again.path)


async def test_the_first_failure_stops_the_rest(mirror: HttpSource, web: Web, cache: FileCache, tmp_path: Path) -> None:
    for page in web.pages.values():
        page.fail_with = [(503, {})] * 50
    with pytest.raises(AssetError, match="not to be had"):
        await create_bundle(request(tmp_path), Sources([mirror]), cache, say=quiet)
    assert not (tmp_path / "bundle").exists()


async def test_unreachable_is_told_apart(client: httpx.AsyncClient, cache: FileCache, retry: Retry) -> None:
    source = HttpSource(
        client,
        cache,
        access=RegistryAccess(mirrors=parse_mirrors(["http://127.0.0.1:1"])),
        mirror="http://127.0.0.1:1",
        retry=retry,
    )
    with pytest.raises(Unreachable):
        await source.file("runc", KUBERNETES, "amd64")
    with pytest.raises(NotThere, match="the catalog has no 'nonsense'"):
        await source.file("nonsense", KUBERNETES, "amd64")


def deb(path: Path, name: str, *, arch: str = "amd64", kind: str = "gz") -> Path:
    """A Debian package with nothing in it but its control data."""
    control = f"Package: {name}\nVersion: 1:2.0-1\nArchitecture: {arch}\nDescription: x\n more: of it\n".encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{kind}") as archive:  # type: ignore[call-overload]
        info = tarfile.TarInfo("./control")
        info.size = len(control)
        archive.addfile(info, io.BytesIO(control))
    members = [("debian-binary", b"2.0\n"), (f"control.tar.{kind}", out.getvalue())]
    data = b"!<arch>\n"
    for member, inside in members:
        data += f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(inside):<10}`\n".encode() + inside
        data += b"\n" * (len(inside) % 2)
    path.write_bytes(data)
    return path


def rpm(path: Path, name: str) -> Path:
    """An RPM package with nothing in it but its headers."""

    def header(tags: list[tuple[int, str]]) -> bytes:
        store, index = b"", b""
        for tag, value in tags:
            index += struct.pack(">IIII", tag, 6, len(store), 1)
            store += value.encode() + b"\x00"
        return b"\x8e\xad\xe8\x01\x00\x00\x00\x00" + struct.pack(">II", len(tags), len(store)) + index + store

    signature = header([(1000, "signature")])
    main = header([(1000, name), (1001, "3.1"), (1002, "2.el9"), (1014, "GPLv2+"), (1022, "x86_64")])
    path.write_bytes(b"\xed\xab\xee\xdb" + bytes(92) + signature + bytes(-len(signature) % 8) + main)
    return path


def test_packages_say_what_they_are(tmp_path: Path) -> None:
    for kind in ("gz", "xz"):
        info = read_package(deb(tmp_path / "a.deb", "socat", kind=kind))
        assert (info.name, info.version, info.arch, info.manager) == ("socat", "1:2.0-1", "amd64", "apt")
    info = read_package(rpm(tmp_path / "a.rpm", "socat"))
    assert (info.name, info.version, info.arch, info.licence) == ("socat", "3.1-2.el9", "amd64", "GPLv2+")
    whole = (tmp_path / "a.deb").read_bytes()
    for cut in range(8, len(whole), 11):
        (tmp_path / "cut.deb").write_bytes(whole[:cut])
        with pytest.raises(AssetError, match=r"cut\.deb cannot be read"):
            read_package(tmp_path / "cut.deb")
    (tmp_path / "x").write_text("x")
    with pytest.raises(AssetError, match="neither a Debian nor an RPM"):
        read_package(tmp_path / "x")


async def test_packages_go_into_a_bundle(mirror: HttpSource, cache: FileCache, tmp_path: Path) -> None:
    debs = tmp_path / "debs"
    debs.mkdir()
    names = [package.name for package in catalog.packages("apt")]
    for name in [*names, "libmnl0"]:
        deb(debs / f"{name}.deb", name, arch="all" if name == "kmod" else "amd64")
    group = PackageDirectory(target="debian-12-amd64", directory=debs)
    wanted = request(tmp_path, packages=(group,), features=("binary",))
    manifest = await create_bundle(wanted, Sources([mirror]), cache, say=quiet)
    (found,) = manifest.packages
    assert found.requested == tuple(sorted(names))
    assert {package.name for package in found.packages} == {*names, "libmnl0"}
    assert verify(tmp_path / "bundle").ok


@pytest.mark.parametrize(
    ("names", "arch", "telling"),
    [
        ([], "amd64", r"holds no \.deb or \.rpm"),
        (["socat"], "amd64", "lacks conntrack"),
        (None, "arm64", "is for arm64"),
    ],
)
def test_package_directories_that_will_not_do(tmp_path: Path, names: list[str] | None, arch: str, telling: str) -> None:
    debs = tmp_path / "debs"
    debs.mkdir()
    for name in [package.name for package in catalog.packages("apt")] if names is None else names:
        deb(debs / f"{name}.deb", name, arch=arch)
    with (
        BundleWriter(tmp_path / "b", kubernetes=[KUBERNETES], arch="amd64") as writer,
        pytest.raises(AssetError, match=telling),
    ):
        add_package_directory(writer, debs, target="debian-12-amd64")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEXM_CACHE", str(tmp_path / "own"))
    assert default_cache() == tmp_path / "own"
    monkeypatch.delenv("KUBEXM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg/kubexm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache/kubexm"


def provide(
    specs: list[SourceSpec], tmp_path: Path, web: Web, retry: Retry, **more: object
) -> Coroutine[Any, Any, Path]:
    access = RegistryAccess(mirrors=parse_mirrors([web.url]))
    values: dict[str, object] = {"kubernetes": KUBERNETES, "arch": "amd64", "features": ["binary"]}
    return provide_bundle(
        specs,
        options=SourceOptions(access=access, trust_env=False, retry=retry),
        cache=tmp_path / "cache",
        **(values | more),  # type: ignore[arg-type]
    )


async def test_a_bundle_that_has_all_is_used_as_it_is(
    web: Web, registry: Registry, cache: FileCache, mirror: HttpSource, retry: Retry, tmp_path: Path
) -> None:
    await create_bundle(request(tmp_path, "whole"), Sources([mirror]), cache, say=quiet)
    web.asked.clear()
    specs = [SourceSpec(bundle=tmp_path / "whole"), SourceSpec(mirror=web.url)]
    assert await provide(specs, tmp_path, web, retry) == tmp_path / "whole"
    assert not web.asked


async def test_otherwise_one_is_put_together_once(web: Web, registry: Registry, retry: Retry, tmp_path: Path) -> None:
    sample_bundle(tmp_path / "part")
    pack(tmp_path / "part", tmp_path / "part.tar.zst")
    specs = [SourceSpec(bundle=tmp_path / "part.tar.zst"), SourceSpec(mirror=web.url)]
    made = await provide(specs, tmp_path, web, retry)
    with Bundle.open(made) as bundle:
        assert covers(bundle, kubernetes=KUBERNETES, arch="amd64", features=["binary"])
        assert not covers(bundle, kubernetes=KUBERNETES, arch="amd64", features=["flannel"])
        assert not covers(bundle, kubernetes=KUBERNETES, arch="arm64", features=["binary"])
        assert "kubeadm" not in {file.name for file in bundle.manifest.files}
        assert [group.target for group in bundle.manifest.packages] == ["debian-12-amd64"], "packages come along"
        assert bundle.manifest.packages[0].requested == ("conntrack",)
    web.asked.clear()
    assert await provide(specs, tmp_path, web, retry) == made
    assert not web.asked
    other = await provide(specs, tmp_path, web, retry, features=["binary", "helm"])
    assert other != made
    with pytest.raises(AssetError, match="not both"):
        SourceSpec(bundle=tmp_path, mirror=web.url)
