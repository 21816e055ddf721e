"""A real etcd on three lab hosts: formed, changed, reinstalled, broken, backed up. No Kubernetes needs to be there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.etcd import Etcd
from kubexm.components.etcd.serving import MemberServing
from kubexm.components.pki.module import Pki
from kubexm.lab import Lab
from kubexm.lab.bundle import BundleBuild, PlainProgress
from kubexm.plan import ExecutionNode
from tests.cluster.conftest import MakeLab
from tests.cluster.parts import HostsReady, Parts, PkiReady

VERSION = "v1.34.4"
PKI = "/etc/etcd/pki"
ACCESS = f"--cacert={PKI}/ca.crt --cert={PKI}/healthcheck-client.crt --key={PKI}/healthcheck-client.key"
CLIENT = ("pki.etcd-ca.crt", "pki.apiserver-etcd-client.crt", "pki.apiserver-etcd-client.key")
WIPE = """
systemctl stop etcd-backup.timer etcd 2>/dev/null
rm -rf /etc/systemd/system/etcd* /etc/etcd /var/lib/etcd /var/lib/kubexm /usr/local/bin/etcd* /var/backups/etcd
rm -rf /opt/kubexm/programs/etcd
systemctl daemon-reload; systemctl reset-failed 2>/dev/null; userdel etcd 2>/dev/null; :
"""


@pytest.fixture(scope="module")
def bundle() -> Path:
    """The bundle of one Kubernetes version, from the user's cache."""
    return BundleBuild([VERSION], progress=PlainProgress(print)).run(install=True)


@pytest.fixture(scope="module")
def hosts(make_lab: MakeLab) -> Iterator[Lab]:
    """Three hosts for etcd."""
    lab = make_lab(topology="3+0")
    yield lab
    lab.down()


class Members(Parts):
    """etcd on the lab's hosts."""

    names = ("n1", "n2", "n3")
    patience = 0.0
    """Seconds for a member to serve, where what is planned takes too long for a test."""

    def tweak(self, node: ExecutionNode) -> ExecutionNode:
        if self.patience and isinstance(node.step, MemberServing):
            return replace(node, step=replace(node.step, within=self.patience))
        return node

    async def etcdctl(self, host: str, *words: str, endpoint: str = "https://127.0.0.1:2379") -> str:
        return await self.sh(host, f"/usr/local/bin/etcdctl {ACCESS} --endpoints={endpoint} {' '.join(words)}")

    async def members(self, host: str = "n1") -> dict[str, dict[str, Any]]:
        """The members by name, as one of them knows."""
        found = json.loads(await self.etcdctl(host, "member list -w json"))["members"]
        return {member.get("name", ""): member for member in found}

    async def invocations(self) -> list[str]:
        """Which start of etcd it is, on each host."""
        return await self.everywhere("systemctl show -p InvocationID --value etcd")

    async def healthy(self, *names: str) -> None:
        """Each of these answers by itself, with a quorum."""
        for name in names or self.names:
            assert "is healthy" in await self.etcdctl(name, "endpoint health 2>&1")


@pytest.fixture
async def etcd(hosts: Lab, bundle: Path, tmp_path: Path) -> AsyncIterator[Members]:
    """Hosts with nothing of etcd on them."""
    made = Members(hosts, bundle, tmp_path, (Pki, HostsReady, Etcd), {"kubernetes": {"version": VERSION}})
    await made.everywhere(WIPE)
    yield made
    await made.everywhere(WIPE)


