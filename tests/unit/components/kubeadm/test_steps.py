"""Steps of a control plane of static pods, on hosts that answer as told, and their scripts in a real shell."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.components.etcd.data import cluster_id
from kubexm.components.kubeadm import manifests
from kubexm.components.kubeadm.health import Probe, StaticPodsServe
from kubexm.components.kubeadm.layout import DIGEST
from kubexm.components.kubeadm.manifests import StaticPod, StaticPodsWritten
from kubexm.components.kubeadm.members import (
    MEMBERS,
    PodMemberAdmitted,
    PodMemberBegins,
    PodMembersKnown,
    PodMemberVotes,
)
from kubexm.components.kubeadm.upload import SettingsUploaded
from kubexm.components.kubelet.running import KubeletRunning
from kubexm.connector import Command, CommandResult
from kubexm.errors import CommandError, StepError
from kubexm.runner import Facts
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.step import clash
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.components.etcd.test_steps import head, members
from tests.unit.components.kube_api import KubeApi

PEERS = (("n1", "https://10.0.0.1:2380"), ("n2", "https://10.0.0.2:2380"), ("n3", "https://10.0.0.3:2380"))
OTHERS = (("n2", "https://10.0.0.2:2379"), ("n3", "https://10.0.0.3:2379"))
FOUNDED = cluster_id((url for _, url in PEERS), "etcd-cluster")
_OLD = """case $* in
  *non_learner) echo 'Error from server (NotFound): the server could not find the requested resource' >&2; exit 1 ;;
  *metrics) printf '# HELP x\\netcd_server_has_leader 1\\netcd_server_is_learner {}\\n' ;;
