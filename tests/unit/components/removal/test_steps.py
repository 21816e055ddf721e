"""Steps of giving hosts back, on hosts that answer as told, and on a directory of this machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.components.removal.guard import HostNotAnothers
from kubexm.components.removal.local import WorkDirectoryCleared
from kubexm.components.removal.restoring import HostRestored
from kubexm.components.removal.steps import (
    DirectoriesCleared,
    HostReleased,
    NetworkCleared,
    PackagesGone,
    WorkloadsGone,
)
from kubexm.errors import StepError
from kubexm.runner import Facts
from kubexm.runner.facts import ClusterMarker
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context


class Host:
    """One in-memory host and the context of a step on it."""

    def __init__(self, work_dir: Path, *, marker: ClusterMarker | None = None) -> None:
        self.memory = MemoryConnector("n1")
        self.local = MemoryConnector("control-node")
        facts = replace(Facts.assumed(), marker=marker, package_manager="apt")
        connectors = {"n1": self.memory, "control-node": self.local}
        self.context = memory_context(work_dir, connectors, facts={"n1": facts})
        self.connector = UnitConnector(self.memory, Transcript)

    def on(self, pattern: str, **answer: object) -> Host:
        self.memory.on(re.compile(pattern, re.DOTALL), **answer)  # type: ignore[arg-type]
        return self

    @property
    def ctx(self) -> StepContext:
        self.connector.begin("run-1")
        return self.context.step_context("removal.host.x", self.connector, "run-1")

    @property
    def local_ctx(self) -> StepContext:
        return self.context.step_context("removal.host.x", UnitConnector(self.local, Transcript), "run-1")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


class TestMembership:
    GUARD = HostNotAnothers(cluster="prod", uid="u-1")

    @pytest.mark.parametrize("marker", [None, ClusterMarker(uid="u-1", name="prod")], ids=["nobody's", "ours"])
    async def test_ours_and_nobodys_pass(self, tmp_path: Path, marker: ClusterMarker | None) -> None:
        assert (await self.GUARD.precheck(Host(tmp_path, marker=marker).ctx)).satisfied

    @pytest.mark.parametrize(
        ("marker", "message"),
        [
            (ClusterMarker(uid="u-1", name="test"), "it belongs to test, not to prod (u-1)"),
            (ClusterMarker(uid="u-2", name="prod"), "it belongs to another cluster of this name (u-2), not to prod"),
            (ClusterMarker(uid="unreadable", name=""), "cannot be read"),
        ],
    )
    async def test_others_are_refused(self, tmp_path: Path, marker: ClusterMarker, message: str) -> None:
        with pytest.raises(StepError, match=re.escape(message)) as caught:
            await self.GUARD.precheck(Host(tmp_path, marker=marker).ctx)
        assert caught.value.hint

    async def test_without_a_uid_the_name_decides(self, tmp_path: Path) -> None:
        guard = HostNotAnothers(cluster="prod")
        marked = ClusterMarker(uid="u-7", name="prod")
        assert (await guard.precheck(Host(tmp_path, marker=marked).ctx)).satisfied


class TestWorkloads:
    async def test_nothing_runs(self, host: Host) -> None:
        host.on(r".*\nkx_left")
        assert (await WorkloadsGone().precheck(host.ctx)).satisfied

    async def test_what_runs_is_named(self, host: Host) -> None:
        host.on(r".*\nkx_left", stdout="etcd.service\n12 processes of pods\n")
        assert (await WorkloadsGone().precheck(host.ctx)).reason == "etcd.service, 12 processes of pods"

    async def test_the_runtime_can_go_on(self, host: Host) -> None:
        host.on(r".*kx_keep=containerd\.service\n.*\nkx_stop 1")
        await WorkloadsGone(keep_runtime=True).run(host.ctx)
        host.on(r".*kx_keep=\n.*\nkx_stop 10")
        await WorkloadsGone(keep_data=True).run(host.ctx)


class TestNetwork:
    async def test_done_once_what_was_before_is_forgotten(self, host: Host) -> None:
        host.on(r".*\[ -e /var/lib/kubexm/originals/network/filters \].*", exit_code=1)
        assert (await NetworkCleared().precheck(host.ctx)).satisfied

    async def test_what_cannot_be_removed_is_told(self, host: Host) -> None:
        host.on(r".*kx_known=.*", stdout="virtual servers of IPVS stay\n")
        host.on(r".*rm -rf -- /var/lib/kubexm/originals/network/filters")
        ctx = host.ctx
        await NetworkCleared(links=("cni0",), networks=("10.244.0.0/16",)).run(ctx)
        script = host.memory.scripts[0]
        assert "kx_links kube-ipvs0 cni0 || exit 1" in script
        assert "kx_routes 10.244.0.0/16 || exit 1" in script
        assert ctx.warnings == ["virtual servers of IPVS stay"]


class TestDirectories:
    async def test_what_is_kept_is_listed(self, host: Host) -> None:
        host.on(r".*/tree/.*", stdout="/var/lib/etcd\n/var/lib/kubelet\n")
        ctx = host.ctx
        check = await DirectoriesCleared(keep=("/var/lib/etcd",), why="--keep-data").precheck(ctx)
        assert (check.satisfied, check.reason) == (False, "1 directories to clear")
        assert ctx.warnings == ["kept on purpose (--keep-data): /var/lib/etcd"]

    async def test_done(self, host: Host) -> None:
        host.on(r".*/tree/.*", stdout="/var/lib/etcd\n")
        assert (await DirectoriesCleared(keep=("/var/lib/etcd",), why="x").precheck(host.ctx)).satisfied


class TestOriginals:
    LIST = "file\tabsent\t/etc/containerd/config.toml\nunit\tnot-found inactive\tcontainerd.service\n"

    async def test_other_steps_see_to_the_rest(self, host: Host) -> None:
        host.on(r".*for e in .*", stdout="package\tabsent\tsocat\ntree\tabsent\t/opt/cni\nnetwork\tknown\tfilters\n")
        assert (await HostRestored().precheck(host.ctx)).satisfied

    async def test_what_is_kept_on_purpose_is_not_due(self, host: Host) -> None:
        host.on(r".*for e in .*", stdout=self.LIST + "file\tabsent\t/etc/containerd\n")
        keep = HostRestored(keep=("/etc/containerd/config.toml", "containerd.service"))
        assert (await keep.precheck(host.ctx)).satisfied
        assert (await HostRestored().precheck(host.ctx)).reason == "3 things to put back"

    async def test_a_failure_says_what_and_where_the_old_one_is(self, host: Host) -> None:
        host.on(r".*/firewall/.*")
        host.on(r".*kx_restore_files .*", stdout="failed\tfile\t/etc/hosts\nrestored\tfile\t/etc/x\n")
        with pytest.raises(StepError, match="could not put back file /etc/hosts") as caught:
            await HostRestored().run(host.ctx)
        assert "/var/lib/kubexm/originals" in caught.value.hint

    async def test_what_others_changed_is_left_but_for_our_own_lines(self, host: Host) -> None:
        text = "127.0.0.1 localhost\n# begin kubexm (managed by kubexm)\n10.0.0.1 n1\n# end kubexm\n10.9.9.9 mine\n"
        host.on(r".*/firewall/.*")
        kept = "kept\tfile\t/etc/hosts\nkept\tfile\t/etc/dir\nkept\tunit\tchrony.service\n"
        host.on(r".*kx_restore_files .*", stdout=kept)
        host.on(r".*\[ -d /etc/hosts \].*", exit_code=1)
        host.on(r".*\[ -d /etc/dir \].*")
        host.on(r".*cat -- /etc/hosts", stdout=text)
        host.on(r".*kx_put .*", stdout="changed")
        host.on(r".*kx_entry /var/lib/kubexm/originals file /etc/hosts; rm -rf.*unit chrony\.service; rm -rf.*")
        ctx = host.ctx
        await HostRestored().run(ctx)
        (put,) = [command for command in host.memory.commands if command.stdin]
        assert put.stdin == b"127.0.0.1 localhost\n10.9.9.9 mine\n"
        assert "/var/lib/kubexm/originals" not in put.script.partition("kx_keep_each()")[2].partition("\n")[0]
        assert ctx.warnings == [
            "/etc/hosts was changed by somebody else since: only kubexm's own lines were taken out of it",
            "/etc/dir stays: somebody else has put something there",
            "unit chrony.service was changed by somebody else since, and is left as it is",
        ]


class TestPackages:
    async def test_what_others_need_stays_and_is_told(self, host: Host) -> None:
        host.on(r".*/package/\*.*", stdout="conntrack\nsocat\n")
        host.on(r".*kx_erase .*conntrack socat", stdout="socat\n")
        ctx = host.ctx
        assert (await PackagesGone().precheck(ctx)).reason == "conntrack, socat to remove"
        await PackagesGone().run(ctx)
        assert ctx.warnings == ["other packages need socat by now, so they stay"]


class TestRelease:
    @pytest.mark.parametrize(
        ("found", "satisfied"),
        [("", True), ("lease\0lease.lock\0", True), ("cluster.json\0lease\0", False), ("originals\0", False)],
    )
    async def test_only_the_lease_may_be_left(self, host: Host, found: str, satisfied: bool) -> None:
        host.on(r".*\[ -d /var/lib/kubexm \].*", stdout=found)
        assert (await HostReleased().precheck(host.ctx)).satisfied is satisfied

    async def test_the_mark_goes_last(self, host: Host) -> None:
        host.on(r".*kx_clean.*")
        await HostReleased(keep=("originals", "stamps/containerd.service")).run(host.ctx)
        script = host.memory.scripts[0]
        assert "kx_clean . lease lease.lock lease.new cluster.json originals stamps\n" in script
        assert script.index("kx_clean stamps containerd.service") < script.index("rm -f -- cluster.json")


class TestWorkDirectory:
    async def test_all_but_the_records_goes(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        for name in ("secrets/pki.ca.key", "runs/r1/journal", "uid", "kubeconfig"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("x")
        step = WorkDirectoryCleared()
        assert (await step.precheck(host.local_ctx)).reason == "kubeconfig, secrets, uid to remove"
        await step.run(host.local_ctx)
        assert (await step.precheck(host.local_ctx)).satisfied
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["journal"]

    async def test_it_stays_while_a_host_is_missing(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        (tmp_path / "uid").write_text("u")
        ctx = host.local_ctx
        assert (await WorkDirectoryCleared(missing=("w1",)).precheck(ctx)).satisfied
        assert "w1 could not be reached" in ctx.warnings[0]
