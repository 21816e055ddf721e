"""What versions can do: data for every minor, and the nearest known one for a minor that has no file yet."""

from __future__ import annotations

import dataclasses

import pytest

from kubexm import releases
from kubexm.errors import AssetError, PlanError


@pytest.mark.parametrize("minor", releases.minors())
def test_every_kubernetes_minor_says_what_it_can_do(minor: str) -> None:
    able = releases.kubernetes(f"v{minor}.0")
    assert able.kubeadm_api in ("v1beta3", "v1beta4")
    assert able.authentication_api in ("v1beta1", "v1")
    assert set(able.deprecated_proxy_modes) <= set(able.proxy_modes)
    assert releases.parse_version(able.oldest_containerd) >= (1, 7, 0)
    assert releases.parse_version(able.oldest_etcd) >= (3, 5, 0)


def test_what_changed_between_minors() -> None:
    assert releases.kubernetes("v1.30.14").kubeadm_api == "v1beta3"
    assert releases.kubernetes("v1.37.1").kubeadm_api == "v1beta4"
    assert not releases.kubernetes("v1.34.4").refuses_cgroup_v1
    assert releases.kubernetes("v1.35.8").refuses_cgroup_v1
    assert "nftables" not in releases.kubernetes("v1.30.0").proxy_modes
    assert releases.kubernetes("v1.35.0").deprecated_proxy_modes == ("ipvs",)


def test_an_unknown_kubernetes_minor_is_refused() -> None:
    with pytest.raises(AssetError, match=r"Kubernetes 1\.29 is not in the catalog") as caught:
        releases.kubernetes("v1.29.0")
    assert "1.37" in caught.value.hint
    with pytest.raises(PlanError, match=r"'1\.34' is not a version of Kubernetes"):
        releases.kubernetes("1.34")


def test_etcd_arguments_by_patch() -> None:
    defrag = "experimental-stop-grpc-service-on-defrag"
    assert defrag not in dict(releases.etcd("v3.5.13").patch_arguments)
    assert dict(releases.etcd("v3.5.14").patch_arguments)[defrag] == "true"
    assert releases.etcd("v3.6.0").arguments == ()
    assert "CompactHashCheck" in releases.etcd("v3.6.0").feature_gates


@pytest.mark.parametrize("version", ["v3.6.14", "v3.7.0", "v3.9.1"])
def test_no_etcd_from_3_6_on_is_given_experimental_arguments(version: str) -> None:
    able = releases.etcd(version)
    assert not any(
        "experimental" in name for name in (*dict((*able.arguments, *able.patch_arguments)), able.progress_argument)
    )


def test_a_tag_of_an_image_is_a_version_too() -> None:
    assert releases.etcd("3.6.5-0") == releases.etcd("v3.6.5")


def test_a_minor_without_a_file_is_taken_for_the_one_before_it() -> None:
    newest = releases.minors("containerd")[-1]
    major, _, minor = newest.partition(".")
    assert releases.containerd(f"v{major}.{int(minor) + 1}.0") == releases.containerd(f"v{newest}.0")
    assert releases.containerd("v1.7.34").config_version == 2
    assert releases.containerd("v2.1.9").config_version == 3


@pytest.mark.parametrize(("program", "version"), [("etcd", "v3.4.0"), ("etcd", "v4.0.0"), ("containerd", "v1.6.1")])
def test_versions_that_nothing_is_known_of_are_refused(program: str, version: str) -> None:
    with pytest.raises(PlanError, match=f"{program} {version} is not supported") as caught:
        getattr(releases, program)(version)
    assert caught.value.hint


def test_capabilities_are_values() -> None:
    assert dataclasses.replace(releases.containerd("v2.0.0"), minor="2.9").config_version == 3
