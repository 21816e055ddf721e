"""PKI files on hosts: in kubeadm's places, from the work directory, in one command; CA keys on control planes only."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.milestones import PKI_ISSUED
from kubexm.components.pki import (
    PkiFile,
    PkiFilesPresent,
    control_plane_files,
    etcd_files,
    kubelet_files,
    paths,
    place_files,
)
from kubexm.connector import Host
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret
from kubexm.step import clash_in_cluster
from kubexm.task import FragmentBuilder
from tests.unit.step.bench import GROUP, OWNER, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.make(tmp_path)


def cluster(etcd: str = "kubexm") -> Cluster:
    external = (
        "external: {endpoints: ['https://10.9.0.1:2379'], caFile: ca.crt, certFile: c.crt, keyFile: c.key}"
        if etcd == "external"
        else ""
    )
    groups = "" if etcd != "kubexm" else "etcd: [n1], "
    return config.loads(
        f"""\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: test}}
spec:
  hosts: [{{name: n1, address: 10.0.0.1}}]
  roleGroups: {{{groups}controlPlane: [n1], worker: [n1]}}
  etcd:
    type: {etcd}
    {external}
""",
        name="test.yaml",
    ).cluster


def two(bench: Bench) -> PkiFilesPresent:
    return PkiFilesPresent(
        files=(
            PkiFile(path=bench.path("pki/ca.crt"), secret="pki.ca.crt", mode=0o644),
            PkiFile(path=bench.path("pki/server.key"), secret="pki.etcd-server.{host}.key"),
        ),
        owner=OWNER,
        group=GROUP,
    )


async def test_all_files_travel_together_and_each_host_gets_its_own(bench: Bench) -> None:
    step = two(bench)
    assert "pki.ca.crt is not made yet" in (await bench.check(step)).reason
    bench.context.secrets.put_all({"pki.ca.crt": Secret("the ca\n"), "pki.etcd-server.n1.key": Secret("n1's\nxyzzy")})
    await bench.reach(step)
    assert bench.local("pki/ca.crt").read_text() == "the ca\n"
    assert bench.local("pki/server.key").read_text() == "n1's\nxyzzy"
    assert bench.local("pki/ca.crt").stat().st_mode & 0o777 == 0o644
    assert bench.local("pki/server.key").stat().st_mode & 0o777 == 0o600
    assert sum(command.changes for command in bench.connector.commands) == 1
    assert all("xyzzy" not in command.script for command in bench.connector.commands)


async def test_only_what_differs_is_written(bench: Bench) -> None:
    step = two(bench)
    bench.context.secrets.put_all({"pki.ca.crt": Secret("the ca\n"), "pki.etcd-server.n1.key": Secret("old")})
    await bench.reach(step)
    before = bench.local("pki/ca.crt").stat().st_ino
    bench.context.secrets.put("pki.etcd-server.n1.key", Secret("new"))
    check = await bench.check(step)
    assert check.reason.endswith("server.key: its content differs")
    assert check.diff == ""
    await bench.reach(step)
    assert bench.local("pki/ca.crt").stat().st_ino == before


async def test_rollback_puts_back_what_was_there(bench: Bench) -> None:
    bench.local("pki/ca.crt").write_text("theirs\n")
    bench.context.secrets.put_all({"pki.ca.crt": Secret("ours\n"), "pki.etcd-server.n1.key": Secret("x")})
    step = two(bench)
    await bench.reach(step)
    await bench.rollback(step)
    assert bench.local("pki/ca.crt").read_text() == "theirs\n"
    assert not bench.local("pki/server.key").exists()


def test_it_reads_its_secrets_and_is_plain_data(bench: Bench) -> None:
    step = two(bench)
    assert clash_in_cluster(step.reads(), frozenset({"secret:pki.etcd-server.n7.key"}))
    assert clash_in_cluster(step.reads(), frozenset({"secret:pki.ca.crt"}))
    assert not clash_in_cluster(step.reads(), frozenset({"secret:pki.kubelet-serving.*"}))
    assert step.writes() == {f"file:{bench.path('pki/ca.crt')}", f"file:{bench.path('pki/server.key')}"}
    assert decode(encode(step), PkiFilesPresent) == step


def test_keys_of_authorities_are_on_control_planes_only() -> None:
    plane = [file.secret for file in control_plane_files(cluster())]
    assert {"pki.ca.key", "pki.front-proxy-ca.key", "pki.etcd-ca.key", "pki.sa.key"} <= set(plane)
    others = [file.secret for file in (*etcd_files(), *kubelet_files())]
    assert not {name for name in others if name.endswith("ca.key") or name.startswith("pki.sa.")}


def test_the_layout_is_kubeadms() -> None:
    found = [str(path.relative_to("/etc/kubernetes")) for path in paths(control_plane_files(cluster("kubeadm")))]
    pairs = [
        "ca", "front-proxy-ca", "etcd/ca", "apiserver", "apiserver-kubelet-client", "front-proxy-client",
        "apiserver-etcd-client", "etcd/server", "etcd/peer", "etcd/healthcheck-client",
    ]  # fmt: skip
    wanted = [f"pki/{name}.{end}" for name in pairs for end in ("crt", "key")]
    wanted += [
        "pki/ca-root.crt",
        "pki/ca-trust.crt",
        "pki/sa.key",
        "pki/sa.pub",
        "admin.conf",
        "super-admin.conf",
        "controller-manager.conf",
        "scheduler.conf",
    ]
    assert sorted(found) == sorted(wanted)
    assert all(file.mode == 0o600 for file in control_plane_files(cluster("kubeadm")))


def test_a_members_files_are_where_its_etcd_is() -> None:
    assert PurePosixPath("/etc/kubernetes/pki/etcd/server.crt") not in paths(control_plane_files(cluster()))
    assert PurePosixPath("/etc/etcd/pki/server.crt") in paths(etcd_files())
    external = paths(control_plane_files(cluster("external")))
    assert PurePosixPath("/etc/kubernetes/pki/etcd/ca.crt") in external
    assert PurePosixPath("/etc/kubernetes/pki/etcd/ca.key") not in external


def test_placing_waits_for_the_pki() -> None:
    g = FragmentBuilder("etcd.install")
    place_files(g, etcd_files(), on=Host(name="n1", address="10.0.0.1"))
    (node,) = g.build().nodes
    assert node.id == "etcd.install.pki"
    assert node.needs == (PKI_ISSUED,)