async def test_members_start_together_and_come_to_a_quorum(etcd: Members) -> None:
    (await etcd.run()).ok()
    members = await etcd.members()
    assert sorted(members) == ["n1", "n2", "n3"]
    assert not any(member.get("isLearner") for member in members.values())
    await etcd.healthy()
    await etcd.etcdctl("n1", "put greeting hello")
    assert await etcd.etcdctl("n3", "get greeting --print-value-only") == "hello"
    assert await etcd.sh("n2", "stat -c '%a %U' /var/lib/etcd") == "700 etcd"
    assert await etcd.sh("n2", "stat -c '%a %U' /etc/etcd/pki/*.key | sort -u") == "600 etcd"
    assert await etcd.sh("n2", "ps -o user= -C etcd") == "etcd"

    # TLS everywhere: no plain text, nobody without a certificate of our CA, metrics on the host itself alone.
    address = etcd.lab.hosts[0].address
    for url in (f"https://{address}:2379/health", f"https://{address}:2380/members", f"http://{address}:2379/health"):
        code = await etcd.sh("n2", f"curl -sk --max-time 5 -o /dev/null -w '%{{http_code}}' {url}", check=False)
        assert code in ("000", "400"), url
    known = f"--cacert {PKI}/ca.crt --cert {PKI}/healthcheck-client.crt --key {PKI}/healthcheck-client.key"
    assert '"health":"true"' in await etcd.sh("n2", f"curl -s {known} https://{address}:2379/health")
    assert "etcd_server_has_leader 1" in await etcd.sh("n1", "curl -s http://127.0.0.1:2381/metrics")
    assert await etcd.sh("n2", f"curl -s --max-time 5 http://{address}:2381/metrics", check=False) == ""

    before = await etcd.invocations()
    assert (await etcd.run()).ok().changed == []
    assert await etcd.invocations() == before


async def test_members_can_be_started_one_by_one_too(etcd: Members) -> None:
    """Whoever starts the first member must not wait for one that is started by the same hand."""
    etcd.parallel = 1
    (await etcd.run()).ok()
    await etcd.healthy()


async def test_a_run_that_ended_before_hosts_were_marked_goes_on_where_it_was(etcd: Members) -> None:
    (await etcd.run()).ok()
    await etcd.etcdctl("n1", "put greeting hello")
    before = await etcd.invocations()
    for name in etcd.names:
        await etcd.sh(name, "sed -i '/\"etcd\"/d' /var/lib/kubexm/cluster.json")
    changed = (await etcd.run()).ok().changed
    assert changed == [("etcd.form.marked", name) for name in etcd.names]
    assert await etcd.invocations() == before
    assert await etcd.etcdctl("n2", "get greeting --print-value-only") == "hello"


async def test_a_change_reaches_one_member_at_a_time_and_nobody_notices(etcd: Members) -> None:
    (await etcd.run()).ok()
    before = await etcd.invocations()
    urls = ",".join(f"https://{host.address}:2379" for host in etcd.lab.hosts)
    await etcd.sh(
        "n1",
        f"""cat >/root/writer <<'END'
n=0 bad=0
while ! [ -e /root/enough ]; do
  n=$((n + 1))
  /usr/local/bin/etcdctl {ACCESS} --endpoints={urls} --command-timeout=10s put key $n >/dev/null 2>>/root/writer.log \
    || bad=$((bad + 1))
done
echo "$n $bad" >/root/written
END
rm -f /root/enough /root/written /root/writer.log; setsid sh /root/writer >/dev/null 2>&1 </dev/null &""",
    )
    etcd.spec["etcd"] = {"tuning": {"heartbeatInterval": "200ms"}}
    outcome = (await etcd.run()).ok()
    until = "for i in $(seq 300); do [ -e /root/written ] && exit 0; sleep 0.1; done; exit 1"
    await etcd.sh("n1", f"touch /root/enough; {until}")
    written, bad = map(int, (await etcd.sh("n1", "cat /root/written; rm -f /root/enough /root/writ*")).split())
    assert written > 10
    assert bad == 0, "a client that knows all members never went without"

    nodes = {".".join(node.split(".")[:3]) for node, _ in outcome.changed}
    assert nodes <= {"etcd.keep.unit", "etcd.keep.start", "etcd.keep.serving"}
    for name in etcd.names:
        assert (f"etcd.keep.unit.{name}", name) in outcome.changed
        assert "--heartbeat-interval=200" in await etcd.sh(name, "tr '\\0' ' ' </proc/$(pidof etcd)/cmdline")
    for earlier, later in (("n1", "n2"), ("n2", "n3")):
        served = outcome.at(f"etcd.keep.serving.{earlier}", earlier).ended
        assert served is not None
        assert (outcome.at(f"etcd.keep.start.{later}", later).started or 0) >= served
    assert not set(await etcd.invocations()) & set(before)
    assert (await etcd.run()).ok().changed == []