esac"""
PODS = (
    StaticPod(component="kube-apiserver", inputs=()),
    StaticPod(component="kube-scheduler", inputs=()),
)


def anything(*texts: str) -> re.Pattern[str]:
    return re.compile("(?s).*" + ".*".join(texts) + ".*")


class Bench:
    """n1, which answers as told."""

    def __init__(self, tmp_path: Path) -> None:
        self.memory = MemoryConnector("n1")
        self.context = memory_context(tmp_path, {"n1": self.memory})
        self.connector = UnitConnector(self.memory, Transcript)
        self.runs = 0
        self.ctx: StepContext = self.context.step_context("kubeadm.run.x", self.connector, "run-1")

    async def run(self, step: Any) -> Any:
        self.runs += 1
        self.connector.begin(f"r{self.runs}")
        try:
            return await step.run(self.ctx)
        finally:
            self.connector.end()

    def knows(self, value: str) -> None:
        self.context.caches.publish("kubeadm.run.x", MEMBERS, value, "n1")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# Manifests


async def test_manifests_are_done_if_the_host_finds_no_fault(bench: Bench) -> None:
    step = StaticPodsWritten(phases=("control-plane all",), pods=PODS, grace=64)
    bench.memory.on(anything("kx_look kube-apiserver", "kx_look kube-scheduler"), stdout="", times=1)
    assert (await step.precheck(bench.ctx)).satisfied
    bench.memory.on(anything("kx_look"), stdout="kube-scheduler was edited, or a file it reads changed\n")
    shown = "sources-digest\nkind: Pod\nname: mine\n--- that was it\nkind: Pod\nname: sched\n--- that was it\n"
    bench.memory.on(anything("kx_kubeadm 'control-plane all'", "cat -- /etc/kubernetes/manifests/"), stdout=shown)
    check = await step.precheck(bench.ctx)
    assert check.satisfied is False
    assert check.reason == "kube-scheduler was edited, or a file it reads changed"
    assert check.diff.splitlines()[0] == "--- /etc/kubernetes/manifests/kube-scheduler.yaml (now)"
    assert check.diff.splitlines()[-2:] == ["-name: mine", "+name: sched"]


async def test_while_the_sources_of_manifests_differ_nothing_is_made_to_compare_them(bench: Bench) -> None:
    step = StaticPodsWritten(phases=("control-plane all",), pods=PODS, grace=64)
    faults = "kube-scheduler: its kubeadm settings changed\nkube-scheduler was edited, or a file it reads changed\n"
    bench.memory.on(anything("kx_look"), stdout=faults)
    check = await step.precheck(bench.ctx)
    assert (check.satisfied, check.diff) == (False, "")


async def test_what_kubeadm_makes_is_written_whole_after_the_old_pods_are_gone(bench: Bench) -> None:
    made = "sources-digest\nkind: Pod\nname: api\n--- that was it\nkind: Pod\nname: sched\n--- that was it\n"
    written: list[Command] = []
    bench.memory.on(anything("kx_kubeadm 'control-plane all'", "kx_show kube-apiserver"), stdout=made)
    bench.memory.on(
        anything("kx_retire /etc/kubernetes/manifests/kube-apiserver.yaml", "kx_land"), callback=written.append
    )
    stamped: list[Command] = []
    bench.memory.on(
        anything("/var/lib/kubexm/kubeadm/kube-apiserver 600", "/var/lib/kubexm/kubeadm/kube-scheduler 600"),
        callback=stamped.append,
    )
    await bench.run(StaticPodsWritten(phases=("control-plane all",), pods=PODS, grace=64))
    assert written[0].stdin == b"kind: Pod\nname: api\nkind: Pod\nname: sched\n"
    assert stamped[0].stdin == b"sources-digest\nsources-digest\n"
    assert written[0].timeout > 60


@pytest.mark.parametrize("api", [True, False])
async def test_old_pods_are_waited_for_only_if_the_kubelet_can_end_them(
    bench: Bench, tmp_path: Path, api: bool
) -> None:
    made = "sources-digest\nkind: Pod\nname: api\n--- that was it\nkind: Pod\nname: sched\n--- that was it\n"
    written: list[Command] = []
    bench.memory.on(anything("kx_kubeadm 'control-plane all'"), stdout=made)
    bench.memory.on(anything("kx_land"), callback=written.append)
    bench.memory.on(anything("/var/lib/kubexm/kubeadm/kube-apiserver"))
    await bench.run(StaticPodsWritten(phases=("control-plane all",), pods=PODS, grace=64))
    for name in ("kube-apiserver", "kube-scheduler") if api else ("kube-scheduler",):
        (tmp_path / f"{name}.yaml").write_text("    kubexm.io/digest: sha256-1\n")
    # A kubelet that ends nothing, however often one looks.
    stubs = (
        "kx_keep_each() { :; }; systemctl() { echo active; }; crictl() { echo pod; }; sleep() { echo waited; exit; }\n"
    )
    retire = written[0].script.partition("(\nkx_found")[2].partition("\n) </dev/null")[0]
    said = sh(stubs + "kx_found" + retire.replace("/etc/kubernetes/manifests", str(tmp_path)), tmp_path)
    assert said == ("waited\n" if api else "")
    assert not list(tmp_path.glob("kube-*"))


async def test_etcds_pod_is_told_how_to_begin_where_that_still_matters(bench: Bench, tmp_path: Path) -> None:
    step = StaticPodsWritten(
        phases=("etcd local",), pods=(StaticPod(component="etcd", inputs=()),), grace=64, members=MEMBERS
    )
    assert step.consumes() == (MEMBERS,)
    assert (await step.precheck(bench.ctx)).reason == "who the members of etcd are is not known yet"
    bench.knows("new n1=https://10.0.0.1:2380")
    looked: list[Command] = []

    def look(command: Command) -> str:
        looked.append(command)
        return ""

    bench.memory.on(anything("kx_look etcd"), callback=look)
    await step.precheck(bench.ctx)
    question = looked[0].script[looked[0].script.index("for l in") :]
    own = "    - --initial-cluster=n1=https://10.0.0.1:2380\n"
    for lines, said in (
        (f"{own}    - --initial-cluster-state=new\n", ""),
        (f"{own}    - --initial-cluster-state=existing\n", "etcd does not know its members\n"),
        ("    - --initial-cluster-state=new\n", "etcd does not know its members\n"),
    ):
        (tmp_path / "etcd.yaml").write_text(lines)
        assert sh(question.replace("/etc/kubernetes/manifests/", ""), tmp_path) == said
    bench.knows("")
    await step.precheck(bench.ctx)
    assert "initial-cluster" not in looked[1].script


async def test_an_api_server_leaves_before_the_etcd_that_is_replaced(bench: Bench) -> None:
    step = StaticPodsWritten(
        phases=("etcd local",), pods=(StaticPod(component="etcd", inputs=()),), grace=64, members=MEMBERS
    )
    bench.knows("")
    written: list[Command] = []
    bench.memory.on(anything("kx_kubeadm 'etcd local'"), stdout="sources-digest\nkind: Pod\n--- that was it\n")
    bench.memory.on(anything("kx_retire /etc/kubernetes/manifests/etcd.yaml"), callback=written.append)
    bench.memory.on(anything("/var/lib/kubexm/kubeadm/"))
    await bench.run(step)
    order = (
        "if kx_differs /etc/kubernetes/manifests/etcd.yaml",
        "kx_retire /etc/kubernetes/manifests/kube-apiserver.yaml -",
        "kx_wait\n",
        "stop -t 64 $kx_api",
        "kx_retire /etc/kubernetes/manifests/etcd.yaml",
    )
    script = written[0].script
    places = [script.index(text) for text in order]
    assert places == sorted(places), "if there is an etcd to be replaced, the API server leaves before it"
    assert "file:/etc/kubernetes/manifests/kube-apiserver.yaml" in step.writes(), "who wrote it looks again"


def sh(script: str, cwd: Path) -> str:
    return subprocess.run(["sh", "-c", script], cwd=cwd, check=True, capture_output=True, text=True).stdout


def test_the_digest_sees_an_edit_and_a_changed_file_and_nothing_else(tmp_path: Path) -> None:
    """The library's own functions: a manifest certifies itself."""
    (tmp_path / "input").write_text("one")
    (tmp_path / "pod").write_text("labels:\n    kubexm.io/digest: kubexm-digest-goes-here\nspec: {}\n")
    stamp = (
        manifests._LIBRARY
        + 'kx_pod pod kubexm-digest-goes-here input && sed -i "s|kubexm-digest-goes-here|$p_digest|" pod'
    )
    sh(stamp, tmp_path)
    digest = (tmp_path / "pod").read_text().split("digest: ")[1].split()[0]
    assert re.fullmatch(r"sha256-[0-9a-f]{40}", digest)
    verify = (
        manifests._LIBRARY
        + 'd=$(kx_found pod); kx_pod pod "$d" input && [ "$d" = "$p_digest" ] && echo same || echo other'
    )
    assert sh(verify, tmp_path) == "same\n"
    (tmp_path / "input").write_text("two")
    assert sh(verify, tmp_path) == "other\n"
    (tmp_path / "input").write_text("one")
    assert sh(verify, tmp_path) == "same\n"
    (tmp_path / "pod").write_text((tmp_path / "pod").read_text().replace("{}", "{a: 1}"))
    assert sh(verify, tmp_path) == "other\n"


