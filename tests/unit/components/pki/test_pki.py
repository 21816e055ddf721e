"""The whole of Pki on hosts that are directories: made once, kept, reissued by name, fetched back, never made twice."""

from __future__ import annotations

import shutil
import stat
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from kubexm.components.control_plane.layout import ENCRYPTION
from kubexm.components.identity import ClusterIdentified, HostMarked
from kubexm.components.milestones import PKI_ISSUED
from kubexm.components.pki.files import ENCRYPTION_CONFIG, control_plane_files
from kubexm.components.pki.names import of_host
from kubexm.components.pki.steps import AuthoritiesKept, CertificatesIssued
from kubexm.components.pki.x509 import fingerprint
from kubexm.engine import LocalEngine
from kubexm.errors import PlanError
from kubexm.plan import Prediction, RunStatus, State
from kubexm.plan.codec import decode, encode
from kubexm.plan.results import GraphExecutionResult
from tests.unit.components.pki import fleet as fleet_module
from tests.unit.components.pki.fleet import HA, Fleet
from tests.unit.engine.crossing import Crossing

KEEPERS = ("cp1", "cp2", "cp3")


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def changed(result: GraphExecutionResult) -> list[str]:
    return sorted(
        {name for name, node in result.nodes.items() for host in node.hosts.values() if host.state is State.SUCCEEDED}
    )


def failure(result: GraphExecutionResult) -> str:
    assert result.status is RunStatus.FAILED
    errors = [
        host.error for node in result.nodes.values() for host in node.hosts.values() if host.state is State.FAILED
    ]
    assert len(errors) == 1
    assert errors[0] is not None
    return f"{errors[0].message} → {errors[0].hint}"


async def bring_up(fleet: Fleet) -> None:
    """As create leaves it: files on control planes, roles on marks."""
    assert (await fleet.run()).status is RunStatus.SUCCEEDED
    for host in KEEPERS:
        fleet.mark(host, roles=["controlPlane", "etcd"])
        for file in control_plane_files(fleet.context().cluster):
            fleet.place(host, str(file.path), fleet.secret(of_host(file.secret, host)))
        fleet.place(host, str(ENCRYPTION_CONFIG), fleet.secret("encryption-config"))
    fleet.mark("w1", roles=["worker"])


def lose_work_directory(fleet: Fleet) -> dict[str, str]:
    before = fleet.secrets()
    shutil.rmtree(fleet.work_dir)
    return before


async def test_a_new_cluster(fleet: Fleet) -> None:
    result = await fleet.run()
    assert result.status is RunStatus.SUCCEEDED
    secrets = fleet.secrets()
    for host in KEEPERS:
        for file in control_plane_files(fleet.context().cluster):
            assert of_host(file.secret, host) in secrets
    assert {"pki.kubelet-serving.w1.key", "pki.kubelet-serving.cp1.crt", "kubeconfig.admin"} <= set(secrets)
    assert "pki.kubelet-serving.lb1.crt" not in secrets, "a balancer is no node"
    private = [fleet.work_dir / "kubeconfig", fleet.work_dir / "uid", *(fleet.work_dir / "secrets").iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert (fleet.work_dir / "kubeconfig").read_text() == secrets["kubeconfig.admin"]
    for host in (*KEEPERS, "w1", "lb1"):
        mark = fleet.marker(host)
        assert mark is not None
        assert mark.uid == (fleet.work_dir / "uid").read_text().strip()
        assert mark.ca_fingerprint == fingerprint(secrets["pki.ca.crt"])
        assert mark.roles == ()


async def test_a_new_cluster_where_attempts_are_sent_as_bytes(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "LocalEngine", partial(LocalEngine, attempts=Crossing))
    await test_a_new_cluster(fleet)


async def test_a_second_run_changes_nothing_and_asks_no_host(fleet: Fleet) -> None:
    await fleet.run()
    before = fleet.secrets()
    again = await fleet.run()
    assert changed(again) == []
    assert fleet.commands == 0
    await bring_up(fleet)
    again = await fleet.run()
    assert changed(again) == []
    assert fleet.commands == 0
    assert fleet.secrets() == before


async def test_api_servers_are_valid_for_every_way_to_reach_them(fleet: Fleet) -> None:
    fleet.text = HA.format(
        more="""\
  kubernetes: {apiServer: {certSANs: [k8s.example.com, 203.0.113.9]}, dnsDomain: cluster.test}
  network: {serviceCIDR: 10.97.0.0/16}
  controlPlaneEndpoint: {domain: api.prod.test, address: 198.51.100.7}
"""
    )
    await fleet.run()
    found = x509.load_pem_x509_certificate(fleet.secret("pki.apiserver.cp2.crt").encode())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.test",
        "localhost", "api.prod.test", "cp1", "cp2", "cp3", "lb1", "lb.example.com", "k8s.example.com",
    }  # fmt: skip
    assert {str(address) for address in names.get_values_for_type(x509.IPAddress)} == {
        "10.97.0.1", "127.0.0.1", "::1", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.31", "198.51.100.7",
        "203.0.113.9",
    }  # fmt: skip
    assert "server: https://198.51.100.7:6443" in fleet.secret("kubeconfig.admin")
    for number, host in enumerate(("cp1", "cp2", "cp3"), 11):
        assert f"server: https://10.0.0.{number}:6443" in fleet.secret("kubeconfig.admin")
        assert f"name: prod-{host}\n" in fleet.secret("kubeconfig.admin")
    assert "server: https://127.0.0.1:6443" in fleet.secret("kubeconfig.admin.cp1")
    assert "cp2" not in fleet.secret("kubeconfig.admin.cp1")


