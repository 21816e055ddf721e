"""Steps that prepare an operating system, on hosts that answer as told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.components.hooks import HookRun
from kubexm.components.os.kernel import KernelTuned
from kubexm.components.os.steps import (
    BaselineKept,
    FirewallOpen,
    HostNamed,
    HostPrepared,
    SelinuxPermissive,
    Share,
    TimezoneSet,
)
from kubexm.components.removal import NetworkCleared
from kubexm.errors import CommandError
from kubexm.runner import Facts, Opening
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.step import NOTHING
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context


class Host:
    """One in-memory host and the context of a step on it."""

    def __init__(self, work_dir: Path) -> None:
        self.memory = MemoryConnector("n1")
        facts = replace(Facts.assumed(hostname="old"), package_manager="apt")
        self.context = memory_context(work_dir, {"n1": self.memory}, facts={"n1": facts})
        connector = UnitConnector(self.memory, Transcript)
        connector.begin("run-1")
        self.ctx: StepContext = self.context.step_context("os.host.x", connector, "run-1")

    def on(self, pattern: str, **answer: object) -> Host:
        self.memory.on(re.compile(pattern, re.DOTALL), **answer)  # type: ignore[arg-type]
        return self

    def kernel(self, live: dict[str, str], written: str | None) -> Host:
        values = "".join(f"/proc/sys/{key.replace('.', '/')}:{value}\n" for key, value in live.items())
        self.on(r".*grep -Hs '' -- /proc/sys/.*", stdout=f"{values}\0")
        if written is None:
            return self.on(r".*cat -- /etc/sysctl\.d/99-zz-kubexm\.conf", exit_code=44)
        return self.on(r".*cat -- /etc/sysctl\.d/99-zz-kubexm\.conf", stdout=f"# Managed by kubexm.\n{written}")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


class TestKernel:
    STEP = KernelTuned(values={"net.ipv4.ip_forward": "1"}, least={"fs.inotify.max_user_watches": 1000})

    @pytest.mark.parametrize("watches", ["1000", "5000"])
    async def test_enough_is_enough(self, host: Host, watches: str) -> None:
        live = {"net.ipv4.ip_forward": "1", "fs.inotify.max_user_watches": watches}
        host.kernel(live, "net.ipv4.ip_forward = 1\n")
        assert (await self.STEP.precheck(host.ctx)).satisfied
        assert len(host.memory.commands) == 2, "both are sent together"

    async def test_what_was_raised_before_stays_written_down(self, host: Host) -> None:
        live = {"net.ipv4.ip_forward": "1", "fs.inotify.max_user_watches": "1000"}
        host.kernel(live, "fs.inotify.max_user_watches = 1000\nnet.ipv4.ip_forward = 1\n")
        assert (await self.STEP.precheck(host.ctx)).satisfied

    async def test_what_is_wrong_is_shown(self, host: Host) -> None:
        host.kernel({"net.ipv4.ip_forward": "0", "fs.inotify.max_user_watches": "8"}, None)
        check = await self.STEP.precheck(host.ctx)
        assert check.satisfied is False
        assert check.reason == "net.ipv4.ip_forward is 0; fs.inotify.max_user_watches is 8"
        assert "-net.ipv4.ip_forward = 0\n+net.ipv4.ip_forward = 1" in check.diff

    async def test_right_now_but_not_after_a_boot(self, host: Host) -> None:
        host.kernel({"net.ipv4.ip_forward": "1", "fs.inotify.max_user_watches": "5000"}, None)
        assert (await self.STEP.precheck(host.ctx)).reason == "they are not set so for the next boot"

    async def test_only_what_is_too_low_is_raised(self, host: Host) -> None:
        host.kernel({"net.ipv4.ip_forward": "0", "fs.inotify.max_user_watches": "5000"}, None)
        host.on(r".*kx_set_parameter .*", stdout="changed\n")
        await self.STEP.run(host.ctx)
        (change,) = [command for command in host.memory.commands if command.changes]
        assert change.stdin == b"# Managed by kubexm.\nnet.ipv4.ip_forward = 1\n"

    async def test_the_users_value_wins_over_the_least(self, host: Host) -> None:
        step = KernelTuned(values={"fs.inotify.max_user_watches": "10"}, least={"fs.inotify.max_user_watches": 1000})
        host.kernel({"fs.inotify.max_user_watches": "10"}, "fs.inotify.max_user_watches = 10\n")
        assert not (await step.precheck(host.ctx)).reason.startswith("they")

    async def test_what_left_the_file_goes_back_and_is_shown(self, host: Host) -> None:
        host.kernel(
            {"net.ipv4.ip_forward": "1", "fs.inotify.max_user_watches": "5000"},
            "net.ipv4.ip_forward = 1\nvm.swappiness = 10\nvm.theirs = 3\n",
        )
        host.on(r".*kx_left_parameter /var/lib/kubexm/originals /proc/sys vm/.*", stdout="vm.swappiness\t10\t60\n")
        check = await self.STEP.precheck(host.ctx)
        assert (check.satisfied, check.reason) == (False, "vm.swappiness is wanted no more, and goes back to 60")
        assert check.diff == "-vm.swappiness = 10\n+vm.swappiness = 60"
        host.on(r".*kx_put /etc/sysctl.d/.*", stdout="changed\n")
        await self.STEP.run(host.ctx)
        (change,) = [command for command in host.memory.commands if command.changes]
        assert change.stdin == b"# Managed by kubexm.\nnet.ipv4.ip_forward = 1\n"
        back = change.script.index("/proc/sys vm/swappiness\n")
        assert back < change.script.index("kx_put /etc/sysctl.d/"), "the file names it until it is done"

    async def test_nothing_to_give_back_is_no_reason(self, host: Host) -> None:
        host.kernel({"net.ipv4.ip_forward": "1", "fs.inotify.max_user_watches": "5000"}, "vm.theirs = 3\n")
        host.on(r".*kx_left_parameter .*")
        assert (await self.STEP.precheck(host.ctx)).reason == "they are not set so for the next boot"

    async def test_rollback_puts_back_the_file_and_the_live_values(self, host: Host) -> None:
        host.kernel({"net.ipv4.ip_forward": "1", "fs.inotify.max_user_watches": "5000"}, "vm.swappiness = 10\n")
        host.on(r".*kx_restore_file .*", stdout="restored\tfile\t/etc/sysctl.d/99-zz-kubexm.conf\n")
        host.on(r".*restore kernel.*|.*kx_restore_sysctl .*/proc/sys; fi.*", stdout="kept\tsysctl\tvm/swappiness\n")
        await self.STEP.rollback(host.ctx)
        script = host.memory.scripts[-1]
        for path in ("net/ipv4/ip_forward", "fs/inotify/max_user_watches", "vm/swappiness"):
            assert f"kx_entry /var/lib/kubexm/snapshots/run-1 sysctl {path};" in script
        assert host.ctx.warnings == ["vm/swappiness was changed by somebody else since, and is left as it is"]

    def test_it_touches_just_its_own(self) -> None:
        assert "sysctl:net.ipv4.ip_forward" in self.STEP.writes()
        assert "*" not in self.STEP.reads()


class TestHooks:
    HOOK = HookRun(name="mount data", script="mount -a 'x y'", place="preInstall", within=7.0)

    async def test_one_that_ran_is_not_run_again(self, host: Host) -> None:
        host.on(r".*\[ -e /var/lib/kubexm/hooks/[0-9a-f]{32} \].*")
        assert (await self.HOOK.precheck(host.ctx)).satisfied

    async def test_it_is_run_by_sh_and_marked_by_the_same_command(self, host: Host) -> None:
        host.on(r".*sh -c .mount -a .*")
        await self.HOOK.run(host.ctx)
        (command,) = host.memory.commands
        assert command.changes
        assert command.timeout == 7.0
        assert re.search(
            r"&& \( umask 022; mkdir -p -- /var/lib/kubexm/hooks \) && : >/var/lib/kubexm/hooks/\w+$", command.script
        )

    async def test_a_failure_says_whose_command_it_is(self, host: Host) -> None:
        host.on(r".*sh -c .*", exit_code=32, stderr="mount: no such device\n")
        with pytest.raises(CommandError) as caught:
            await self.HOOK.run(host.ctx)
        assert "command of yours" in caught.value.hint

    def test_an_edit_is_another_hook(self) -> None:
        edited = replace(self.HOOK, script="mount -a")
        assert edited.reads() != self.HOOK.reads()
        assert replace(self.HOOK, place="postInstall").reads() != self.HOOK.reads()


class TestOthers:
    async def test_a_host_is_named_as_in_the_file(self, host: Host) -> None:
        host.on(r".*uname -n; .*", stdout="old\nold\n")
        assert (await HostNamed().precheck(host.ctx)).reason == "it is old"
        host.on(r".*kx_put .*", stdout="changed").on(r".*kx_name n1")
        await HostNamed().run(host.ctx)
        host.on(r".*kx_restore_file .*", stdout="restored\tfile\t/etc/hostname\n").on(r".*hostname -- old")
        await HostNamed().rollback(host.ctx)

    async def test_how_it_was_is_kept_for_its_own_share(self, host: Host) -> None:
        other = Share(hosts=("n2",), directories=("/var/lib/etcd",))
        step = BaselineKept(shares=(other, Share(hosts=("n1",), directories=("/opt/cni",), parameters=("net.x",))))
        host.on(r".*tree/%2Fopt%2Fcni.*sysctl/net%2Fx.*", stdout="/opt/cni\nnet.x\n")
        assert (await step.precheck(host.ctx)).reason == "it is not known how /opt/cni was and more"
        host.on(r".*for e in /var/lib/kubexm/originals/tree/.*")
        host.on(r".*kx_tree /var/lib/kubexm/originals /opt/cni .*")
        await step.run(host.ctx)
        assert "/var/lib/etcd" not in host.memory.scripts[-1]

    @pytest.mark.parametrize("known", ["", "/opt/cni\n"], ids=["bare", "of a cluster"])
    async def test_rollback_clears_where_programs_wrote_on_a_host_that_was_bare(self, host: Host, known: str) -> None:
        share = Share(hosts=("n1",), directories=("/opt/cni",), parameters=("net.x",), mount_points=("/etc/pki",))
        step = BaselineKept(shares=(share,), network=NetworkCleared(links=("cni0",)))
        host.on(r".*for e in /var/lib/kubexm/originals/tree/.*", stdout=known)
        host.on(r".*kx_tree /var/lib/kubexm/originals /opt/cni .*")
        await step.run(host.ctx)
        host.on(r".*for e in /var/lib/kubexm/originals/tree/.*", stdout="/opt/cni\n")
        host.on(r".*kx_clear /var/lib/kubexm/originals/tree/%2Fopt%2Fcni /opt/cni .*")
        host.on(r".*kx_entry /var/lib/kubexm/originals sysctl net/x;.*", stdout="restored\tsysctl\tnet/x\n")
        host.on(r".*kx_entry /var/lib/kubexm/originals file /etc/pki\n.*", stdout="restored\tfile\t/etc/pki\n")
        host.on(r".*kx_links kube-ipvs0 cni0 .*").on(r".*rm -rf -- .*network/filters").on(
            r".*systemctl daemon-reload.*"
        )
        before = len(host.memory.commands)
        await step.rollback(host.ctx)
        done = [command.display for command in host.memory.commands[before:] if command.changes]
        cleared = ["clear the network", "forget which packet filters there were", "clear /opt/cni"]
        cleared += ["restore kernel parameters", "restore /etc/pki", "systemctl daemon-reload"]
        assert done == ([] if known else cleared), "what was there before this run is not its to clear"

    async def test_a_firewall_that_is_not_there_needs_nothing(self, host: Host) -> None:
        step = FirewallOpen(shares=((("n1",), (Opening(port=6443),)),))
        host.on(r".*firewall-cmd --state.*", stdout="none\n")
        assert (await step.precheck(host.ctx)).satisfied
        host.on(r".*firewall-cmd --state.*", stdout="ufw\n").on(r".*ufw show added.*", stdout="no\n")
        assert (await step.precheck(host.ctx)).reason == "ufw does not let in 6443/tcp"

    async def test_rollback_closes_what_this_run_opened(self, host: Host) -> None:
        step = FirewallOpen(shares=((("n1",), (Opening(port=6443), Opening(port=10250))),))
        host.on(r".*firewall-cmd --state.*", stdout="ufw\n").on(r".*ufw show added.*", stdout="no\nyes\n")
        host.on(r".*ufw allow 6443/tcp comment kubexm.*")
        await step.run(host.ctx)
        assert "kx_note /var/lib/kubexm/snapshots/run-1 firewall 'ufw tcp 6443 - -' absent" in host.memory.scripts[-1]
        host.on(r".*for e in /var/lib/kubexm/snapshots/run-1/firewall/.*", stdout="ufw tcp 6443 - -\n")
        host.on(r".*ufw delete allow 6443/tcp; fi.*")
        host.on(r".*for e in /var/lib/kubexm/snapshots/run-1/\*/\*.*")
        await step.rollback(host.ctx)
        assert not any("ufw delete allow 10250" in script for script in host.memory.scripts)

    async def test_the_time_zone_is_what_localtime_stands_for(self, host: Host) -> None:
        step = TimezoneSet(zone="Europe/Vienna")
        host.on(r".*readlink -f /usr/share/zoneinfo/Europe/Vienna.*")
        assert (await step.precheck(host.ctx)).satisfied
        host.on(r".*readlink -f .*", exit_code=1)
        assert (await step.precheck(host.ctx)).reason == "it is in another"

    async def test_selinux_is_asked(self, host: Host) -> None:
        host.on(r".*selinux/enforce.*", stdout="1\nenforcing\n")
        assert (await SelinuxPermissive().precheck(host.ctx)).reason == "it enforces"

    async def test_ready_costs_nothing(self, host: Host) -> None:
        assert (await HostPrepared().precheck(host.ctx)).satisfied
        assert host.memory.commands == []
        assert HostPrepared().reads() == NOTHING