def test_how_members_begin_is_put_in_for_an_empty_one_and_kept_for_others(tmp_path: Path) -> None:
    """kubeadm names only the member itself; the line of a manifest that is there must not change for nothing."""
    old = tmp_path / "old.yaml"

    def generated(members: str, state: str) -> str:
        (tmp_path / "etcd.yaml").write_text("    - etcd\n    - --initial-cluster=n1=https://a:2380\n    - --name=n1\n")
        script = manifests._ETCD.format(members=f"'{members}'", state=f"'{state}'")
        sh(f"kx_dir={tmp_path}\n" + script.replace("/etc/kubernetes/manifests/etcd.yaml", str(old)), tmp_path)
        return (tmp_path / "etcd.yaml").read_text()

    assert generated("", "") == "    - etcd\n    - --initial-cluster=n1=https://a:2380\n    - --name=n1\n"
    new = generated("n1=https://a:2380,n2=https://b:2380", "new")
    assert new == (
        "    - etcd\n    - --initial-cluster=n1=https://a:2380,n2=https://b:2380\n    - --initial-cluster-state=new\n"
        "    - --name=n1\n"
    )
    old.write_text(new)
    assert generated("", "") == new
    joined = generated("n1=https://a:2380,n9=https://c:2380", "existing")
    assert "--initial-cluster=n1=https://a:2380,n9=https://c:2380\n    - --initial-cluster-state=existing" in joined


