"""Building a context: all hosts at once, all failures in one error, and what a file alone can tell."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kubexm.connector import Host
from kubexm.errors import ConfigError, InitializationError, KubexmError, UsageError
from kubexm.redact import MASK
from kubexm.runtime import CONTROL_NODE, RuntimeBuilder, owner_name
from tests.unit.runtime.clusters import LOCAL, cluster_file, needs_root

CLOSED = """
hosts:
  - {name: cp1, address: 127.0.0.1, port: 1, user: root, password: never-used-1}
  - {name: "w[1:4]", address: "127.0.0.[11:14]", port: 1, user: root, password: never-used-2}
roleGroups: {etcd: [cp1], controlPlane: [cp1], worker: ["w[1:4]"]}
"""


@needs_root
async def test_a_local_host_and_the_control_node_are_reached_and_known(tmp_path: Path) -> None:
    ctx = await RuntimeBuilder(cluster_file(tmp_path, LOCAL)).build()
    try:
        assert set(ctx.host_runtimes) == {"n1", CONTROL_NODE}
        assert not ctx.unreached
        assert [host.name for host in ctx.hosts] == ["n1"]
        assert ctx.hosts[0].roles == {"etcd", "controlPlane", "worker"}
        facts = ctx.facts_of("n1")
        assert facts.hostname == os.uname().nodename
        assert not facts.is_assumed
        assert (await ctx.host_runtimes[CONTROL_NODE].command.read("echo hello")).text == "hello"
    finally:
        await ctx.close()


async def test_every_host_that_fails_is_in_one_error_with_its_reason_and_hint(tmp_path: Path) -> None:
    with pytest.raises(InitializationError) as caught:
        await RuntimeBuilder(cluster_file(tmp_path, CLOSED)).build()
    assert [error.host for error in caught.value.errors] == ["cp1", "w1", "w2", "w3", "w4"]
    assert all("refuses connections" in error.message and error.hint for error in caught.value.errors), (
        caught.value.message
    )
    assert caught.value.message.count("→") == 5


HALF_DEAD = """
hosts:
  - {name: n1, type: local}
  - {name: "w[1:4]", address: "127.0.0.[11:14]", port: 1, password: never-used-1}
roleGroups: {etcd: [n1], controlPlane: [n1], worker: ["w[1:4]"]}
"""


@pytest.mark.parametrize(("budget", "built"), [("0", False), ("3", False), ("4", True), ("'100%'", True)])
@needs_root
async def test_workers_within_budget_may_be_missing(tmp_path: Path, budget: str, built: bool) -> None:
    builder = RuntimeBuilder(cluster_file(tmp_path, f"{HALF_DEAD}\nexecution: {{maxFailedWorkers: {budget}}}"))
    if not built:
        with pytest.raises(InitializationError, match="4 hosts could not be initialised"):
            await builder.build()
        return
    ctx = await builder.build()
    try:
        assert set(ctx.unreached) == {"w1", "w2", "w3", "w4"}
        assert [host.name for host in ctx.hosts] == ["n1", "w1", "w2", "w3", "w4"]
        assert ctx.facts_of("w1").is_assumed
    finally:
        await ctx.close()


async def test_a_control_plane_is_never_within_budget(tmp_path: Path) -> None:
    builder = RuntimeBuilder(cluster_file(tmp_path, f"{CLOSED}\nexecution: {{maxFailedWorkers: '100%'}}"))
    with pytest.raises(InitializationError):
        await builder.build()


@needs_root
async def test_asking_hosts_questions_tolerates_who_does_not_answer(tmp_path: Path) -> None:
    ctx = await RuntimeBuilder(cluster_file(tmp_path, CLOSED), tolerate=True).build()
    try:
        assert set(ctx.unreached) == {"cp1", "w1", "w2", "w3", "w4"}
    finally:
        await ctx.close()


@needs_root
async def test_only_some_hosts_can_be_built(tmp_path: Path) -> None:
    path = cluster_file(tmp_path, HALF_DEAD)
    ctx = await RuntimeBuilder(path, only_hosts=["n1"]).build()
    try:
        assert [host.name for host in ctx.hosts] == ["n1"]
    finally:
        await ctx.close()
    with pytest.raises(UsageError, match=r"no such host in .*cluster\.yaml: n9") as caught:
        await RuntimeBuilder(path, only_hosts=["n1", "n9"]).build()
    assert "w4" in caught.value.hint


async def test_all_secrets_that_cannot_be_had_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KX_NO_SUCH", raising=False)
    path = cluster_file(
        tmp_path,
        """
