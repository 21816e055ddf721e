"""Certificates, marks and a lost work directory on three lab hosts over real sshd, judged by the real kubeadm."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubexm.components import topology
from kubexm.components.assets import place
from kubexm.components.identity import ClusterRecord, HostMarked
from kubexm.components.milestones import API_READY, PKI_ISSUED
from kubexm.components.pki import Pki, control_plane_files, place_files
from kubexm.components.pki.files import ENCRYPTION_CONFIG
from kubexm.errors import ConfigError, PlanError
from kubexm.lab import Lab
from kubexm.lab.bundle import BundleBuild, PlainProgress
from kubexm.module import Module
from kubexm.pipeline.create import CreateCluster
from kubexm.plan import ExecutionFragment
from kubexm.redact import SecretRef
from kubexm.runtime import ModuleContext, RuntimeBuilder
from kubexm.service.edits import judge_edits
from kubexm.step import FilePresent
from kubexm.task import FragmentBuilder
from tests.cluster.conftest import MakeLab
from tests.cluster.parts import Parts, Stands

VERSION = "v1.34.4"
NAMES = ("n1", "n2", "n3")
WIPE = "rm -rf /etc/kubernetes /var/lib/kubexm"
KUBEADM = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {{name: {name}}}
localAPIEndpoint: {{advertiseAddress: {address}, bindPort: 6443}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.34.4
clusterName: {cluster}
controlPlaneEndpoint: lb.kubexm.local:6443
networking: {{serviceSubnet: 10.96.0.0/16, podSubnet: 10.244.0.0/16}}
"""


class Files(Module):
    """The files of a control plane and its marks, without anything that runs."""

    def plan(self, ctx: ModuleContext) -> ExecutionFragment:
        task, g = ctx.for_task(), FragmentBuilder("files.all")
        planes = topology.control_planes(task)
        files = place_files(g, control_plane_files(ctx.cluster), on=planes)
        encryption = FilePresent(path=ENCRYPTION_CONFIG, content=SecretRef("encryption-config"), mode=0o600)
        settings = g.add("encryption", encryption, on=planes, needs=PKI_ISSUED)
        program = place(g, task, "kubeadm", on=planes)
        last = [files, settings, program]
        for role in ("etcd", "controlPlane"):
            mark = HostMarked(cluster=ctx.cluster.name, role=role)
            last = [g.add(f"marked-{role}", mark, on=planes, after=last)]
        g.add("ready", Stands(), on=planes[:1], after=last, provides=API_READY)
        return g.build()


@pytest.fixture(scope="module")
def bundle() -> Path:
    """The bundle of one Kubernetes version, from the user's cache."""
    return BundleBuild([VERSION], progress=PlainProgress(print)).run(install=True)


@pytest.fixture(scope="module")
def hosts(make_lab: MakeLab) -> Iterator[Lab]:
    """Three control planes."""
    lab = make_lab(topology="3+0")
    yield lab
    lab.down()


@pytest.fixture
async def cluster(hosts: Lab, bundle: Path, tmp_path: Path) -> AsyncIterator[Parts]:
    """Hosts with nothing on them, brought up once."""
    spec: dict[str, Any] = {"kubernetes": {"version": VERSION}, "etcd": {"type": "kubeadm"}}
    made = Parts(hosts, bundle, tmp_path, (Pki, Files, ClusterRecord), spec)
    await made.everywhere(WIPE)
    (await made.run()).ok()
    yield made
    await made.everywhere(WIPE)


def work(cluster: Parts) -> Path:
    (found,) = (cluster.directory / "work").iterdir()
    return found


def secret(cluster: Parts, name: str) -> str:
    return (work(cluster) / "secrets" / name).read_text()


async def test_kubeadm_takes_every_file_as_its_own(cluster: Parts) -> None:
    before = await cluster.everywhere("cd /etc/kubernetes && find . -type f | sort | xargs sha256sum")
    name = work(cluster).name
    for host in cluster.lab.hosts:
        config = KUBEADM.format(name=host.name, address=host.address, cluster=name)
        said = await cluster.sh(
            host.name,
            f"cat >/tmp/kubeadm.yaml <<'E'\n{config}E\nkubeadm init phase certs all --config /tmp/kubeadm.yaml 2>&1\n"
            "for who in admin super-admin controller-manager scheduler; do\n"
            "kubeadm init phase kubeconfig $who --config /tmp/kubeadm.yaml 2>&1; done; rm /tmp/kubeadm.yaml",
        )
        assert said.count("Using existing") == 14, said
        assert "Generating" not in said
        listed = await cluster.sh(host.name, "kubeadm certs check-expiration 2>&1")
        assert "MISSING" not in listed
        assert "invalid" not in listed.lower()
    assert await cluster.everywhere("cd /etc/kubernetes && find . -type f | sort | xargs sha256sum") == before
    assert await cluster.everywhere("find /etc/kubernetes -type f ! -perm 600 | wc -l") == ["0"] * 3