# Health


def serves(*components: str) -> StaticPodsServe:
    return StaticPodsServe(probes=tuple(Probe(component=one, port=6443, path="/readyz") for one in components))


async def test_pods_are_well_if_the_host_has_nothing_to_say_against_them(bench: Bench) -> None:
    bench.memory.on(anything("kx_why kube-apiserver"), stdout="\n", times=1)
    assert (await serves("kube-apiserver").precheck(bench.ctx)).satisfied
    bench.memory.on(anything("kx_why kube-apiserver"), stdout="kube-apiserver does not listen yet\n")
    assert (await serves("kube-apiserver").precheck(bench.ctx)).reason == "kube-apiserver does not listen yet"


async def test_a_pod_that_does_not_come_up_tells_its_containers_last_words(bench: Bench) -> None:
    bench.memory.on(
        anything("while :", "kx_why kube-scheduler"),
        stdout="kube-scheduler\n",
        stderr="kube-scheduler does not listen yet\n",
        exit_code=1,
    )
    log = "container 0123456789abcdef\nexited\nI am fine\nError: unknown flag: --nonsense\n"
    bench.memory.on(anything("set -- kube-scheduler"), stdout=log)
    with pytest.raises(CommandError, match="unknown flag: --nonsense") as caught:
        await bench.run(serves("kube-apiserver", "kube-scheduler"))
    assert "kube-scheduler did not come up: kube-scheduler does not listen yet" in caught.value.message
    assert "its last container (exited)" in caught.value.message
    assert "crictl logs 0123456789abc" in caught.value.hint


async def test_a_pod_that_was_never_started_tells_what_the_kubelet_says(bench: Bench) -> None:
    bench.memory.on(anything("while :"), stdout="kube-apiserver\n", stderr="not started yet\n", exit_code=1)
    bench.memory.on(anything("set -- kube-apiserver"), stdout="\nnone\nE1116 Failed to pull image: not found\n")
    with pytest.raises(CommandError, match=r"the kubelet's log.*Failed to pull image"):
        await bench.run(serves("kube-apiserver"))


def test_the_api_server_is_asked_as_administrator_and_others_with_no_secret() -> None:
    words = Probe(component="kube-apiserver", port=6443, path="/readyz").question.full()
    assert words[:3] == ("kubectl", "--kubeconfig", "/etc/kubernetes/super-admin.conf")
    other = Probe(component="kube-scheduler", port=10259, path="/healthz").question.full()
    assert "https://127.0.0.1:10259" in other
    assert "--insecure-skip-tls-verify" in other
    plain = Probe(component="etcd", port=2381, path="/readyz", tls=False).question.full()
    assert "http://127.0.0.1:2381" in plain
    assert "--insecure-skip-tls-verify" not in plain