hosts:
  - {name: a, address: 127.0.0.1, user: root, password: "env:KX_NO_SUCH"}
  - {name: b, address: 127.0.0.2, user: root, password: "file:gone.txt"}
  - {name: c, address: 127.0.0.3, user: root, password: prompt}
roleGroups: {etcd: [a], controlPlane: [a], worker: [b, c]}
""",
    )
    with pytest.raises(ConfigError) as caught:
        await RuntimeBuilder(path).build()
    first, *rest = caught.value.message.splitlines()
    assert first == "3 secrets cannot be had:"
    assert "password of root on a: the environment variable KX_NO_SUCH is not set" in rest[0]
    assert "gone.txt" in rest[2]
    assert "there is no terminal" in rest[4]


@needs_root
async def test_secrets_of_the_file_are_masked_from_the_start(tmp_path: Path) -> None:
    ctx = await RuntimeBuilder(cluster_file(tmp_path, CLOSED), tolerate=True).build()
    try:
        assert ctx.redactor("tried never-used-1, never-used-2") == f"tried {MASK}, {MASK}"
    finally:
        await ctx.close()


@needs_root
async def test_one_prompt_serves_everyone_it_is_worded_the_same_for(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(what: str) -> str:
        asked.append(what)
        return f"answer-{len(asked)}"

    body = CLOSED.replace("password: never-used-2", "password: prompt, sudoPassword: prompt")
    ctx = await RuntimeBuilder(cluster_file(tmp_path, body), tolerate=True, ask=ask).build()
    await ctx.close()
    assert asked == [
        "password of root on w1",
        "sudo password of root",
        "password of root on w2",
        "password of root on w3",
        "password of root on w4",
    ]


def test_offline_everything_stands_on_the_file(tmp_path: Path) -> None:
    body = CLOSED.replace("name: cp1,", "name: cp1, arch: arm64,").replace("never-used-2", "'env:KX_NO_SUCH'")
    ctx = RuntimeBuilder(cluster_file(tmp_path, body)).build_offline()
    assert ctx.offline
    assert not ctx.host_runtimes
    assert len(ctx.hosts) == 5
    assert ctx.facts_of("cp1").arch == "arm64"
    assert ctx.facts_of("w1").is_assumed
    assert not (tmp_path / ".kubexm").exists(), "nothing is made for a look"


@needs_root
async def test_the_work_directory_is_private_and_beside_the_file(tmp_path: Path) -> None:
    path = cluster_file(tmp_path, LOCAL)
    ctx = await RuntimeBuilder(path).build()
    await ctx.close()
    assert ctx.work_dir.path == tmp_path / ".kubexm" / "demo"
    assert stat.S_IMODE(ctx.work_dir.path.stat().st_mode) == 0o700
    other = await RuntimeBuilder(path, work_dir=str(tmp_path / "other")).build()
    await other.close()
    assert other.work_dir.path == tmp_path / "other" / "demo"


async def test_ignoring_errors_comes_from_the_file_unless_said_otherwise(tmp_path: Path) -> None:
    path = cluster_file(tmp_path, LOCAL + "\nglobal: {ignoreErrors: true}")
    assert RuntimeBuilder(path).build_offline().ignore_errors
    assert not RuntimeBuilder(path, ignore_errors=False).build_offline().ignore_errors


@pytest.mark.parametrize("name", ["control-node", "cluster"])
def test_names_with_a_meaning_of_their_own_are_refused_for_hosts(name: str, tmp_path: Path) -> None:
    with pytest.raises(KubexmError, match=f"no host can be called {name}: that"):
        RuntimeBuilder(cluster_file(tmp_path, LOCAL.replace("n1", name)))


def test_a_host_of_the_file_as_plans_see_it(tmp_path: Path) -> None:
    body = CLOSED.replace("name: cp1,", "name: cp1, internalAddress: '10.0.0.4,fd00::4', labels: {zone: a},")
    (cp1, *_) = RuntimeBuilder(cluster_file(tmp_path, body)).build_offline().hosts
    assert cp1 == Host(
        name="cp1",
        address="127.0.0.1",
        internal_addresses=("10.0.0.4", "fd00::4"),
        roles=frozenset({"etcd", "controlPlane"}),
        labels={"zone": "a"},
    )
    assert not hasattr(cp1, "password")


def test_who_holds_a_lease_can_be_found() -> None:
    assert owner_name().endswith(f"@{os.uname().nodename}:{os.getpid()}")