async def test_a_restart_that_would_cost_the_quorum_is_refused(etcd: Members) -> None:
    (await etcd.run()).ok()
    before = await etcd.invocations()
    await etcd.sh("n3", "kill -STOP $(pidof etcd)")
    try:
        etcd.spec["etcd"] = {"tuning": {"heartbeatInterval": "200ms"}}
        node, host = (await etcd.run()).failure()
        assert (node, host.host) == ("etcd.keep.start.n1", "n1")
        assert host.error is not None
        assert "would leave 1 of 3 members" in host.error.message
        assert "n3 does not answer" in host.error.message
        assert "bring n3 back first" in host.error.hint
    finally:
        await etcd.sh("n3", "kill -CONT $(pidof etcd)")
    assert await etcd.invocations() == before
    await etcd.healthy()


async def test_a_member_that_is_down_is_started_before_others_are_restarted(etcd: Members) -> None:
    (await etcd.run()).ok()
    await etcd.sh("n2", "systemctl stop etcd")
    etcd.spec["etcd"] = {"tuning": {"heartbeatInterval": "200ms"}}
    (await etcd.run()).ok()
    await etcd.healthy()


async def test_a_cluster_that_is_down_as_a_whole_is_brought_back(etcd: Members) -> None:
    """One at a time would be for ever: no member serves before the next is started."""
    (await etcd.run()).ok()
    await etcd.etcdctl("n1", "put greeting hello")
    await etcd.everywhere("systemctl stop etcd")
    etcd.spec["etcd"] = {"tuning": {"heartbeatInterval": "200ms"}}
    (await etcd.run()).ok()
    await etcd.healthy()
    assert await etcd.etcdctl("n2", "get greeting --print-value-only") == "hello"


async def test_a_reinstalled_host_joins_the_survivors(etcd: Members) -> None:
    (await etcd.run()).ok()
    await etcd.etcdctl("n1", "put greeting hello")
    old, before = await etcd.members(), await etcd.invocations()
    await etcd.sh("n2", WIPE)
    (await etcd.run()).ok()
    new = await etcd.members()
    assert sorted(new) == ["n1", "n2", "n3"]
    assert not any(member.get("isLearner") for member in new.values())
    assert new["n2"]["ID"] != old["n2"]["ID"], "a new member in the old one's place"
    assert [new[name]["ID"] for name in ("n1", "n3")] == [old[name]["ID"] for name in ("n1", "n3")]
    assert [(await etcd.invocations())[index] for index in (0, 2)] == [before[index] for index in (0, 2)]
    assert await etcd.etcdctl("n2", "get greeting --consistency=s --print-value-only") == "hello"
    assert (await etcd.run()).ok().changed == []


async def test_a_member_that_lost_its_data_joins_again(etcd: Members) -> None:
    (await etcd.run()).ok()
    await etcd.etcdctl("n1", "put greeting hello")
    await etcd.sh("n3", "systemctl stop etcd; rm -rf /var/lib/etcd/*")
    # What an etcd leaves that tried to join, and reached nobody.
    vain = "--initial-cluster=n3=http://127.0.0.1:12380,x=http://127.0.0.1:1 --initial-cluster-state=existing"
    peer = "--initial-advertise-peer-urls=http://127.0.0.1:12380 --listen-peer-urls=http://127.0.0.1:12380"
    await etcd.sh("n3", f"! timeout 30 etcd --name=n3 --data-dir=/var/lib/etcd {vain} {peer} >/dev/null 2>&1")
    await etcd.sh("n3", "test -e /var/lib/etcd/member/snap/db && chown -R etcd /var/lib/etcd/member")
    (await etcd.run()).ok()
    await etcd.healthy()
    assert await etcd.etcdctl("n3", "get greeting --print-value-only") == "hello"


async def test_a_join_that_was_cut_short_is_finished(etcd: Members) -> None:
    (await etcd.run()).ok()
    await etcd.sh("n2", WIPE)
    found = await etcd.members()
    await etcd.etcdctl("n1", f"member remove {found['n2']['ID']:x}")
    await asyncio.sleep(1)
    add = f"member add n2 --learner --peer-urls=https://{etcd.lab.hosts[1].address}:2380"
    # Members that have not known each other for five seconds are no healthy cluster yet.
    await etcd.sh("n1", f"for i in $(seq 30); do /usr/local/bin/etcdctl {ACCESS} {add} && exit; sleep 1; done; exit 1")
    (await etcd.run()).ok()
    assert sorted(await etcd.members()) == ["n1", "n2", "n3"]
    await etcd.healthy()