async def test_an_edit_reissues_what_it_touches_and_nothing_else(fleet: Fleet) -> None:
    await fleet.run()
    before = fleet.secrets()
    fleet.text = HA.format(more="  kubernetes: {apiServer: {certSANs: [k8s.example.com]}}")
    dry = await fleet.run(dry_run=True)
    assert dry.nodes["pki.certificates.kubeconfigs"].hosts["control-node"].state is State.SATISFIED
    assert changed(await fleet.run()) == ["pki.certificates.api-servers"]
    differ = {name for name, text in fleet.secrets().items() if before[name] != text}
    assert differ == {f"pki.apiserver.{host}.{end}" for host in KEEPERS for end in ("crt", "key")}


async def test_a_host_that_is_added_gets_its_own(fleet: Fleet) -> None:
    await bring_up(fleet)
    before = fleet.secrets()
    fleet.text = HA.format(more="").replace("- {name: w1,", "- {name: w2, address: 10.0.0.22}\n    - {name: w1,")
    fleet.text = fleet.text.replace("worker: [w1]", "worker: [w1, w2]")
    result = await fleet.run()
    assert changed(result) == ["pki.certificates.nodes", "pki.hosts.others"]
    after = fleet.secrets()
    assert set(after) - set(before) == {"pki.kubelet-serving.w2.crt", "pki.kubelet-serving.w2.key"}
    assert {name: after[name] for name in before} == before


async def test_a_damaged_certificate_is_made_anew_and_its_kubeconfig_with_it(fleet: Fleet) -> None:
    await fleet.run()
    (fleet.work_dir / "secrets" / "pki.client-scheduler.cp2.key").write_text(fleet.secret("pki.sa.key"))
    (fleet.work_dir / "kubeconfig").chmod(0o644)
    before = fleet.secrets()
    result = await fleet.run()
    wanted = ["pki.certificates.clients", "pki.certificates.kubeconfigs", "pki.certificates.saved"]
    assert changed(result) == wanted
    differ = {name for name, text in fleet.secrets().items() if before[name] != text}
    client = {f"pki.client-scheduler.cp2.{end}" for end in ("crt", "key")}
    assert differ == client | {"kubeconfig.scheduler.cp2"}


async def test_a_lost_work_directory_is_fetched_back(fleet: Fleet) -> None:
    await bring_up(fleet)
    uid = (fleet.work_dir / "uid").read_text()
    before = lose_work_directory(fleet)
    dry = await fleet.run(dry_run=True)
    assert dry.nodes["pki.authorities.fetched"].hosts["cp1"].prediction is Prediction.CHANGE
    result = await fleet.run()
    assert result.status is RunStatus.SUCCEEDED
    lasting = {
        name for name in before if name.startswith(("pki.ca.", "pki.front-proxy-ca.", "pki.etcd-ca.", "pki.sa."))
    }
    lasting.add("encryption-config")
    after = fleet.secrets()
    assert {name: after[name] for name in lasting} == {name: before[name] for name in lasting}
    assert set(after) == set(before), "and everything else is issued anew"
    assert (fleet.work_dir / "uid").read_text() == uid
    assert changed(await fleet.run()) == []


async def test_a_partly_lost_work_directory_is_completed(fleet: Fleet) -> None:
    await bring_up(fleet)
    before = fleet.secrets()
    (fleet.work_dir / "secrets" / "pki.etcd-ca.key").unlink()
    assert changed(await fleet.run()) == ["pki.authorities.fetched"]
    assert fleet.secrets() == before


async def test_a_survivor_gives_back_what_a_reinstalled_control_plane_cannot(fleet: Fleet) -> None:
    await bring_up(fleet)
    before = lose_work_directory(fleet)
    shutil.rmtree(fleet.root / "cp1")
    result = await fleet.run()
    assert result.status is RunStatus.SUCCEEDED
    assert list(result.nodes["pki.authorities.fetched"].hosts) == ["cp2"]
    assert fleet.secret("pki.ca.key") == before["pki.ca.key"]


