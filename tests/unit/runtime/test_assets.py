"""What is at hand of a cluster's assets: from the catalog alone, from bundles, and what is refused before a run."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.assets import Bundle, pack
from kubexm.errors import AssetError
from kubexm.redact import Redactor, SecretRef
from kubexm.runtime import AssetShelf, SecretStore, features_of, registry_secret
from kubexm.runtime.stock import Stock
from tests.unit.runtime.bundles import KUBERNETES, content_of, whole_bundle
from tests.unit.runtime.clusters import HEAD

HOSTS = """
hosts:
  - {name: cp1, address: 10.0.0.1}
  - {name: w1, address: 10.0.0.2}
roleGroups: {etcd: [cp1], controlPlane: [cp1], worker: [w1]}
"""


def cluster_of(more: str = "", hosts: str = HOSTS) -> Cluster:
    body = "".join(f"  {line}\n" for line in f"{hosts}{more}".strip("\n").splitlines())
    return config.loads(HEAD + body, name="test.yaml").cluster


def sourced(*places: Path, more: str = "") -> Cluster:
    listed = ", ".join(f"{{bundle: {place}}}" for place in places)
    return cluster_of(f"kubernetes: {{version: {KUBERNETES}}}\nassets: {{sources: [{listed}]}}\n{more}")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return whole_bundle(tmp_path / "bundle", packages=["conntrack"])


def stock(cluster: Cluster, tmp_path: Path) -> Stock:
    return Stock(cluster, tmp_path, cache=tmp_path / "cache")


def test_features_follow_the_file() -> None:
    assert features_of(cluster_of()) == ("kubeadm", "systemdEtcd", "haproxy", "flannel", "localPath", "verify")
    binary = cluster_of("kubernetes: {type: kubexm}\nnetwork: {plugin: none}\nstorage: {localPath: {enabled: false}}\n")
    assert features_of(binary) == ("binary", "systemdEtcd", "haproxy", "verify")
    alone = "hosts: [{name: n, address: 10.0.0.1}]\nroleGroups: {etcd: [n], controlPlane: [n], worker: [n]}\n"
    assert "haproxy" not in features_of(cluster_of(hosts=alone)), "nobody needs a way to another host's API"
    stacked = cluster_of("etcd: {type: kubeadm}\naddons: [{name: x, chart: {path: ./x.tgz}}]\n")
    assert {"stackedEtcd", "helm"} <= set(features_of(stacked))


def test_the_catalog_tells_names_and_places_but_no_sums() -> None:
    shelf = AssetShelf(cluster_of("kubernetes: {version: v1.33.13}\netcd: {version: v3.5.26}\n"))
    kubelet = shelf.file("kubelet", "arm64")
    assert (kubelet.version, str(kubelet.install.to), kubelet.sha256) == ("v1.33.13", "/usr/local/bin/kubelet", "")
    assert "arm64" in kubelet.path
    assert shelf.file("etcd", "amd64").version == "v3.5.26", "the file's choice wins"
    assert shelf.image("kube-apiserver").reference == "registry.k8s.io/kube-apiserver:v1.33.13"
    with pytest.raises(AssetError, match="no bundle at hand for amd64"):
        shelf.bundle("amd64")


async def test_a_bundle_tells_sums_and_gives_bytes(bundle: Path, tmp_path: Path) -> None:
    shelf = await stock(sourced(bundle), tmp_path).fill(["amd64"], unpack=True)
    file = shelf.file("kubelet", "amd64")
    assert len(file.sha256) == 64
    assert shelf.local(file.path, "amd64", sha256=file.sha256).read_bytes() == content_of("kubelet")
    with pytest.raises(AssetError, match="was planned"):
        shelf.local(file.path, "amd64", sha256="0" * 64)
    packages = shelf.packages("debian-12-amd64")
    assert packages is not None
    assert packages.requested == ("conntrack",)
    assert shelf.packages("debian-13-amd64") is None


async def test_images_go_by_role(bundle: Path, tmp_path: Path) -> None:
    shelf = await stock(sourced(bundle), tmp_path).fill(["amd64"], unpack=True)
    worker = {image.name for image in shelf.images({"worker"}, "amd64")}
    plane = {image.name for image in shelf.images({"controlPlane", "etcd"}, "amd64")}
    assert plane - worker == {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    assert {"pause", "kube-proxy", "flannel", "coredns", "agnhost", "busybox"} <= worker
    assert "etcd" not in plane, "etcd runs under systemd"
    assert shelf.images({"etcd"}, "amd64") == (), "a host that is no node has no containerd"
    sizes = [image.size for image in shelf.images({"worker"}, "amd64")]
    assert sizes == sorted(sizes, reverse=True)
    assert {image.name for image in AssetShelf(sourced(bundle)).images({"worker"}, "amd64")} == worker


async def test_a_private_registry_renames_images(bundle: Path, tmp_path: Path) -> None:
    private = sourced(bundle, more="registry: {private: registry.example.com:5000/k8s}\n")
    assert AssetShelf(private).image("coredns").reference == "registry.example.com:5000/k8s/coredns/coredns:v1.12.1"
    shelf = await stock(private, tmp_path).fill(["amd64"], unpack=True)
    archive, sha256 = await shelf.archive(["pause", "coredns"], "amd64")
    assert b"registry.example.com:5000/k8s/coredns/coredns:v1.12.1" in archive.read_bytes()
    assert await shelf.archive(["coredns", "pause"], "amd64") == (archive, sha256), "made once"


async def test_with_a_private_registry_files_are_enough(tmp_path: Path) -> None:
    files = whole_bundle(tmp_path / "files", images=False)
    shelf = await stock(sourced(files, more="registry: {private: r.example.com}\n"), tmp_path).fill(
        ["amd64"], unpack=True
    )
    pause = shelf.image("pause")
    assert (pause.bundled, pause.reference) == (False, "r.example.com/pause:3.10.1")
    assert {image.bundled for image in shelf.images({"worker"}, "amd64")} == {False}
    mirrored = sourced(files, more="registry: {mirrors: {registry.k8s.io: ['https://m.example.com']}}\n")
    assert not (await stock(mirrored, tmp_path).fill(["amd64"], unpack=True)).image("pause").bundled
    with pytest.raises(AssetError, match=r"image .* is not to be had"):
        await stock(sourced(files), tmp_path).fill(["amd64"], unpack=True)


async def test_each_architecture_has_its_bundle(tmp_path: Path) -> None:
    amd, arm = whole_bundle(tmp_path / "amd"), whole_bundle(tmp_path / "arm", arch="arm64")
    shelf = await stock(sourced(amd, arm), tmp_path).fill(["amd64", "arm64"], unpack=True)
    assert shelf.arches == ("amd64", "arm64")
    assert shelf.bundle("arm64").path == arm, "it is read where it is"
    assert shelf.file("runc", "amd64").sha256 != shelf.file("runc", "arm64").sha256


async def test_a_packed_bundle_is_unpacked_once(bundle: Path, tmp_path: Path) -> None:
    packed = tmp_path / "b.tar.zst"
    pack(bundle, packed)
    planned = await stock(sourced(packed), tmp_path).fill(["amd64"], unpack=False)
    assert planned.file("kubelet", "amd64").sha256
    assert not (tmp_path / "cache" / "unpacked").exists(), "planning reads its manifest"
    planned.close()
    for _ in range(2):
        shelf = await stock(sourced(packed), tmp_path).fill(["amd64"], unpack=True)
        file = shelf.file("kubelet", "amd64")
        assert shelf.local(file.path, "amd64").read_bytes() == content_of("kubelet")
    assert len(list((tmp_path / "cache" / "unpacked").iterdir())) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kubernetes": "v1.33.13"}, "is for Kubernetes v1.33.13 on amd64"),
        ({"arch": "arm64"}, "is for Kubernetes v1.34.4 on arm64"),
        ({"without": ["kubelet"]}, "the file kubelet for Kubernetes v1.34.4 on amd64 is not to be had"),
    ],
)
async def test_a_bundle_for_something_else_is_refused(wrong: dict[str, object], message: str, tmp_path: Path) -> None:
    place = whole_bundle(tmp_path / "other", **wrong)  # type: ignore[arg-type]
    with pytest.raises(AssetError, match=message):
        await stock(sourced(place), tmp_path).fill(["amd64"], unpack=True)


async def test_a_damaged_bundle_is_refused_also_later(bundle: Path, tmp_path: Path) -> None:
    cluster = sourced(bundle)
    shelf = await stock(cluster, tmp_path).fill(["amd64"], unpack=True)
    place = shelf.local(shelf.file("kubelet", "amd64").path, "amd64")
    good = place.read_bytes()
    place.write_bytes(bytes(len(good)))
    with pytest.raises(AssetError, match=r"(?s)is damaged:.*kubelet is not what the manifest says"):
        await stock(cluster, tmp_path).fill(["amd64"], unpack=True)
    place.write_bytes(good[:-1])
    with pytest.raises(AssetError, match=f"has {len(good) - 1} bytes instead of {len(good)}"):
        await stock(cluster, tmp_path).fill(["amd64"], unpack=True)
    place.write_bytes(good)
    await stock(cluster, tmp_path).fill(["amd64"], unpack=True)


async def test_a_bundle_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"there is no bundle .*gone"):
        await stock(sourced(tmp_path / "gone"), tmp_path).fill(["amd64"], unpack=True)


async def test_another_version_than_the_file_asks_for_is_refused(bundle: Path, tmp_path: Path) -> None:
    text = f"kubernetes: {{version: {KUBERNETES}, containerRuntime: {{version: v2.1.4}}}}\n"
    cluster = cluster_of(f"{text}assets: {{sources: [{{bundle: {bundle}}}]}}\n")
    with pytest.raises(AssetError, match=r"holds containerd v2\.1\.9, and the file asks for v2\.1\.4"):
        await stock(cluster, tmp_path).fill(["amd64"], unpack=True)


def test_offline_the_bundle_at_hand_is_used_and_a_missing_one_is_not_missed(bundle: Path, tmp_path: Path) -> None:
    assert stock(sourced(bundle), tmp_path).at_hand(["amd64"]).file("kubelet", "amd64").sha256
    shelf = stock(sourced(bundle), tmp_path).at_hand(["amd64", "arm64"])
    assert not shelf.file("kubelet", "arm64").sha256
    shutil.rmtree(bundle)
    assert not stock(sourced(bundle), tmp_path).at_hand(["amd64"]).file("kubelet", "amd64").sha256


async def test_what_was_planned_must_be_at_hand(bundle: Path, tmp_path: Path) -> None:
    shelf = await stock(sourced(bundle), tmp_path).fill(["amd64"], unpack=True)
    shelf.refuse_others([shelf.file("kubelet", "amd64").sha256])
    with pytest.raises(AssetError, match="1 of the files that were planned are not in it"):
        shelf.refuse_others(["f" * 64])


def test_logins_are_kept_as_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter22")
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nabc\n")
    auths = (
        "registry: {auths: {'r.example.com:5000': {username: ci, password: 'env:REGISTRY_PASSWORD', caFile: ca.pem}}}"
    )
    redactor = Redactor()
    secrets = SecretStore(tmp_path / "secrets", redactor)
    (tmp_path / "secrets").mkdir()
    Stock(cluster_of(auths), tmp_path, redactor=redactor).keep_secrets(secrets)
    login = secrets.get(SecretRef(registry_secret("r.example.com:5000", "login"))).reveal()
    assert base64.b64decode(login) == b"ci:hunter22"
    assert "BEGIN" in secrets.get(SecretRef(registry_secret("r.example.com:5000", "ca"))).reveal()
    assert "hunter22" not in redactor("the password is hunter22")
    assert login not in redactor(f"Basic {login}")
    assert (tmp_path / "secrets" / registry_secret("r.example.com:5000", "login")).stat().st_mode & 0o777 == 0o600


def test_manifests_of_whole_bundles_are_whole(bundle: Path) -> None:
    with Bundle.open(bundle) as opened:
        assert len(opened.manifest.files) > 10
