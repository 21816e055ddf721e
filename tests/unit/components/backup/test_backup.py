"""A whole backup by the engine, on hosts in memory that answer as etcd does: what is written, refused, and left."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.backup.access import EtcdAccess, healthy_endpoints, preferred
from kubexm.components.backup.age import open_sealed
from kubexm.components.backup.module import Backup
from kubexm.components.backup.sealed import unpack
from kubexm.components.backup.sets import BackupSet, check, find_sets
from kubexm.connector import Command, CommandResult
from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.errors import ConnectError, HostError, PlanError
from kubexm.module import sequence
from kubexm.plan import ExecutionGraph, GraphExecutionResult, RunStatus
from kubexm.redact import Secret
from kubexm.runtime import CONTROL_NODE, Context, HostRuntime
from kubexm.testing import MemoryConnector
from tests.unit.components.around import cluster, context_of
from tests.unit.components.backup.made import ENCRYPTION, IDENTITY, RECIPIENT, UID, snapshot
from tests.unit.components.backup.test_sets import authority

RUN = "20260101-100000-abcd"
NAME = f"prod-{RUN}"
URLS = tuple(f"https://10.0.0.1{number}:2379" for number in (1, 2, 3))


def status(*healthy: str, leader: int = 1) -> tuple[str, str]:
    """What etcdctl prints about these endpoints: status and health."""
    found = [
        {
            "Endpoint": url,
            "Status": {
                "header": {"member_id": number, "cluster_id": 7, "revision": 5},
                "version": "3.6.5",
                "dbSize": 20480,
                "leader": leader,
            },
        }
        for number, url in enumerate(URLS, start=1)
    ]
    return json.dumps(found), json.dumps([{"endpoint": url, "health": url in healthy} for url in URLS])


class Member(MemoryConnector):
    """A host of a member: etcdctl answers, and the script of the step leaves a snapshot and a report."""

    def __init__(self, name: str, *, healthy: tuple[str, ...] = URLS, arrives: bytes | None = None) -> None:
        super().__init__(name)
        self.content, self.arrives, self.report = snapshot(), arrives, ""
        self.saved: list[str] = []
        state, health = status(*healthy)
        listed = {"header": {"cluster_id": 7}, "members": [{"ID": 1, "name": "cp1"}, {"ID": 2, "name": "cp2"}]}
        # The last answer that fits is given.
        self.on(re.compile(r"(?s).*/var/lib/kubexm/backup.*"), callback=self._exists)
        self.on(re.compile(r"(?s).*rm -rf -- /var/lib/kubexm/backup.*"), callback=self._remove)
        self.on(re.compile(r"(?s).*/report && stat.*"), callback=self._report)
        self.on(re.compile(r"(?s).*-x /usr/local/bin/etcdctl.*"))
        self.on(re.compile(r"(?s).*member list.*"), stdout=json.dumps(listed))
        self.on(re.compile(r"(?s).*endpoint health.*"), stdout=health, stderr="connection refused", exit_code=1)
        self.on(re.compile(r"(?s).*endpoint status.*"), stdout=state)
        self.on(re.compile(r"(?s).*snapshot save.*"), callback=self._save)

    def _answer(self, text: str = "", code: int = 0) -> CommandResult:
        return CommandResult(host=self.host, command="", exit_code=code, stdout=text.encode(), stderr=b"")

    def _save(self, command: Command) -> CommandResult:
        self.saved.append(command.display)
        self.put(f"/var/lib/kubexm/backup/{RUN}/snapshot.db", self.arrives or self.content)
        about = re.search(r"\"\$\{sum%% \*\}\" '(.*)'\n", command.script)
        assert about is not None
        told = {"hash": 9, "revision": 5, "totalKey": 3, "totalSize": 20480}
        digest = sha256(self.content).hexdigest()
        self.report = f"{json.dumps(told)}\n{digest}\n{about[1]}\n2026-01-01T10:00:00Z\n{len(self.content)}\n"
        return self._answer()

    def _report(self, command: Command) -> CommandResult:
        return self._answer(self.report, 0 if self.report else 1)

    def _remove(self, command: Command) -> CommandResult:
        self.files.clear()
        self.report = ""
        return self._answer()

    def _exists(self, command: Command) -> CommandResult:
        return self._answer("yes\n" if self.files else "", 0 if self.files else 1)


@pytest.fixture(scope="module")
def ca() -> bytes:
    return authority()


def context(tmp_path: Path, ca: bytes, members: Mapping[str, Member], *, unreached: tuple[str, ...] = ()) -> Context:
    base = context_of(cluster(), tmp_path / "work")
    connectors: dict[str, Any] = {**members, CONTROL_NODE: MemoryConnector(CONTROL_NODE)}
    known = {host.name: host for host in (*base.hosts, base.control_node)}
    facts = base.host_runtimes["cp1"].facts
    runtimes = {
        name: HostRuntime(known[name], connectors[name], replace(facts, boot_id="b"), base.runner)
        for name in connectors
        if name not in unreached
    }
    (tmp_path / "work/uid").write_text(UID)
    (tmp_path / "work/applied.json").write_text("{}")
    names = ("pki.ca.key", "pki.front-proxy-ca.key", "pki.sa.key")
    base.secrets.put_all({name: Secret(f"PRIVATE {name}") for name in names})
    base.secrets.put_all({"pki.ca.crt": Secret(ca.decode()), "encryption-config": Secret(ENCRYPTION.decode())})
    lost: dict[str, HostError] = {name: ConnectError(f"{name} does not answer", host=name) for name in unreached}
    return replace(base, host_runtimes=runtimes, unreached=lost, cluster_text="kind: Cluster # the file\n")


def messages(result: GraphExecutionResult) -> str:
    hosts = [host for node in result.nodes.values() for host in node.hosts.values()]
    return "\n".join(text for host in hosts for text in (*host.warnings, host.error.message if host.error else ""))


def graph(made: Context, tmp_path: Path, *recipients: str) -> ExecutionGraph:
    backup = Backup(to=str(tmp_path / "sets"), recipients=recipients)
    return sequence(backup).graph(made.pipeline_context(), name="backup")


async def backed_up(made: Context, tmp_path: Path, *recipients: str, journal: str = "j") -> GraphExecutionResult:
    opened = Journal.create(tmp_path / journal)
    try:
        options = RunOptions(run=RUN, journal=opened)
        return await LocalEngine().execute(made, graph(made, tmp_path, *recipients), options)
    finally:
        await opened.close()


def three(**more: Any) -> dict[str, Member]:
    return {name: Member(name, **more) for name in ("cp1", "cp2", "cp3")}


def saved(members: Mapping[str, Member]) -> list[str]:
    return [line for member in members.values() for line in member.saved]


async def test_a_set_is_written_checked_and_holds_the_keys_sealed(tmp_path: Path, ca: bytes) -> None:
    members = three()
    made = context(tmp_path, ca, members)
    result = await backed_up(made, tmp_path, RECIPIENT)
    assert result.status is RunStatus.SUCCEEDED, messages(result)
    [found] = find_sets(tmp_path / "sets")
    assert found.name == NAME
    assert check(found, uid=UID, identity=IDENTITY) == []
    assert found.manifest is not None
    assert (found.manifest.revision, found.manifest.member, found.manifest.etcd) == (5, "cp2", "3.6.5")
    assert sorted(path.name for path in found.path.iterdir()) == ["manifest.json", "secrets.age", "snapshot.db"]
    contents = unpack(open_sealed((found.path / "secrets.age").read_bytes(), IDENTITY))
    assert contents.files["cluster.yaml"] == b"kind: Cluster # the file\n"
    assert contents.files["secrets/pki.ca.key"] == b"PRIVATE pki.ca.key"
    assert saved(members) == [f"etcdctl snapshot save, from {URLS[1]}"]  # not the leader
    assert all(not member.files for member in members.values())


async def test_no_secret_is_in_set_plan_journal_or_commands(tmp_path: Path, ca: bytes) -> None:
    members = three()
    made = context(tmp_path, ca, members)
    await backed_up(made, tmp_path, RECIPIENT)
    texts = [graph(made, tmp_path, RECIPIENT).to_json().encode()]
    texts += [path.read_bytes() for path in (tmp_path / "sets" / NAME).iterdir()]
    texts += [path.read_bytes() for path in [tmp_path / "j", *(tmp_path / "j").rglob("*")] if path.is_file()]
    texts += [script.encode() for member in members.values() for script in member.scripts]
    assert not [text for text in texts if b"PRIVATE" in text or b"# the file" in text]


async def test_without_a_recipient_keys_are_left_out_and_a_warning_says_so(tmp_path: Path, ca: bytes) -> None:
    result = await backed_up(context(tmp_path, ca, three()), tmp_path)
    assert result.status is RunStatus.SUCCEEDED, messages(result)
    assert "NOT in this backup set" in messages(result)
    [found] = find_sets(tmp_path / "sets")
    assert found.manifest is not None
    assert found.manifest.recipients == ()
    assert not (found.path / "secrets.age").exists()
    assert check(found, uid=UID) == []


async def test_the_same_run_again_takes_no_other_snapshot(tmp_path: Path, ca: bytes) -> None:
    members = three()
    made = context(tmp_path, ca, members)
    await backed_up(made, tmp_path, RECIPIENT)
    before = (tmp_path / "sets" / NAME / "manifest.json").read_bytes()
    again = await backed_up(made, tmp_path, RECIPIENT, journal="again")
    assert again.status is RunStatus.SUCCEEDED
    assert not again.changed
    assert len(saved(members)) == 1
    assert (tmp_path / "sets" / NAME / "manifest.json").read_bytes() == before


async def test_a_snapshot_that_arrives_damaged_is_no_set_and_leaves_nothing_on_the_host(
    tmp_path: Path, ca: bytes
) -> None:
    members = three(arrives=snapshot(fill=b"harm"))
    result = await backed_up(context(tmp_path, ca, members), tmp_path, RECIPIENT)
    assert result.status is RunStatus.FAILED
    assert "did not arrive as it is on" in messages(result)
    assert find_sets(tmp_path / "sets") == []
    assert all(not member.files for member in members.values())


async def test_no_healthy_member_is_named_and_no_snapshot_taken(tmp_path: Path, ca: bytes) -> None:
    members = three(healthy=())
    result = await backed_up(context(tmp_path, ca, members), tmp_path, RECIPIENT)
    assert result.status is RunStatus.FAILED
    assert "no member of etcd" in messages(result)
    assert saved(members) == []
    assert find_sets(tmp_path / "sets") == []


async def test_a_host_that_is_down_is_passed_over(tmp_path: Path, ca: bytes) -> None:
    members = three(healthy=URLS[1:])
    made = context(tmp_path, ca, members, unreached=("cp1",))
    result = await backed_up(made, tmp_path, RECIPIENT)
    assert result.status is RunStatus.SUCCEEDED, messages(result)
    assert BackupSet.at(tmp_path / "sets" / NAME).manifest is not None
    assert members["cp1"].scripts == []


def test_a_wrong_recipient_and_a_cluster_that_is_not_there_are_refused(tmp_path: Path, ca: bytes) -> None:
    made = context(tmp_path, ca, three())
    with pytest.raises(PlanError, match="is not a public key"):
        graph(made, tmp_path, RECIPIENT[:-1] + ("q" if RECIPIENT[-1] != "q" else "p"))
    (tmp_path / "work/uid").unlink()
    with pytest.raises(PlanError, match="there is no cluster prod"):
        graph(made, tmp_path, RECIPIENT)


def test_the_own_member_is_preferred_and_the_leader_last() -> None:
    found = healthy_endpoints(*status(*URLS, leader=2))
    assert preferred(found, URLS[2]).url == URLS[2]
    assert preferred(found, URLS[1]).url == URLS[0]
    assert preferred(healthy_endpoints(*status(URLS[1], leader=2)), URLS[0]).url == URLS[1]
    assert healthy_endpoints("no answer", "") == []


def test_each_kind_of_etcd_is_asked_with_its_own_client_certificate() -> None:
    lines = {
        kind: EtcdAccess(type=kind, endpoints=(("", URLS[0]),), image="etcd:1").ctl("snapshot", "save", "/x")
        for kind in ("kubexm", "kubeadm", "external")
    }
    assert "--cert=/etc/etcd/pki/healthcheck-client.crt" in lines["kubexm"]
    assert "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt" in lines["kubeadm"]
    assert lines["kubeadm"].startswith("ctr -n k8s.io run --rm")
    assert "--cert=/etc/kubernetes/pki/apiserver-etcd-client.crt" in lines["external"]