async def test_what_cannot_be_fetched_is_refused_and_nothing_is_made(fleet: Fleet) -> None:
    await bring_up(fleet)
    lose_work_directory(fleet)
    (fleet.root / "cp1/etc/kubernetes/pki/etcd/ca.key").unlink()
    message = failure(await fleet.run())
    assert "/etc/kubernetes/pki/etcd/ca.key is not on cp1" in message
    assert "put the work directory back" in message
    assert fleet.secrets() == {}


async def test_a_ca_the_marks_do_not_know_is_refused(fleet: Fleet) -> None:
    await bring_up(fleet)
    lose_work_directory(fleet)
    other = Fleet(fleet.root / "other", text=fleet.text)
    other.root.mkdir()
    await other.run()
    fleet.place("cp1", "/etc/kubernetes/pki/ca.crt", other.secret("pki.ca.crt"))
    fleet.place("cp1", "/etc/kubernetes/pki/ca.key", other.secret("pki.ca.key"))
    assert "is another CA" in failure(await fleet.run())
    assert fleet.secrets() == {}


async def test_keys_that_do_not_belong_together_are_not_taken(fleet: Fleet) -> None:
    await bring_up(fleet)
    lose_work_directory(fleet)
    fleet.place("cp1", "/etc/kubernetes/pki/sa.key", (fleet.root / "cp1/etc/kubernetes/pki/ca.key").read_text())
    assert "two halves that do not belong together" in failure(await fleet.run())
    assert fleet.secrets() == {}


async def test_with_no_control_plane_left_to_ask_it_is_refused(fleet: Fleet) -> None:
    """Three separate etcd hosts live, the only control plane was reinstalled, and the work directory is lost."""
    fleet.text = HA.format(more="").replace(
        'etcd: ["cp[1:3]"], controlPlane: ["cp[1:3]"]', "etcd: [cp2], controlPlane: [cp1]"
    )
    await fleet.run()
    fleet.mark("cp2", roles=["etcd"])
    shutil.rmtree(fleet.root / "cp1")
    assert (await fleet.run()).status is RunStatus.SUCCEEDED, "with its work directory the cluster takes it in again"
    shutil.rmtree(fleet.root / "cp1")
    lose_work_directory(fleet)
    message = failure(await fleet.run())
    assert "pki.ca is not there" in message
    assert "makes no new one for a cluster that exists" in message
    assert fleet.secrets() == {}


async def test_a_half_made_cluster_and_a_lost_work_directory_begin_again(fleet: Fleet) -> None:
    """Nothing was brought up, so new CAs do no harm; the hosts stay this cluster's."""
    await fleet.run()
    uid = (fleet.work_dir / "uid").read_text()
    lose_work_directory(fleet)
    assert (await fleet.run()).status is RunStatus.SUCCEEDED
    assert (fleet.work_dir / "uid").read_text() == uid
    mark = fleet.marker("w1")
    assert mark is not None
    assert mark.ca_fingerprint == fingerprint(fleet.secret("pki.ca.crt"))


async def test_a_ca_is_never_replaced_under_a_cluster_that_exists(fleet: Fleet) -> None:
    await bring_up(fleet)
    other = Fleet(fleet.root / "other", text=fleet.text)
    other.root.mkdir()
    await other.run()
    for end in ("crt", "key"):
        (fleet.work_dir / "secrets" / f"pki.ca.{end}").write_text(other.secret(f"pki.ca.{end}"))
    message = failure(await fleet.run())
    assert "is not the one the cluster's hosts were made with" in message


async def test_another_work_directory_of_this_name_is_refused(fleet: Fleet) -> None:
    await bring_up(fleet)
    (fleet.work_dir / "uid").write_text("another\n")
    with pytest.raises(PlanError, match="another cluster of the name prod"):
        fleet.plan()


async def test_hosts_of_other_clusters_are_refused_and_not_touched(fleet: Fleet) -> None:
    fleet.mark("w1", uid="x", name="staging", roles=["worker"], caFingerprint="sha256:cc")
    with pytest.raises(PlanError, match="w1: the cluster staging"):
        fleet.plan()
    fleet.mark("w1", uid="x", name="prod")
    with pytest.raises(PlanError, match="of which no etcd or control-plane host in the file is part"):
        fleet.plan()
    fleet.mark("cp1", uid="y", name="prod", roles=["etcd"], caFingerprint="sha256:cc")
    with pytest.raises(PlanError, match=r"w1: another cluster of the name prod \(x, not y\)"):
        fleet.plan()
    (fleet.root / "w1/state/cluster.json").write_text("{")
    with pytest.raises(PlanError, match=r"w1: its mark .* cannot be read"):
        fleet.plan()


