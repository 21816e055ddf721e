"""The catalog: complete for every minor, and true to what kubeadm of each version deploys."""

from __future__ import annotations

import itertools

import pytest

from kubexm import releases
from kubexm.assets import ROLES, catalog
from kubexm.assets.catalog.load import _components
from kubexm.assets.layout import problem_with_path
from kubexm.assets.names import kubernetes_minor, version_key
from kubexm.errors import AssetError

SUPPORTED = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
OPTIONAL = {"etcd-bridge"}

KUBEADM = {  # from cmd/kubeadm/app/constants of each release: etcd, CoreDNS, pause
    "v1.30.0": ("3.5.12-0", "v1.11.1", "3.9"),
    "v1.30.4": ("3.5.12-0", "v1.11.1", "3.9"),
    "v1.30.5": ("3.5.15-0", "v1.11.3", "3.9"),
    "v1.31.0": ("3.5.15-0", "v1.11.1", "3.10"),
    "v1.31.13": ("3.5.15-0", "v1.11.3", "3.10"),
    "v1.31.14": ("3.5.24-0", "v1.11.3", "3.10"),
    "v1.32.9": ("3.5.16-0", "v1.11.3", "3.10"),
    "v1.32.10": ("3.5.24-0", "v1.11.3", "3.10"),
    "v1.33.5": ("3.5.21-0", "v1.12.0", "3.10"),
    "v1.33.6": ("3.5.24-0", "v1.12.0", "3.10"),
    "v1.34.1": ("3.6.4-0", "v1.12.1", "3.10.1"),
    "v1.34.4": ("3.6.5-0", "v1.12.1", "3.10.1"),
    "v1.35.0": ("3.6.6-0", "v1.13.1", "3.10.1"),
    "v1.36.4": ("3.6.8-0", "v1.14.2", "3.10.2"),
    "v1.37.1": ("3.7.0-0", "v1.14.6", "3.10.2"),
}
CONTAINERD_RECOMMENDS = {  # the lines containerd's own matrix lists, with their least patch
    "1.30": {"1.7": 13, "2.0": 0},
    "1.31": {"1.7": 20, "2.0": 0},
    "1.32": {"1.7": 24, "2.0": 1, "2.1": 0},
    "1.33": {"1.7": 24, "2.0": 4, "2.1": 0},
    "1.34": {"1.7": 28, "2.0": 6, "2.1": 3},
    "1.35": {"1.7": 28, "2.1": 5, "2.2": 0},
    "1.36": {"2.2": 0, "2.3": 0},
    "1.37": {"2.3": 0},
}
EVERY = [(minor, arch) for minor, arch in itertools.product(SUPPORTED, ("amd64", "arm64"))]


def test_every_supported_minor_is_there() -> None:
    assert catalog.minors() == SUPPORTED


@pytest.mark.parametrize("minor", SUPPORTED)
def test_a_minor_names_every_version_and_no_other(minor: str) -> None:
    items = [*_components()["file"], *_components()["image"]]
    wanted = {item["version"] for item in items} - {catalog.KUBERNETES}
    data = releases.kubernetes_data(minor)
    assert data["minor"] == minor
    assert set(data["versions"]) <= wanted
    assert wanted - set(data["versions"]) <= OPTIONAL
    assert kubernetes_minor(catalog.newest(minor)) == minor
    for since, changes in data.get("since", {}).items():
        assert kubernetes_minor(since) == minor
        assert version_key(since) <= version_key(catalog.newest(minor))
        assert set(changes) <= wanted


@pytest.mark.parametrize(("minor", "arch"), EVERY)
def test_every_asset_is_complete(minor: str, arch: str) -> None:
    release = catalog.release(catalog.newest(minor), arch)
    for file in release.files:
        assert not problem_with_path(f"files/{file.path}")
        assert "{" not in file.path + file.url + file.sums_path + file.rootfs
        assert file.version
        assert file.licence
        assert file.roles
        assert file.install is not None, "no manifest and no chart is listed yet"
        assert file.install.to.is_absolute()
        if file.rootfs:
            assert not file.url
        else:
            assert file.url == f"https://{file.path}"
            assert arch in file.path
            assert file.sums_path
            assert file.sums_path.split("/")[0] == file.path.split("/")[0]
    for image in release.images:
        assert image.reference.endswith(f":{image.version}")
        assert image.roles
        assert image.licence
    for assets in (release.files, release.images):
        names = [asset.name for asset in assets]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("minor", SUPPORTED)
def test_every_role_gets_something(minor: str) -> None:
    release = catalog.release(catalog.newest(minor), "amd64")
    for role in ROLES:
        part = release.select(roles=[role])
        assert part.files or part.images, role


