"""etcd's own steps on hosts that answer as told: what they find, what they do about it, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.etcd import joining, serving
from kubexm.components.etcd.data import cluster_id
from kubexm.components.etcd.external import ExternalEtcdHealthy
from kubexm.components.etcd.forming import FoundersKnown, MemberSealed
from kubexm.components.etcd.joining import MemberAdmitted
from kubexm.components.etcd.serving import MemberRunning, MemberServing
from kubexm.components.etcd.unit import founding, sealed
from kubexm.components.identity import CLUSTER_UID
from kubexm.connector import Command, CommandResult
from kubexm.errors import CommandError, StepError
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

PEERS = (("n1", "https://10.0.0.1:2380"), ("n2", "https://10.0.0.2:2380"), ("n3", "https://10.0.0.3:2380"))
CLIENTS = (("n1", "https://10.0.0.1:2379"), ("n2", "https://10.0.0.2:2379"), ("n3", "https://10.0.0.3:2379"))
CLUSTER = cluster_id((url for _, url in PEERS), "u1")


def anything(text: str) -> re.Pattern[str]:
    return re.compile(f"(?s).*{text}.*")


def head(member: int, cluster: int) -> str:
    """The line a host prints of a log with these ids."""

    def varint(value: int) -> bytes:
        out = b""
        while value > 0x7F:
            out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
        return out + bytes([value])

    metadata = b"\x08" + varint(member) + b"\x10" + varint(cluster)
    record = b"\x08\x01\x10\x00\x1a" + varint(len(metadata)) + metadata
    return f"wal {(len(record).to_bytes(8, 'little') + record).hex()}"


def members(*names: str, learner: str = "", unstarted: str = "", cluster: int = CLUSTER) -> str:
    """A list of members as etcdctl prints it; ids are 1 for n1 and so on."""
    found: list[dict[str, Any]] = []
    for name in names:
        entry: dict[str, Any] = {"ID": int(name[1:]), "peerURLs": [dict(PEERS)[name]], "isLearner": name == learner}
        if name != unstarted:
            entry |= {"name": name, "clientURLs": [dict(CLIENTS)[name]]}
        found.append(entry)
    return json.dumps({"header": {"cluster_id": cluster}, "members": found})


class Bench:
    """One host, what it was asked, and a step on it."""

    def __init__(self, tmp_path: Path, host: str = "n1") -> None:
        self.host = MemoryConnector(host)
        self.changes: list[str] = []
        self._context = memory_context(tmp_path / "work", {host: self.host})
        self.connector = UnitConnector(self.host, Transcript)
        self.ctx: StepContext = self._context.step_context("etcd.keep.step", self.connector, "run-1")
        self.ctx.cache.set(CLUSTER_UID, "u1", host)

    def says(self, text: str, stdout: str = "", *, stderr: str = "", code: int = 0, times: int | None = None) -> None:
        self.host.on(anything(text), stdout=stdout, stderr=stderr, exit_code=code, times=times)

    def takes(self, text: str, stderr: str = "", code: int = 0) -> None:
        """A change that is noted."""

        def note(command: Command) -> CommandResult:
            self.changes.append(command.display.partition(" (")[0])
            return CommandResult(host="n1", command="", exit_code=code, stderr=stderr.encode(), stdout=b"changed\n")

        self.host.on(anything(text), callback=note)

    def begin(self) -> StepContext:
        """From now on it may change things."""
        self.connector.begin("r")
        return self.ctx


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in these tests."""

    async def no_sleep(_: float) -> None:
        return None

    monkeypatch.setattr("asyncio.sleep", no_sleep)
    monkeypatch.setattr(joining, "_PATIENCE", 0.05)
    monkeypatch.setattr(serving, "_CRASHES", 3)


FOUNDERS = FoundersKnown(data_dir="/var/lib/etcd", peers=PEERS)


async def test_an_empty_founder_must_be_told(bench: Bench) -> None:
    bench.says("kx_w", "other \n")
    assert (await FOUNDERS.precheck(bench.ctx)).reason == "it does not know the other members yet"
    bench.says("kx_w", f"other \n{founding(PEERS, token='u1')}")
    assert (await FOUNDERS.precheck(bench.ctx)).satisfied


async def test_a_founder_with_data_of_this_cluster_goes_on(bench: Bench) -> None:
    bench.says("kx_w", head(7, CLUSTER))
    assert (await FOUNDERS.precheck(bench.ctx)).satisfied