class Pods:
    """A host with curl, whose scripts are run in a real shell: a manifest, and stand-ins for what asks."""

    def __init__(self, root: Path, port: int) -> None:
        self.root, self.step = root, StaticPodsServe(probes=(Probe(component="kube-apiserver", port=port, path="/x"),))
        self.memory = MemoryConnector("n1").on(anything("kx_why"), callback=self.answer)
        facts = replace(Facts.assumed(), commands=("curl",))
        context = memory_context(root / "work", {"n1": self.memory}, facts={"n1": facts})
        self.ctx = context.step_context("kubeadm.run.x", UnitConnector(self.memory, Transcript), "run-1")
        (root / "kube-apiserver.yaml").write_text(f"    {DIGEST}: abc\n")
        for name in ("crictl", "curl", "kubectl"):
            self.program(name)
        self.program("crictl", f"echo '{DIGEST}: abc'")

    def program(self, name: str, script: str = "") -> None:
        path = self.root / name
        path.write_text(f'#!/bin/sh\necho "$*" >>{self.root}/{name}.asked\n{script}\n')
        path.chmod(0o755)

    def asked(self, name: str) -> int:
        path = self.root / f"{name}.asked"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def answer(self, command: Command) -> CommandResult:
        script = command.script.replace("/etc/kubernetes/manifests", str(self.root))
        env = {"PATH": f"{self.root}:/usr/bin:/bin"}
        done = subprocess.run(
            ["sh", "-c", script.partition("export PATH\n")[2]], capture_output=True, env=env, timeout=60
        )
        return CommandResult(host="n1", command="x", exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield Pods(tmp_path, server.getsockname()[1])


async def test_a_pod_that_curl_finds_well_takes_no_kubectl(pods: Pods) -> None:
    assert (await pods.step.precheck(pods.ctx)).satisfied
    await pods.step.run(pods.ctx)
    assert (pods.asked("kubectl"), pods.asked("curl")) == (0, 3)
    pods.program("crictl", f"echo '{DIGEST}: of the pod before'")
    assert (await pods.step.precheck(pods.ctx)).reason.endswith("has not been started from its manifest yet")


async def test_while_a_pod_comes_up_nothing_large_is_started(pods: Pods) -> None:
    pods.program("curl", f"[ $(wc -l <{pods.root}/curl.asked) -gt 4 ]")
    await pods.step.run(pods.ctx)
    assert pods.asked("kubectl") == 0
    assert pods.asked("crictl") == 3, "twice for how often it was started before, once in the end"


async def test_what_curl_does_not_find_well_is_told_in_full(pods: Pods) -> None:
    pods.program("curl", "exit 22")
    pods.program("kubectl", "printf '[+]ping ok\\n[-]etcd failed\\n[+]log ok\\n' >&2; exit 1")
    assert (await pods.step.precheck(pods.ctx)).reason == "kube-apiserver is not well: [-]etcd failed"
    quick = replace(pods.step, within=1)
    with pytest.raises(CommandError, match=r"did not come up: kube-apiserver is not well: \[-\]etcd failed"):
        await quick.run(pods.ctx)
    pods.program("kubectl", "echo ok")
    await pods.step.run(pods.ctx)
    assert (await pods.step.precheck(pods.ctx)).satisfied, "curl's identity may have no right to ask"


# Members of a stacked etcd


def admitted() -> PodMemberAdmitted:
    return PodMemberAdmitted(data_dir="/var/lib/etcd", peer_urls=PEERS, others=OTHERS, image="etcd:1")


async def test_empty_members_form_the_cluster_together(bench: Bench) -> None:
    step = PodMembersKnown(data_dir="/var/lib/etcd", peer_urls=PEERS)
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout="other \n", times=1)
    check = await step.precheck(bench.ctx)
    assert check.values[MEMBERS] == "new " + ",".join(f"{name}={url}" for name, url in PEERS)
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout=head(1, FOUNDED), times=1)
    assert (await step.precheck(bench.ctx)).values[MEMBERS] == "", "a run that was cut short goes on"
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout=head(1, 42))
    with pytest.raises(StepError, match="data of another etcd cluster"):
        await step.precheck(bench.ctx)


async def test_a_member_with_data_is_not_asked_about(bench: Bench) -> None:
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout=head(1, 42))
    assert (await admitted().precheck(bench.ctx)).values[MEMBERS] == ""


async def test_an_empty_one_is_announced_and_told_the_others(bench: Bench) -> None:
    step, listed = admitted(), [members("n2", "n3")]
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout="other \n")
    bench.memory.on(anything("ctr -n k8s.io run", "member list"), callback=lambda _: listed[0])

    def added(command: Command) -> str:
        assert "--learner" in command.script
        assert "--endpoints=https://10.0.0.2:2379,https://10.0.0.3:2379" in command.script
        listed[0] = members("n2", "n3", "n1", learner="n1", unstarted="n1")
        return ""

    bench.memory.on(anything("member add n1"), callback=added)
    assert (await step.precheck(bench.ctx)).reason == "it is not a member yet"
    await bench.run(step)
    check = await step.precheck(bench.ctx)
    assert check.values[MEMBERS] == (
        "existing n2=https://10.0.0.2:2380,n3=https://10.0.0.3:2380,n1=https://10.0.0.1:2380"
    )