@pytest.mark.parametrize("version", KUBEADM)
def test_images_are_those_kubeadm_deploys(version: str) -> None:
    release = catalog.release(version, "amd64")
    etcd, coredns, pause = KUBEADM[version]
    assert release.image("etcd").reference == f"registry.k8s.io/etcd:{etcd}"
    assert release.image("coredns").reference == f"registry.k8s.io/coredns/coredns:{coredns}"
    assert release.image("pause").reference == f"registry.k8s.io/pause:{pause}"
    assert release.image("kube-apiserver").reference == f"registry.k8s.io/kube-apiserver:{version}"
    assert release.file("etcd").version == "v" + etcd.removesuffix("-0")


@pytest.mark.parametrize("minor", SUPPORTED)
def test_containerd_is_of_a_recommended_line(minor: str) -> None:
    major, middle, patch = catalog.release(catalog.newest(minor), "amd64").versions["containerd"][1:].split(".")
    assert int(patch) >= CONTAINERD_RECOMMENDS[minor][f"{major}.{middle}"]


def test_workers_get_no_control_plane_images() -> None:
    worker = catalog.release("v1.34.4", "amd64").select(roles=["worker"], features=["kubeadm", "flannel"])
    names = {image.name for image in worker.images}
    assert names == {"kube-proxy", "pause", "coredns", "flannel", "flannel-cni-plugin"}
    assert "kube-apiserver" not in {file.name for file in worker.files}
    assert "kubeadm" in {file.name for file in worker.files}


def test_features_choose_between_the_two_ways() -> None:
    release = catalog.release("v1.34.4", "amd64")
    binary = release.select(roles=["controlPlane"], features=["binary", "systemdEtcd"])
    assert "kube-apiserver" in {file.name for file in binary.files}
    assert "kube-apiserver" not in {image.name for image in binary.images}
    assert "kubeadm" not in {file.name for file in binary.files}


def test_a_version_can_be_replaced() -> None:
    release = catalog.release("v1.34.4", "amd64", versions={"containerd": "v2.1.4"})
    assert release.file("containerd").path.endswith("/v2.1.4/containerd-2.1.4-linux-amd64.tar.gz")
    with pytest.raises(AssetError, match="no component 'containrd'") as caught:
        catalog.release("v1.34.4", "amd64", versions={"containrd": "v2.1.4"})
    assert "'containerd'" in caught.value.hint


def test_unknown_versions_say_what_is_known() -> None:
    with pytest.raises(AssetError, match=r"Kubernetes 1\.29 is not in the catalog") as caught:
        catalog.release("v1.29.1", "amd64")
    assert "1.30" in caught.value.hint
    with pytest.raises(AssetError, match=r"'1\.34' is not a Kubernetes version"):
        catalog.release("1.34", "amd64")
    with pytest.raises(AssetError, match="'x86_64' is not an architecture"):
        catalog.release("v1.34.4", "x86_64")
    with pytest.raises(AssetError, match="no file 'kubadm'"):
        catalog.release("v1.34.4", "amd64").file("kubadm")


@pytest.mark.parametrize("manager", ["apt", "dnf", "zypper"])
def test_packages_are_known_for_each_manager(manager: str) -> None:
    names = {package.name for package in catalog.packages(manager)}
    assert {"socat", "ipset", "ethtool"} <= names
    assert any(name.startswith("conntrack") for name in names)


def test_packages_of_an_unknown_manager() -> None:
    with pytest.raises(AssetError, match="'apk'"):
        catalog.packages("apk")


def test_a_minor_that_changes_the_minor_of_etcd_brings_the_version_in_between() -> None:
    for minor, before in zip(SUPPORTED[1:], SUPPORTED, strict=False):
        newer = catalog.release(catalog.newest(minor), "amd64").versions
        older = catalog.release(catalog.newest(before), "amd64").versions
        able = releases.etcd(newer["etcd"])
        if releases.etcd(older["etcd"]).minor == able.minor:
            assert "etcd-bridge" not in newer
            continue
        bridge = newer["etcd-bridge"]
        assert releases.parse_version(bridge) >= releases.parse_version(able.upgrade_from)
        assert releases.etcd(bridge).minor == releases.etcd(older["etcd"]).minor


def test_the_version_in_between_is_only_for_upgrades() -> None:
    release = catalog.release("v1.34.4", "amd64")
    assert release.file("etcd-bridge").version == release.image("etcd-bridge").version == "v3.5.33"
    made = release.select(features=["kubeadm", "systemdEtcd", "stackedEtcd"])
    assert "etcd-bridge" not in {*(file.name for file in made.files), *(image.name for image in made.images)}
    with pytest.raises(AssetError, match="no file 'etcd-bridge'"):
        catalog.release("v1.35.8", "amd64").file("etcd-bridge")