async def test_marks_that_contradict_each_other_are_refused(fleet: Fleet) -> None:
    await bring_up(fleet)
    fleet.mark("cp3", caFingerprint="sha256:old")
    with pytest.raises(PlanError, match="do not agree on its CA"):
        fleet.plan()


async def test_a_run_that_lost_the_race_stops_before_anything_is_brought_up(fleet: Fleet) -> None:
    """Facts said that the hosts were free; meanwhile another machine made a cluster of them."""
    ctx = fleet.context()
    graph = fleet.plan(ctx)
    fleet.mark("cp2", uid="theirs", name="prod", roles=["etcd"], caFingerprint="sha256:cc")
    from kubexm.engine import Journal, LocalEngine, RunOptions

    journal = Journal.create(fleet.root / "journal-race")
    result = await LocalEngine().execute(ctx, graph, RunOptions(run="race", journal=journal))
    await journal.close()
    assert "belongs to another cluster: prod (theirs)" in failure(result)
    provider = next(node for node in graph.nodes.values() if PKI_ISSUED in node.provides)
    assert result.nodes[provider.id].hosts["control-node"].state is State.BLOCKED


def test_initialising_needs_every_keeper(fleet: Fleet) -> None:
    fleet.unreached = ("cp2",)
    with pytest.raises(PlanError, match="cp2 could not be reached, so nobody knows"):
        fleet.plan()
    fleet.unreached = ("w1",)
    fleet.plan()


async def test_of_a_cluster_that_exists_a_keeper_may_be_away(fleet: Fleet) -> None:
    await bring_up(fleet)
    fleet.unreached = ("cp2",)
    assert "pki.authorities.fetched" in fleet.plan().nodes


def test_offline_it_is_planned_as_a_new_cluster(fleet: Fleet) -> None:
    fleet.unreached = (*KEEPERS, "w1", "lb1")
    assert "pki.authorities.fetched" not in fleet.plan().nodes


async def test_the_files_of_an_external_etcd_become_secrets(fleet: Fleet) -> None:
    other = Fleet(fleet.root / "theirs", text=fleet.text)
    other.root.mkdir()
    await other.run()
    for name, secret in (
        ("ca.crt", "etcd-ca.crt"),
        ("c.crt", "apiserver-etcd-client.crt"),
        ("c.key", "apiserver-etcd-client.key"),
    ):
        (fleet.root / name).write_text(other.secret(f"pki.{secret}"))
    fleet.text = HA.format(
        more="""\
  etcd:
    type: external
    external: {endpoints: ['https://10.9.0.1:2379'], caFile: ca.crt, certFile: c.crt, keyFile: ./c.key}
"""
    ).replace('etcd: ["cp[1:3]"], ', "")
    assert (await fleet.run()).status is RunStatus.SUCCEEDED
    assert fleet.secret("pki.etcd-ca.crt") == other.secret("pki.etcd-ca.crt")
    assert "pki.etcd-ca.key" not in fleet.secrets()
    assert not [name for name in fleet.secrets() if "etcd-server" in name]
    assert changed(await fleet.run()) == []
    (fleet.root / "c.key").write_text(other.secret("pki.ca.key"))
    assert "has a key that is not its own" in failure(await fleet.run())
    (fleet.root / "c.key").unlink()
    assert "c.key cannot be read" in failure(await fleet.run())


def test_a_plan_holds_no_secret_and_is_the_same_each_time(fleet: Fleet) -> None:
    graph = fleet.plan()
    assert fleet.plan().digest == graph.digest
    for node in graph.nodes.values():
        assert decode(encode(node.step), type(node.step)) == node.step
    kinds = {type(node.step) for node in graph.nodes.values()}
    assert {ClusterIdentified, AuthoritiesKept, CertificatesIssued, HostMarked} <= kinds


def test_the_place_of_encryption_is_where_the_control_plane_puts_it() -> None:
    assert ENCRYPTION_CONFIG == ENCRYPTION


def test_offline_an_address_only_the_host_knows_is_stood_for(fleet: Fleet) -> None:
    fleet.unreached = (*KEEPERS, "w1", "lb1")
    fleet.text = HA.format(more="").replace("address: 192.0.2.21, internalAddress: 10.0.0.21", "type: local")
    step = fleet.plan().nodes["pki.certificates.nodes"].step
    assert isinstance(step, CertificatesIssued)
    assert step.certificates[-1].addresses == ("198.18.0.4",)
    fleet.unreached = ()
    with pytest.raises(PlanError, match="w1: it has no IPv4 address"):
        fleet.plan()