async def test_the_old_self_of_a_reinstalled_one_is_removed_first(bench: Bench) -> None:
    step, listed = admitted(), [members("n1", "n2", "n3")]
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout="other \n")
    bench.memory.on(anything("member list"), callback=lambda _: listed[0])
    health = [{"endpoint": url, "health": True} for _, url in OTHERS]
    bench.memory.on(anything("ctr -n k8s.io run", "endpoint health"), stdout=json.dumps(health))

    def removed(_: Command) -> str:
        listed[0] = members("n2", "n3")
        return ""

    def added(_: Command) -> str:
        listed[0] = members("n2", "n3", "n1", learner="n1", unstarted="n1")
        return ""

    bench.memory.on(anything("member remove 1"), callback=removed)
    bench.memory.on(anything("member add n1"), callback=added)
    assert (await step.precheck(bench.ctx)).reason == "its data is gone"
    await bench.run(step)
    assert (await step.precheck(bench.ctx)).satisfied


async def test_it_is_not_if_that_could_cost_the_quorum(bench: Bench) -> None:
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout="other \n")
    bench.memory.on(anything("member list"), stdout=members("n1", "n2", "n3"))
    health = [{"endpoint": OTHERS[0][1], "health": True}, {"endpoint": OTHERS[1][1], "health": False}]
    bench.memory.on(anything("endpoint health"), stdout=json.dumps(health))
    with pytest.raises(StepError, match="could cost etcd its quorum"):
        await bench.run(admitted())


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds between which nobody waits."""

    async def at_once(_: float) -> None:
        return None

    monkeypatch.setattr("kubexm.components.kubeadm.members.asyncio.sleep", at_once)


@pytest.mark.usefixtures("no_waiting")
async def test_a_learner_is_promoted_until_it_votes(bench: Bench) -> None:
    step = PodMemberVotes(
        data_dir="/var/lib/etcd", port=2381, peer_urls=PEERS, others=("https://10.0.0.2:2379",), image="etcd:1"
    )
    learner, tries = ["1"], []
    bench.memory.on(anything("/readyz/non_learner"), callback=lambda _: f"{learner[0]}\n")
    bench.memory.on(anything("member list"), stdout=members("n1", "n2", learner="n1", cluster=FOUNDED))
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout=head(1, FOUNDED))
    bench.memory.on(anything("kx_attempts etcd"), stdout="4\n")

    def promoted(command: Command) -> CommandResult | str:
        tries.append(command)
        if len(tries) < 3:
            return CommandResult(host="n1", command="", exit_code=1, stderr=b"can only promote a learner in sync")
        learner[0] = "0"
        return ""

    bench.memory.on(anything("member promote 1"), callback=promoted)
    assert (await step.precheck(bench.ctx)).reason == "it does not vote yet"
    await bench.run(step)
    assert len(tries) == 3
    assert (await step.precheck(bench.ctx)).satisfied


async def test_data_of_a_member_that_was_removed_is_told_at_once(bench: Bench) -> None:
    step = PodMemberVotes(data_dir="/var/lib/etcd", port=2381, peer_urls=PEERS, others=(OTHERS[0][1],), image="etcd:1")
    bench.memory.on(anything("/readyz/non_learner"), exit_code=1)
    bench.memory.on(anything("member list"), stdout=members("n1", "n2", cluster=FOUNDED))
    bench.memory.on(anything("kx_d=/var/lib/etcd"), stdout=head(77, FOUNDED))
    bench.memory.on(anything("kx_attempts etcd"))
    with pytest.raises(StepError, match=r"of a member that was removed \(4d\)") as error:
        await bench.run(step)
    assert "remove what is in /var/lib/etcd, then run again" in error.value.hint


@pytest.mark.usefixtures("no_waiting")
async def test_a_member_that_does_not_come_up_shows_its_own_last_words(bench: Bench) -> None:
    step = PodMemberVotes(data_dir="/var/lib/etcd", port=2381, peer_urls=PEERS, others=(OTHERS[0][1],), image="etcd:1")
    bench.memory.on(anything("/readyz/non_learner"), exit_code=1)
    bench.memory.on(anything("member list"), exit_code=1)
    restarts = iter(("5", "6", "7"))
    bench.memory.on(anything("kx_attempts etcd"), callback=lambda _: f"{next(restarts)}\n")
    bench.memory.on(anything("set -- etcd"), stdout="container 0123456789abcdef\nexited\nunknown flag: --x\n")
    with pytest.raises(CommandError, match="etcd did not come up: it does not vote; the last lines of its") as error:
        await bench.run(step)
    assert error.value.stderr == "unknown flag: --x"
    assert "crictl logs 0123456789abc" in error.value.hint


@pytest.mark.parametrize("active", ["active", "inactive"])
async def test_a_kubelet_forgets_older_pods_before_an_empty_member_may_begin(bench: Bench, active: str) -> None:
    changes: list[str] = []

    def note(command: Command) -> str:
        changes.append(command.display)
        return "changed\n"

    shown = f"LoadState=loaded\nActiveState={active}\nSubState=x\nUnitFileState=enabled\n"
    bench.memory.on(re.compile(r"(?s)(?!.*kx_).*systemctl show -p LoadState.*-- kubelet.service"), stdout=shown)
    bench.memory.on(anything("stop -t 5 .kx_api"), callback=note)
    bench.memory.on(anything("kx_start .* kubelet.service restart"), callback=note)
    bench.memory.on(anything("/var/lib/etcd/member 700"), callback=note)
    step = PodMemberBegins(path=PurePosixPath("/var/lib/etcd/member"))
    assert clash(step.writes(), KubeletRunning(unit="kubelet").reads()), "whether it runs is asked again"
    await bench.run(step)
    made = changes.pop()
    assert "/var/lib/etcd/member" in made
    stop = "stop the API server, which waits for its etcd"
    assert changes == ([stop, "restart kubelet.service"] if active == "active" else [])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("echo ok", ""),
        ("echo 'Error from server (ServiceUnavailable): …' >&2; exit 1", "it does not vote yet"),
        ("echo 'The connection to the server 127.0.0.1:2381 was refused' >&2; exit 1", "it does not answer yet"),
        # An etcd that does not know the question is asked for what it measures.
        (_OLD.format(0), ""),
        (_OLD.format(1), "it does not vote yet"),
    ],
)
async def test_a_member_says_itself_whether_it_votes(bench: Bench, tmp_path: Path, said: str, reason: str) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n{said}\n")
    kubectl.chmod(0o755)

    def asked(command: Command) -> CommandResult:
        script = f"PATH={tmp_path}:$PATH\n{command.script}"
        done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
        return CommandResult(host="n1", command="", exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    bench.memory.on(anything("/readyz/non_learner"), callback=asked)
    step = PodMemberVotes(
        data_dir="/var/lib/etcd", port=2381, peer_urls=PEERS, others=("https://10.0.0.2:2379",), image="etcd:1"
    )
    found = await step.precheck(bench.ctx)
    assert (found.satisfied, found.reason) == (not reason, reason)


# Settings in the cluster


async def test_settings_are_uploaded_once_and_noted(bench: Bench) -> None:
    step, api = SettingsUploaded(digest="d1"), KubeApi(connector=bench.memory)

    def uploaded(_: Command) -> str:
        for name in ("kubeadm-config", "kubelet-config"):
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}}
            api.objects["", "ConfigMap", "kube-system", name] = document
        return ""

    upload = "kubeadm init phase upload-config all --config /etc/kubernetes/kubeadm.yaml"
    bench.memory.on(anything(upload), callback=uploaded)
    assert (await step.precheck(bench.ctx)).satisfied is False
    await bench.run(step)
    assert (await step.precheck(bench.ctx)).satisfied
    assert (await SettingsUploaded(digest="d2").precheck(bench.ctx)).satisfied is False