async def test_one_member_becomes_three(etcd: Members) -> None:
    groups = {"controlPlane": ["n1"], "worker": ["n1", "n2", "n3"]}
    etcd.spec["roleGroups"] = {"etcd": ["n1"], **groups}
    (await etcd.run()).ok()
    await etcd.etcdctl("n1", "put greeting hello")
    etcd.spec["roleGroups"] = {"etcd": ["n1", "n2", "n3"], **groups}
    outcome = (await etcd.run()).ok()
    assert ("etcd.keep.start.n1", "n1") not in outcome.changed, "who is there already has no reason to restart"
    assert sorted(await etcd.members("n2")) == ["n1", "n2", "n3"]
    await etcd.healthy()
    assert await etcd.etcdctl("n3", "get greeting --print-value-only") == "hello"


async def test_a_member_that_is_gone_from_the_file_is_told_of_and_left_alone(etcd: Members) -> None:
    (await etcd.run()).ok()
    etcd.spec["roleGroups"] = {"etcd": ["n1", "n2"], "controlPlane": ["n1"], "worker": ["n1"]}
    outcome = (await etcd.run()).ok()
    (warning,) = outcome.at("etcd.keep.quorum", "n1").warnings
    assert "a member n3 that the file does not name" in warning
    assert sorted(await etcd.members()) == ["n1", "n2", "n3"]


async def test_a_lone_member_without_its_data_forms_no_other_cluster(etcd: Members) -> None:
    etcd.spec["roleGroups"] = {"etcd": ["n1"], "controlPlane": ["n1"], "worker": ["n1"]}
    (await etcd.run()).ok()
    await etcd.sh("n1", "systemctl stop etcd; rm -rf /var/lib/etcd/*; systemctl start etcd; sleep 3")
    assert await etcd.sh("n1", "ls -A /var/lib/etcd") == "", "not by itself either"
    assert "must join again" in await etcd.sh("n1", "journalctl -u etcd -o cat | tail -n 20")
    node, host = (await etcd.run()).failure()
    assert node == "etcd.keep.admitted.n1"
    assert host.error is not None
    assert "no quorum" in host.error.message
    assert "restore a snapshot" in host.error.hint


async def test_too_few_survivors_let_nobody_in(etcd: Members) -> None:
    (await etcd.run()).ok()
    await asyncio.gather(etcd.sh("n1", WIPE), etcd.sh("n2", WIPE))
    before = await etcd.sh("n3", "systemctl show -p InvocationID --value etcd")
    etcd.patience = 10
    outcome = await etcd.run()
    failed = {(node, host.host): host.error for node, host in outcome.result.failures()}
    assert failed
    error = next(iter(failed.values()))
    assert error is not None
    assert "quorum" in error.message
    assert await etcd.sh("n3", "systemctl show -p InvocationID --value etcd") == before
    assert await etcd.everywhere("ls -A /var/lib/etcd 2>/dev/null || :") == ["", "", "member"]


FOREIGN = """
mkdir -p /var/lib/etcd && cp /root/etcd.real /root/etcd-foreign && chmod +x /root/etcd-foreign
timeout 4 /root/etcd-foreign --name other --data-dir /var/lib/etcd --initial-cluster-token other \
  --initial-cluster other=http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 \
  --listen-peer-urls http://127.0.0.1:12380 --listen-client-urls http://127.0.0.1:12379 \
  --advertise-client-urls http://127.0.0.1:12379 >/dev/null 2>&1
rm /root/etcd-foreign; test -d /var/lib/etcd/member/wal
"""
SUMS = "cd /var/lib/etcd && find . -type f -exec sha256sum {} + | sort; stat -c '%n %a %U' . member"


async def test_data_of_another_cluster_is_never_touched(etcd: Members) -> None:
    (await etcd.run()).ok()
    await etcd.sh("n2", f"cp /usr/local/bin/etcd /root/etcd.real\n{WIPE}")
    await etcd.sh("n2", FOREIGN)
    sums = await etcd.sh("n2", SUMS)
    for wanted in ("etcd.keep.admitted.n2", "etcd.form.founders"):
        node, host = (await etcd.run()).failure()
        assert (node, host.host) == (wanted, "n2")
        assert host.error is not None
        assert "holds data of another etcd cluster" in host.error.message
        assert "/var/lib/etcd" in host.error.hint
        assert await etcd.sh("n2", SUMS) == sums
        # A second time as a new cluster: nobody else is a member yet.
        for name in ("n1", "n3"):
            await etcd.sh(name, WIPE)
    await etcd.sh("n2", "rm -f /root/etcd.real")