@pytest.mark.parametrize(
    ("line", "what"), [(head(7, 0xABC), "another etcd cluster (abc)"), ("other lost keys", "`lost keys`")]
)
async def test_a_founder_with_other_data_refuses(bench: Bench, line: str, what: str) -> None:
    bench.says("kx_w", line)
    with pytest.raises(StepError, match=re.escape(what)) as caught:
        await FOUNDERS.precheck(bench.ctx)
    assert "remove what is in /var/lib/etcd yourself" in caught.value.hint


ADMITTED = MemberAdmitted(data_dir="/var/lib/etcd", peer_urls=PEERS, others=CLIENTS)


async def test_a_member_that_has_data_and_runs_is_asked_nothing_more(bench: Bench) -> None:
    bench.says("kx_w", f"{head(1, CLUSTER)}\nactive\n")
    assert (await ADMITTED.precheck(bench.ctx)).satisfied
    assert len(bench.host.commands) == 1


async def test_a_member_that_is_down_is_recognised_by_the_others(bench: Bench) -> None:
    bench.says("kx_w", f"{head(1, CLUSTER)}\ninactive\n")
    bench.says("member list", members("n1", "n2", "n3"))
    assert (await ADMITTED.precheck(bench.ctx)).satisfied
    asked = bench.host.scripts[-1]
    assert dict(CLIENTS)["n2"] in asked
    assert dict(CLIENTS)["n1"] not in asked, "not itself"
    bench.says("member list", members("n2", "n3"))
    with pytest.raises(StepError, match=r"a member that was removed \(1\)"):
        await ADMITTED.precheck(bench.ctx)
    bench.says("member list", members("n1", "n2", "n3", cluster=5))
    with pytest.raises(StepError, match="data of another etcd cluster"):
        await ADMITTED.precheck(bench.ctx)


async def test_data_of_a_member_that_is_down_is_known_by_its_seal_or_not_at_all(bench: Bench) -> None:
    bench.says("member list", stderr="context deadline exceeded", code=1)
    bench.says("kx_w", f"{head(1, CLUSTER)}\ninactive\n{sealed(CLUSTER)}")
    assert (await ADMITTED.precheck(bench.ctx)).satisfied
    for told in ("", sealed(5)):
        bench.says("kx_w", f"{head(1, CLUSTER)}\ninactive\n{told}")
        assert "cannot be told" in (await ADMITTED.precheck(bench.ctx)).reason
    with pytest.raises(StepError, match="no quorum"):
        await ADMITTED.run(bench.begin())


SEALED = MemberSealed(data_dir="/var/lib/etcd")


async def test_a_member_is_sealed_for_the_cluster_of_its_data(bench: Bench) -> None:
    bench.says("kx_w", f"{head(1, CLUSTER)}\n{founding(PEERS, token='u1')}")
    assert not (await SEALED.precheck(bench.ctx)).satisfied
    bench.takes("kx_put .*bootstrap.env")
    await SEALED.run(bench.begin())
    assert bench.host.commands[-1].stdin == sealed(CLUSTER).encode()
    bench.says("kx_w", f"{head(1, CLUSTER)}\n{sealed(CLUSTER)}")
    assert (await SEALED.precheck(bench.ctx)).satisfied


async def test_an_empty_member_takes_the_place_of_its_old_self(bench: Bench) -> None:
    bench.says("kx_w", "other \ninactive\n")
    bench.says("endpoint health", json.dumps([{"endpoint": url, "health": True} for _, url in CLIENTS[1:]]))
    bench.says("member list", members("n1", "n2", "n3"), times=2)
    check = await ADMITTED.precheck(bench.ctx)
    assert check.reason == "its data is gone"

    # Newest answer first: the list after the removal, then the one after the addition.
    after = members("n1", "n2", "n3", learner="n1", unstarted="n1")
    lists = [members("n1", "n2", "n3"), members("n2", "n3"), after, after]
    bench.host.on(anything("member list"), callback=lambda _: lists.pop(0))
    bench.takes("member remove 1")
    bench.takes("member add n1 --learner --peer-urls=https://10.0.0.1:2380")
    bench.takes("kx_put .*bootstrap.env")
    await ADMITTED.run(bench.begin())
    assert [change.split()[:3] for change in bench.changes] == [
        ["etcdctl", "member", "remove"],
        ["etcdctl", "member", "add"],
        ["write", "/etc/etcd/bootstrap.env"],
    ]
    written = bench.host.commands[-1].stdin or b""
    assert b"ETCD_INITIAL_CLUSTER=n1=https://10.0.0.1:2380,n2=" in written
    assert b"STATE=existing" in written


