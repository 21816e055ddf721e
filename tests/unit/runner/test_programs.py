"""Which versions a host runs: from processes, containers, manifests and links, as the fact script prints them."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest

from kubexm.runner.facts import Facts, Program, fact_script, parse_facts

RUN = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"


def container(number: int, name: str, image: str, namespace: str = "kube-system") -> str:
    told = {"container-name": name, "image-name": image, "sandbox-namespace": namespace}
    return "".join(f'{RUN}/{number}/config.json:"io.kubernetes.cri.{key}":"{text}"\n' for key, text in told.items())


OUTPUT = (
    "\n@m programs\n"
    "kubelet\t/opt/kubexm/programs/kubelet/v1.34.4/bin/kubelet\t\n"
    "containerd\t/usr/local/bin/containerd (deleted)\tcontainerd github.com/containerd/containerd/v2 v2.1.9 module\n"
    "etcd\t/usr/local/bin/etcd\tetcd Version: 3.6.5\n"
    "kubexm-haproxy\t/opt/kubexm/haproxy/usr/local/sbin/haproxy\tHAProxy version 2.6.12-1+deb12u1 2023/12/16\n"
    "kube-proxy\t/usr/local/bin/kube-proxy\t\n"
    "\n@m containers\n"
    + container(1, "kube-apiserver", "registry.k8s.io/kube-apiserver:v1.34.4")
    + container(2, "kube-apiserver", "reg.example.com:5000/k8s/kube-apiserver:v1.33.13@sha256:ab")
    + container(3, "etcd", "docker.io/bitnami/etcd:3.4.1", "shop")
    + container(4, "web", "example.com/web:v9.9.9")
    + "\n@m manifests\n"
    "/etc/kubernetes/manifests/kube-apiserver.yaml:    image: registry.k8s.io/kube-apiserver:v1.35.8\n"
    '/etc/kubernetes/manifests/etcd.yaml:    image: "registry.k8s.io/etcd:3.6.5-0"\n'
    "/etc/kubernetes/manifests/mine.yaml:    image: example.com/mine:v1.0.0\n"
    "\n@m staged\n"
    "/opt/kubexm/programs/kubelet/current\tv1.35.8\n"
    "/opt/kubexm/programs/kubelet/previous\tv1.34.4\n"
    "/opt/kubexm/programs/kubelet/v1.34.4\t\n"
    "/opt/kubexm/programs/kubelet/v1.35.8\t\n"
    "\n@m asked\nrunc\trunc version 1.3.6\n"
    "\n@m end\n"
)


@pytest.fixture
def facts() -> Facts:
    return parse_facts(OUTPUT, "@m")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("kubelet", "v1.34.4"),
        ("containerd", "v2.1.9"),
        ("etcd", "v3.6.5"),
        ("haproxy", "v2.6.12"),
        ("runc", "v1.3.6"),
        ("kube-apiserver", "v1.33.13"),
        ("kube-proxy", ""),
        ("kube-scheduler", ""),
    ],
)
def test_what_runs(facts: Facts, name: str, version: str) -> None:
    assert facts.programs.version(name) == version


def test_both_versions_of_a_container_that_is_being_replaced_are_known(facts: Facts) -> None:
    found = [one for one in facts.programs.running if one.name == "kube-apiserver"]
    assert [(one.version, one.source) for one in found] == [("v1.33.13", "container"), ("v1.34.4", "container")]


def test_containers_of_others_are_not_the_clusters(facts: Facts) -> None:
    assert [one.source for one in facts.programs.running if one.name == "etcd"] == ["process"]


def test_what_would_be_started_next(facts: Facts) -> None:
    assert facts.programs.active_version("kubelet") == "v1.35.8"
    assert facts.programs.active_version("kube-apiserver") == "v1.35.8"
    assert facts.programs.active_version("etcd") == "v3.6.5"
    assert facts.programs.active_version("mine") == ""
    assert facts.programs.previous == ("kubelet v1.34.4",)
    assert facts.programs.staged == ("kubelet v1.34.4", "kubelet v1.35.8")


def test_a_replaced_program_keeps_its_path(facts: Facts) -> None:
    assert Program(name="containerd", version="v2.1.9", source="process", path="/usr/local/bin/containerd") in (
        facts.programs.running
    )


def test_a_host_without_a_cluster_tells_nothing() -> None:
    assert parse_facts("\n@m end\n", "@m").programs.running == ()


def test_facts_with_programs_survive_a_round_trip(facts: Facts) -> None:
    assert Facts.from_dict(facts.to_dict()) == facts


def test_the_script_lists_links_and_versions(tmp_path: Path) -> None:
    state, programs = tmp_path / "state", tmp_path / "programs"
    state.mkdir()
    for version in ("v1.34.4", "v1.35.8"):
        (programs / "kubelet" / version / "bin").mkdir(parents=True)
    (programs / "kubelet" / "current").symlink_to("v1.34.4")
    script = fact_script("@m", PurePosixPath(state)).replace("/opt/kubexm/programs", str(programs))

    def gathered() -> Facts:
        output = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
        return parse_facts(output.replace(str(programs), "/opt/kubexm/programs"), "@m")

    assert gathered().programs.staged == ()
    (state / "cluster.json").write_text('{"uid": "1", "name": "a"}')
    found = gathered().programs
    assert found.active_version("kubelet") == "v1.34.4"
    assert found.staged == ("kubelet v1.34.4", "kubelet v1.35.8")
