"""What a bundle holds: all that the catalog knows of, for one Kubernetes version or several."""

from __future__ import annotations

import pytest

from kubexm.assets.catalog import minors, release
from kubexm.errors import UsageError
from kubexm.lab.bundle import versions
from kubexm.lab.bundle.contents import Contents, plan_contents
from kubexm.lab.bundle.images import Image, Layer

PARTS = ("helm", "registry")


def planned(*kubernetes: str, parts: tuple[str, ...] = ()) -> Contents:
    return plan_contents(kubernetes, arch="amd64", parts=parts)


@pytest.mark.parametrize("kubernetes", ["1.34.4", "1.33.13", "1.35.0"])
@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_nothing_the_catalog_lists_is_left_out(kubernetes: str, arch: str) -> None:
    contents = plan_contents([kubernetes], arch=arch, parts=PARTS)
    catalog = release(f"v{kubernetes}", arch)
    assert {file.name for file in catalog.files} <= {file.asset.name for file in contents.files}
    assert {image.name for image in catalog.images} <= {item.asset.name for item in contents.images}


def test_helm_and_the_registry_are_there_when_asked_for() -> None:
    without, asked = planned("1.34.4"), planned("1.34.4", parts=PARTS)
    names = {artefact.name for artefact in asked.artefacts()} - {artefact.name for artefact in without.artefacts()}
    helm, registry = versions.SHARED["helm"], versions.SHARED["registry"]
    assert {f"helm-{helm}", f"registry-{registry}", f"image-registry-{registry}"} <= names
    assert not any("kube" in name for name in names)


def test_a_part_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no part 'hlm'") as caught:
        planned("1.34.4", parts=("hlm",))
    assert "cluster, helm, registry" in caught.value.hint


def test_everything_comes_after_what_it_needs_and_kubernetes_first() -> None:
    artefacts = planned("1.33.13", "1.34.4", parts=PARTS).artefacts()
    names = [artefact.name for artefact in artefacts]
    assert names[0] == "kubernetes-v1.34.4"
    assert len(names) == len(set(names))
    for number, artefact in enumerate(artefacts):
        assert {need.name for need in artefact.needs} <= set(names[:number])


def test_a_second_minor_only_adds_what_is_its_own() -> None:
    one = {artefact.name for artefact in planned("1.34.4").artefacts()}
    both = {artefact.name for artefact in planned("1.34.4", "1.33.13").artefacts()}
    assert one < both
    for shared in ("containerd", "runc", "cni-plugins", "flannel", "agnhost", "local-path", "crictl", "haproxy"):
        assert not [name for name in both - one if shared in name]
    assert {"kubernetes-v1.33.13", "etcd-v3.5.21", "coredns-v1.12.0"} <= both - one


def test_each_minor_finds_its_own_and_what_is_shared() -> None:
    contents = planned("1.34.4", "1.33.13")
    owners = {(item.asset.name, item.asset.version): item.kubernetes for item in contents.images}
    assert owners["kube-apiserver", "v1.33.13"] == ("v1.33.13",)
    assert owners["etcd", "3.6.5-0"] == ("v1.34.4",)
    assert owners["pause", "3.10"] == ("v1.33.13",)
    assert owners["flannel", versions.SHARED["flannel"]] == ()


def test_two_patches_of_a_minor_share_what_is_the_minors() -> None:
    contents = planned("1.34.4", "1.34.5")
    pause = [item for item in contents.images if item.asset.name == "pause"]
    assert [item.kubernetes for item in pause] == [("v1.34.5", "v1.34.4")]
    assert len([file for file in contents.files if file.asset.name == "etcd"]) == 1


def test_an_artefacts_name_stands_for_one_recipe() -> None:
    recipes: dict[str, set[str]] = {}
    for asked in (("1.34.4",), ("1.33.13",), ("1.34.4", "1.33.13"), ("1.34.5", "1.34.4")):
        for artefact in planned(*asked, parts=PARTS).artefacts():
            recipes.setdefault(artefact.name, set()).add(artefact.recipe)
    assert not [name for name, found in recipes.items() if len(found) > 1]


def test_names_and_places_are_upstreams() -> None:
    contents = planned("1.34.4", parts=PARTS)
    paths = {file.asset.path for file in contents.files}
    assert "dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet" in paths
    assert "github.com/etcd-io/etcd/releases/download/v3.6.5/etcd-v3.6.5-linux-amd64.tar.gz" in paths
    references = {item.asset.reference for item in contents.images}
    assert {"registry.k8s.io/pause:3.10.1", "registry.k8s.io/coredns/coredns:v1.12.1"} <= references
    etcd = next(file for file in contents.files if file.asset.name == "etcd")
    member = etcd.artefact.parts[0].path  # type: ignore[attr-defined]
    assert member == "etcd-v3.6.5-linux-amd64/etcd"


def test_programs_are_where_pods_look_for_them() -> None:
    contents = planned("1.34.4")

    def paths(name: str) -> set[str]:
        image = next(item.image for item in contents.images if item.asset.name == name)
        assert isinstance(image, Image)
        return {part.path for layer in image.layers for part in layer.parts if hasattr(part, "path")}

    assert "usr/local/bin/kube-proxy" in paths("kube-proxy")
    assert "coredns" in paths("coredns")
    assert "usr/local/bin/etcd" in paths("etcd")
    assert {"opt/bin/flanneld", "usr/bin/cp"} <= paths("flannel")
    assert {"flannel", "usr/bin/cp"} <= paths("flannel-cni-plugin")
    assert {"usr/bin/local-path-provisioner"} <= paths("local-path-provisioner")
    assert {"agnhost", "usr/bin/sh"} <= paths("agnhost")
    assert paths("pause") == {"pause"}


def test_kube_proxy_and_flannel_share_the_layer_with_libraries() -> None:
    contents = planned("1.34.4", "1.33.13")
    proxies = [item.image for item in contents.images if item.asset.name in ("kube-proxy", "flannel")]
    shared: set[Layer] = set(proxies[0].layers)
    for image in proxies[1:]:
        shared &= set(image.layers)
    assert {layer.name for layer in shared} == {"layer-base", "layer-network-tools"}


def test_packages_are_the_catalogs_and_kmod() -> None:
    packages = planned("1.34.4").packages.packages
    assert {"conntrack", "socat", "ipset", "ebtables", "ethtool", "iptables", "kmod"} <= set(packages)


@pytest.mark.parametrize("text", ["1.34", "latest", "1.34.x", "", "1.34.4; id"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(UsageError, match="is not a Kubernetes version"):
        planned(text)


def test_a_minor_alone_gets_a_version_that_is_known_to_build() -> None:
    with pytest.raises(UsageError) as caught:
        planned("v1.33")
    assert "v1.33.13 is known to build" in caught.value.hint
    assert planned("v1.33.13", "v1.34.4").kubernetes == ("v1.34.4", "v1.33.13")


def test_a_minor_that_cannot_be_built() -> None:
    with pytest.raises(UsageError, match=r"for Kubernetes 1\.30") as caught:
        planned("1.30.0")
    assert "1.34" in caught.value.hint


def test_versions_in_any_spelling_and_order_are_one_bundle() -> None:
    assert planned("1.33.13", "v1.34.4", "1.33.13").kubernetes == ("v1.34.4", "v1.33.13")
    assert planned().kubernetes == (versions.default_kubernetes(cgroup_v1=False).version,)


def test_every_minor_with_versions_of_its_own_is_in_the_catalog() -> None:
    assert set(versions.MINORS) <= set(minors())