async def test_who_is_expected_already_is_not_added_twice(bench: Bench) -> None:
    bench.says("kx_w", "other \n")
    bench.says("member list", members("n1", "n2", "n3", learner="n1", unstarted="n1"))
    bench.takes("kx_put .*bootstrap.env")
    await ADMITTED.run(bench.begin())
    assert bench.changes == ["write /etc/etcd/bootstrap.env"]


async def test_an_addition_that_was_done_though_no_answer_came_is_done(bench: Bench) -> None:
    bench.says("kx_w", "other \n")
    lists = [members("n2", "n3"), members("n1", "n2", "n3", learner="n1", unstarted="n1")]
    bench.host.on(anything("member list"), callback=lambda _: lists.pop(0))
    bench.takes("member add", "Error: context deadline exceeded", 1)
    bench.takes("kx_put .*bootstrap.env")
    await ADMITTED.run(bench.begin())
    assert len(bench.changes) == 2


async def test_the_others_refusal_is_told(bench: Bench) -> None:
    bench.says("kx_w", "other \n")
    bench.says("member list", members("n2", "n3"))
    bench.takes("member add", "Error: etcdserver: permission denied", 1)
    with pytest.raises(CommandError, match=r"refuse `member add`: .*permission denied"):
        await ADMITTED.run(bench.begin())


async def test_a_place_is_not_taken_if_that_could_cost_the_quorum(bench: Bench) -> None:
    bench.says("kx_w", "other \n")
    bench.says("member list", members("n1", "n2", "n3"))
    bench.says("endpoint health", json.dumps([{"endpoint": CLIENTS[1][1], "health": True}]), code=1)
    with pytest.raises(StepError, match="of 3 members 1 are well, and 2 must be"):
        await ADMITTED.run(bench.begin())
    assert bench.changes == []


async def test_nobody_joins_where_there_is_no_quorum(bench: Bench) -> None:
    bench.says("kx_w", "other \ninactive\n")
    bench.says("member list", stderr="Error: context deadline exceeded", code=1)
    assert not (await ADMITTED.precheck(bench.ctx)).satisfied
    with pytest.raises(StepError, match="etcd has no quorum") as caught:
        await ADMITTED.run(bench.begin())
    assert "restore a snapshot" in caught.value.hint


RUNNING = MemberRunning(unit="etcd", urls=CLIENTS)


def up(bench: Bench, active: str = "active") -> None:
    bench.says("systemctl show", f"LoadState=loaded\nActiveState={active}\nSubState=running\nUnitFileState=enabled\n")


async def test_a_restart_is_refused_if_the_others_are_no_quorum(bench: Bench) -> None:
    up(bench)
    bench.says("member list", members("n1", "n2", "n3"))
    bench.says("endpoint health", json.dumps([{"endpoint": CLIENTS[1][1], "health": True}]), code=1)
    with pytest.raises(StepError, match=r"would leave 1 of 3 members.*n3 does not answer") as caught:
        await RUNNING.run(bench.begin())
    assert "bring n3 back first" in caught.value.hint


@pytest.mark.parametrize(
    ("names", "well"),
    [(("n1", "n2", "n3"), ("n2", "n3")), (("n1", "n2"), ("n2",)), (("n1",), ())],
    ids=["three", "two", "one"],
)
async def test_a_restart_is_done_if_the_others_are_well(
    bench: Bench, names: tuple[str, ...], well: tuple[str, ...]
) -> None:
    bench.says("member list", members(*names))
    bench.says("endpoint health", json.dumps([{"endpoint": dict(CLIENTS)[name], "health": True} for name in well]))
    bench.takes("kx_start .* etcd.service restart")
    up_only = re.compile(r"(?s)(?!.*kx_start ').*systemctl show -p LoadState.*-- etcd.service")
    bench.host.on(up_only, stdout="LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n")
    await RUNNING.run(bench.begin())
    assert bench.changes == ["restart etcd.service"]


SERVING = MemberServing(
    url="https://127.0.0.1:2379", peer_urls=PEERS, others=tuple(url for _, url in CLIENTS), within=0.2
)


async def test_a_voter_that_answers_serves(bench: Bench) -> None:
    bench.says("member list", members("n1", "n2", "n3"))
    assert (await SERVING.precheck(bench.ctx)).satisfied
    assert bench.ctx.warnings == []
    assert len(bench.host.commands) == 1


async def test_where_nobody_has_a_quorum_the_next_member_gets_its_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_OUTAGE", 0.0)
    bench.says("member list", stderr="context deadline exceeded", code=1)
    up(bench)
    ctx = bench.begin()
    assert not (await SERVING.precheck(ctx)).satisfied
    await SERVING.run(ctx)
    assert (await SERVING.precheck(ctx)).satisfied