async def test_whoever_does_not_come_up_says_why(etcd: Members) -> None:
    taken = "setsid socat TCP-LISTEN:2380,fork,reuseaddr EXEC:true >/dev/null 2>&1 </dev/null & echo $!"
    taker = await etcd.sh("n2", taken)
    try:
        outcome = await etcd.run()
        errors = {host.host: host.error for _, host in outcome.result.failures()}
        error = errors["n2"]
        assert error is not None
        assert "address already in use" in error.message
        assert "journalctl -u etcd" in error.message + error.hint
        assert not any(node == "etcd.form.marked" for node, _ in outcome.changed), "it is no cluster yet"
    finally:
        await etcd.sh("n2", f"kill {taker}")
    (await etcd.run()).ok()
    await etcd.healthy()


async def test_an_argument_etcd_does_not_know_is_told(etcd: Members) -> None:
    etcd.spec["etcd"] = {"extraArgs": {"frobnicate": "yes"}}
    _, host = (await etcd.run()).failure()
    assert host.error is not None
    assert "frobnicate" in host.error.message


async def test_snapshots_by_the_clock(etcd: Members) -> None:
    etcd.spec["etcd"] = {"backup": {"schedule": "0 3 * * *", "keep": 2}}
    (await etcd.run()).ok()
    assert "03:00:00" in await etcd.sh("n1", "systemctl list-timers --no-pager etcd-backup.timer")
    for _ in range(3):
        await etcd.sh("n1", "systemctl start etcd-backup && sleep 1.1")
    listed = await etcd.sh("n1", "stat -c '%n %a %U' /var/backups/etcd/*")
    assert len(listed.splitlines()) == 2
    assert all(line.endswith(".db 600 etcd") for line in listed.splitlines())
    newest = await etcd.sh("n1", "ls -d /var/backups/etcd/* | tail -n 1")
    status = await etcd.sh("n1", f"/usr/local/bin/etcdutl snapshot status -w json {newest}")
    assert json.loads(status)["totalSize"] > 0
    assert (await etcd.run()).ok().changed == []
    etcd.spec["etcd"] = {}
    (await etcd.run()).ok()
    assert await etcd.sh("n1", "systemctl cat etcd-backup.timer 2>/dev/null", check=False) == ""
    assert len((await etcd.sh("n1", "ls /var/backups/etcd")).splitlines()) == 2, "what was taken is kept"
    await etcd.sh("n1", "systemctl start etcd-backup")
    assert len((await etcd.sh("n1", "ls /var/backups/etcd")).splitlines()) == 3, "one that was asked for"


async def test_an_etcd_of_the_users_own_is_asked_how_it_is(etcd: Members, tmp_path: Path) -> None:
    (await etcd.run()).ok()
    secrets = {name: etcd.secret(name).read_text() for name in CLIENT}
    other = tmp_path / "other"
    other.mkdir()
    theirs = Parts(etcd.lab, etcd.bundle, other, (PkiReady, HostsReady, Etcd), {"kubernetes": {"version": VERSION}})
    theirs.spec["roleGroups"] = {"etcd": [], "controlPlane": ["n1"], "worker": ["n1", "n2", "n3"]}
    files = {key: str(etcd.secret(name)) for key, name in zip(("caFile", "certFile", "keyFile"), CLIENT, strict=True)}
    urls = [f"https://{host.address}:2379" for host in etcd.lab.hosts]
    theirs.spec["etcd"] = {"type": "external", "external": {"endpoints": urls, **files}}
    try:
        outcome = (await theirs.run(secrets=secrets)).ok()
        changed = [node for node, _ in outcome.changed if node != "etcd.external.client"]  # staged by an earlier test
        assert changed == ["etcd.external.pki", "etcd.external.client-active"]
        assert (await theirs.run()).ok().changed == []

        await etcd.sh("n3", "systemctl stop etcd")
        (warning,) = (await theirs.run()).ok().at("etcd.external.healthy", "n1").warnings
        assert f"etcd at {urls[2]} is not well" in warning

        await etcd.sh("n2", "systemctl stop etcd")
        node, host = (await theirs.run()).failure()
        assert (node, host.host) == ("etcd.external.healthy", "n1")
        assert host.error is not None
        assert "none of the endpoints" in host.error.message
    finally:
        await etcd.sh("n1", "rm -rf /etc/kubernetes /usr/local/bin/kubectl")
