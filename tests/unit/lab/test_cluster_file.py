"""The cluster file a lab writes is one kubexm takes."""

from __future__ import annotations

import os
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES
from kubexm.config import loads
from kubexm.errors import UsageError
from kubexm.lab import Lab
from kubexm.lab.bundle import BundleBuild
from kubexm.lab.cgroups import Hierarchy
from kubexm.lab.cluster_file import check_place, cluster_text
from kubexm.lab.shape import Wanted, first_record
from kubexm.lab.sources import BundleSource, built_bundle, named_bundle
from kubexm.lab.state import LabRecord, write_record


@pytest.fixture(autouse=True)
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control groups that are a directory: nobody has to have any mounted."""
    monkeypatch.setattr(
        "kubexm.lab.lab.hierarchies",
        lambda: (Hierarchy(root=tmp_path / "cgroup", version=2, is_systemd=True),),
    )


@pytest.mark.parametrize("name", ["lab", "a", "1", "1e3", "null"])
@pytest.mark.parametrize("hosts", [1, 2, 3, 5])
def test_kubexm_takes_it_as_it_is(tmp_path: Path, name: str, hosts: int) -> None:
    lab = _lab(tmp_path, name, Wanted(hosts=hosts))
    loaded = loads(_text(lab), name="lab.yaml")
    assert loaded.cluster.metadata.name == name
    assert loaded.warnings == ()


def test_roles_and_connections(tmp_path: Path) -> None:
    lab = _lab(tmp_path, "lab", Wanted(topology="1+2", flavours={"n3": "sudo-password"}))
    spec = loads(_text(lab), name="lab.yaml").cluster.spec
    assert spec.role_groups.control_plane == ("n1",)
    assert spec.role_groups.etcd == ("n1",)
    assert spec.role_groups.worker == ("n2", "n3")
    assert spec.global_.user == "root"
    assert spec.global_.private_key_path == str(lab.access.private_key)
    assert spec.global_.known_hosts_file == str(lab.access.known_hosts)
    assert [host.user for host in spec.hosts] == [None, None, "ops"]
    assert [host.address for host in spec.hosts] == ["10.210.9.11", "10.210.9.12", "10.210.9.13"]


def test_control_planes_alone_are_workers_too(tmp_path: Path) -> None:
    lab = _lab(tmp_path, "lab", Wanted(topology="3+0"))
    spec = loads(_text(lab), name="lab.yaml").cluster.spec
    assert spec.role_groups.worker == ("n1", "n2", "n3")
    assert all(host.roles == ("etcd", "control plane", "worker") for host in lab.hosts)


def test_no_secret_stands_in_it(tmp_path: Path) -> None:
    lab = _lab(tmp_path, "lab", Wanted(hosts=1, flavours={"n1": "sudo-password"}))
    lab.access.make("test")
    text = _text(lab)
    assert lab.access.sudo_password() not in text
    assert f"file:{lab.access.sudo_password_file}" in text


def test_the_connection_table_is_left_alone_only_where_it_must_be(tmp_path: Path) -> None:
    lab = _lab(tmp_path, "lab", Wanted(hosts=1))
    fixed = loads(_text(lab, conntrack_is_fixed=True), name="lab.yaml").cluster.spec.kubernetes
    assert fixed.kube_proxy.config == {"conntrack": {"maxPerCore": 0, "min": 0}}
    free = loads(_text(lab, conntrack_is_fixed=False), name="lab.yaml").cluster.spec.kubernetes
    assert free.kube_proxy.config == {}


def test_the_kubelet_accepts_cgroup_v1_only_where_there_is_no_other(tmp_path: Path) -> None:
    lab = _lab(tmp_path, "lab", Wanted(hosts=2))
    old = loads(_text(lab, cgroup_v1=True, conntrack_is_fixed=False), name="lab.yaml").cluster.spec.kubernetes
    assert old.kubelet.config == {"failCgroupV1": False}
    new = loads(_text(lab, cgroup_v1=False), name="lab.yaml").cluster.spec.kubernetes
    assert new.kubelet.config == {}


def test_a_bundle_is_named_where_there_is_one(tmp_path: Path) -> None:
    lab = _lab(tmp_path, "lab", Wanted(hosts=1))
    bundle = tmp_path / 'a "bundle": #1.tar.zst'
    (source,) = loads(_text(lab, bundle=BundleSource(path=bundle)), name="lab.yaml").cluster.spec.assets.sources
    assert source.bundle == str(bundle)


def test_on_cgroup_v1_the_file_names_a_version_that_runs_there_and_says_why(tmp_path: Path) -> None:
    lab = _lab(tmp_path, "lab", Wanted(hosts=2))
    bundle = BundleSource(path=tmp_path, kubernetes=("v1.36.4", "v1.34.4"))
    text = _text(lab, bundle=bundle, cgroup_v1=True)
    assert str(loads(text, name="lab.yaml").cluster.spec.kubernetes.version) == "v1.34.4"
    assert "    # This machine uses cgroup v1, which Kubernetes 1.35 and later refuse by default.\n" in text
    newer = _text(lab, bundle=bundle, cgroup_v1=False)
    assert str(loads(newer, name="lab.yaml").cluster.spec.kubernetes.version) == "v1.36.4"


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("v1.33.13",), "v1.33.13"),
        ((str(DEFAULT_KUBERNETES), "v1.33.13"), str(DEFAULT_KUBERNETES)),
        ((), str(DEFAULT_KUBERNETES)),
    ],
)
@pytest.mark.parametrize("conntrack_is_fixed", [True, False])
def test_the_version_is_one_the_bundle_has(
    tmp_path: Path, versions: tuple[str, ...], expected: str, conntrack_is_fixed: bool
) -> None:
    lab = _lab(tmp_path, "lab", Wanted(hosts=1))
    bundle = BundleSource(path=tmp_path, kubernetes=versions)
    text = _text(lab, bundle=bundle, conntrack_is_fixed=conntrack_is_fixed, cgroup_v1=False)
    assert str(loads(text, name="lab.yaml").cluster.spec.kubernetes.version) == expected


def test_the_bundle_built_last_is_found(tmp_path: Path) -> None:
    assert built_bundle(tmp_path) is None
    bundles = BundleBuild(cache=tmp_path).cache.bundles
    for age, (name, text) in enumerate((("new", '{"kubernetes": ["v1.34.4"]}'), ("old", "{}"), ("broken", "{"))):
        (bundles / name).mkdir(parents=True)
        (bundles / name / "manifest.json").write_text(text)
        os.utime(bundles / name / "manifest.json", (10 + age, 10 + age))
    assert built_bundle(tmp_path) == BundleSource(path=bundles / "new", kubernetes=("v1.34.4",))


def test_a_bundle_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no bundle"):
        named_bundle(tmp_path / "missing")
    (tmp_path / "bundle.tar.zst").touch()
    assert named_bundle(tmp_path / "bundle.tar.zst") == BundleSource(path=tmp_path / "bundle.tar.zst")


def test_somebody_else_s_file_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    check_place(file, None)
    file.write_text("mine")
    with pytest.raises(UsageError, match="was not written by this lab"):
        check_place(file, None)
    with pytest.raises(UsageError, match="was not written by this lab"):
        check_place(file, _record("lab", Wanted(), cluster_file=str(tmp_path / "other.yaml")))
    check_place(file, _record("lab", Wanted(), cluster_file=str(file)))


def test_a_place_that_does_not_exist_is_said_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no directory"):
        check_place(tmp_path / "missing" / "lab.yaml", None)


def _record(name: str, wanted: Wanted, *, cluster_file: str = "") -> LabRecord:
    record = first_record(name, wanted, prefix="kx0001", subnet=IPv4Network("10.210.9.0/24"))
    return replace(record, cluster_file=cluster_file)


def _lab(tmp_path: Path, name: str, wanted: Wanted) -> Lab:
    folder = tmp_path / "labs" / name
    folder.mkdir(parents=True)
    write_record(folder, _record(name, wanted))
    return Lab(name, labs=folder.parent)


def _text(
    lab: Lab, *, conntrack_is_fixed: bool = True, cgroup_v1: bool = True, bundle: BundleSource | None = None
) -> str:
    return cluster_text(
        name=lab.name,
        hosts=lab.hosts,
        control_planes=lab.record.control_planes,
        access=lab.access,
        conntrack_is_fixed=conntrack_is_fixed,
        cgroup_v1=cgroup_v1,
        bundle=bundle,
    )