async def test_a_member_that_alone_does_not_serve_is_not_passed_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_OUTAGE", 0.0)

    def ask(command: Command) -> CommandResult:
        own = "127.0.0.1" in command.script
        return CommandResult(host="n1", command="", exit_code=int(own), stdout=members("n1", "n2", "n3").encode())

    up(bench)
    bench.says("journalctl", "starting\n")
    bench.says("kx_is_up etcd.service [|]")
    bench.host.on(anything("member list"), callback=ask)
    with pytest.raises(CommandError, match=r"does not serve after 0\.2 s"):
        await SERVING.run(bench.begin())


async def test_members_the_file_does_not_name_are_told_of(bench: Bench) -> None:
    found = json.loads(members("n1", "n2", "n3"))
    found["members"].append({"ID": 0xAB, "name": "old", "peerURLs": ["https://10.9.9.9:2380"]})
    bench.says("member list", json.dumps(found))
    await MemberServing(url=SERVING.url, peer_urls=PEERS).precheck(bench.ctx)
    assert bench.ctx.warnings == [
        "etcd has a member old that the file does not name; to remove it: `etcdctl member remove ab`"
    ]


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("Error: etcdserver: rpc not supported for learner", "it does not vote yet"),
        ("context deadline exceeded", "it does not answer with a quorum"),
        ("x509: certificate signed by unknown authority", "its certificate or ours is refused"),
        ("Active Alarm(s): NOSPACE", "it has an alarm: Active Alarm(s): NOSPACE"),
    ],
)
async def test_why_it_does_not_serve(bench: Bench, stderr: str, reason: str) -> None:
    bench.says("member list", stderr=stderr, code=1)
    assert (await SERVING.precheck(bench.ctx)).reason == reason


async def test_a_learner_is_let_vote_once_it_has_caught_up(bench: Bench) -> None:
    asked: list[str] = []

    def ask(command: Command) -> CommandResult:
        voting = len(bench.changes) == 2
        own = "127.0.0.1" in command.script
        asked.append(command.script)
        if own and not voting:
            return CommandResult(host="n1", command="", exit_code=1, stderr=b"rpc not supported for learner")
        text = members("n1", "n2", "n3", learner="" if voting else "n1")
        return CommandResult(host="n1", command="", exit_code=0, stdout=text.encode())

    bench.host.on(anything("member list"), callback=ask)
    bench.takes("member promote 1", "can only promote a learner member which is in sync with leader", 1)
    up(bench)
    step = MemberServing(url=SERVING.url, peer_urls=PEERS, others=SERVING.others, within=5)
    await step.run(bench.begin())
    assert bench.changes == ["let n1 vote in etcd"] * 2


async def test_who_does_not_come_up_says_why(bench: Bench) -> None:
    bench.says("member list", stderr="connection refused", code=1)
    fatal = json.dumps({"level": "fatal", "msg": "creating peer listener failed", "error": "address already in use"})
    bench.says("journalctl", f"{fatal}\n")
    bench.says("kx_is_up etcd.service [|]", "activating auto-restart exit-code 1", stderr=fatal, code=7)
    shown = "LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nUnitFileState=enabled\nNRestarts=3\n"
    bench.host.on(re.compile(r"(?s)(?!.*kx_).*systemctl show -p LoadState.*"), stdout=shown)
    words = "does not stay up: fatal: creating peer listener failed: address already in use"
    with pytest.raises(CommandError, match=words) as caught:
        await SERVING.run(bench.begin())
    assert "journalctl -u etcd" in caught.value.hint


EXTERNAL = ExternalEtcdHealthy(endpoints=("https://a:2379", "https://b:2379"))


async def test_an_external_etcd_is_well_if_one_endpoint_is(bench: Bench) -> None:
    bench.says("server=https://a:2379", '{"health":"true"}')
    bench.says("server=https://b:2379", stderr="no route to host", code=1)
    assert (await EXTERNAL.precheck(bench.ctx)).satisfied
    assert bench.ctx.warnings == ["etcd at https://b:2379 is not well: no route to host"]


async def test_an_external_etcd_that_is_not_well_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubexm.components.etcd.external._PATIENCE", 0.0)
    bench.says("get --raw /health", '{"health":"false"}')
    assert not (await EXTERNAL.precheck(bench.ctx)).satisfied
    with pytest.raises(StepError, match="none of the endpoints") as caught:
        await EXTERNAL.run(bench.ctx)
    assert "caFile" in caught.value.hint