async def test_a_second_run_changes_nothing(cluster: Parts) -> None:
    assert (await cluster.run()).ok().changed == []


async def test_a_lost_work_directory_is_fetched_back_over_ssh(cluster: Parts) -> None:
    lasting = (
        "pki.ca.crt",
        "pki.ca.key",
        "pki.front-proxy-ca.key",
        "pki.etcd-ca.key",
        "pki.sa.key",
        "encryption-config",
    )
    before = {name: secret(cluster, name) for name in lasting}
    uid = (work(cluster) / "uid").read_text()
    marks = await cluster.everywhere("cat /var/lib/kubexm/cluster.json")
    keys = await cluster.everywhere("sha256sum /etc/kubernetes/pki/ca.key /etc/kubernetes/pki/sa.key")
    shutil.rmtree(work(cluster))
    done = (await cluster.run()).ok()
    assert ("pki.authorities.fetched", "n1") in done.changed
    assert {name: secret(cluster, name) for name in lasting} == before
    assert (work(cluster) / "uid").read_text() == uid
    assert (work(cluster) / "applied.json").exists()
    assert await cluster.everywhere("cat /var/lib/kubexm/cluster.json") == marks
    assert await cluster.everywhere("sha256sum /etc/kubernetes/pki/ca.key /etc/kubernetes/pki/sa.key") == keys
    assert (await cluster.run()).ok().changed == []
    said = "\n".join(path.read_text(errors="replace") for path in cluster.directory.glob("journal-*"))
    for line in (line for text in before.values() for line in text.splitlines() if len(line) == 64):
        assert line not in said or "-----" in line


async def test_a_survivor_gives_it_back_when_the_first_host_was_reinstalled(cluster: Parts) -> None:
    before = secret(cluster, "pki.ca.key")
    shutil.rmtree(work(cluster))
    await cluster.sh("n1", WIPE)
    done = (await cluster.run()).ok()
    assert ("pki.authorities.fetched", "n2") in done.changed
    assert secret(cluster, "pki.ca.key") == before
    assert json.loads(await cluster.sh("n1", "cat /var/lib/kubexm/cluster.json"))["roles"] == ["controlPlane", "etcd"]


async def test_what_cannot_be_fetched_is_refused_and_nothing_is_made(cluster: Parts) -> None:
    shutil.rmtree(work(cluster))
    await cluster.sh("n1", "rm /etc/kubernetes/pki/etcd/ca.key")
    state = await cluster.everywhere(
        "find /etc/kubernetes /var/lib/kubexm/cluster.json -type f | sort | xargs sha256sum"
    )
    node, host = (await cluster.run()).failure()
    assert node == "pki.authorities.fetched"
    assert host.error is not None
    assert "/etc/kubernetes/pki/etcd/ca.key is not on n1" in host.error.message
    assert "put the work directory back" in host.error.hint
    assert list((work(cluster) / "secrets").glob("pki.*")) == []
    after = await cluster.everywhere(
        "find /etc/kubernetes /var/lib/kubexm/cluster.json -type f | sort | xargs sha256sum"
    )
    assert after == state


async def test_another_clusters_host_is_refused_and_not_touched(cluster: Parts) -> None:
    await cluster.sh("n3", 'sed -i \'s/"name": .*/"name": "theirs",/\' /var/lib/kubexm/cluster.json')
    state = await cluster.everywhere("find /etc/kubernetes /var/lib/kubexm -type f | sort | xargs sha256sum")
    with pytest.raises(PlanError, match="n3: the cluster theirs"):
        await cluster.run()
    assert await cluster.everywhere("find /etc/kubernetes /var/lib/kubexm -type f | sort | xargs sha256sum") == state


async def test_a_work_directory_of_a_namesake_is_refused(cluster: Parts) -> None:
    (work(cluster) / "uid").write_text("00000000-0000-0000-0000-000000000000\n")
    with pytest.raises(PlanError, match="another cluster of the name"):
        await cluster.run()


async def test_an_edit_is_judged_by_what_the_hosts_remember(cluster: Parts) -> None:
    shutil.rmtree(work(cluster))
    cluster.spec["network"] = {"podCIDR": "10.50.0.0/16"}
    context = await RuntimeBuilder(cluster._file(), work_dir=str(cluster.directory / "work")).build()
    try:
        with pytest.raises(ConfigError, match=r"spec.network.podCIDR: 10.244.0.0/16 → 10.50.0.0/16"):
            await judge_edits(context, CreateCluster.accepts)
    finally:
        await context.close()
