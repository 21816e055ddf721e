"""Steps that need a real init and a real kernel, on a lab host: services, kernel settings, swap, and undoing them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pytest

from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.errors import StepError
from kubexm.lab import Lab
from kubexm.plan import ExecutionFragment, ExecutionGraph, ExecutionNode, GraphExecutionResult, RunStatus
from kubexm.runtime import Context, RuntimeBuilder, StepContext, new_run_id
from kubexm.step import Check, FilePresent, ModulesLoaded, ServiceRunning, ServiceStopped, Step, SwapOff, SysctlSet

CONF = PurePosixPath("/etc/kubexm-test.conf")
UNIT = FilePresent(
    path=PurePosixPath("/etc/systemd/system/kubexm-test.service"),
    content=(
        "[Service]\nExecStart=/bin/sh -c 'read -r word <$0; echo started with $word; exec sleep infinity' "
        f"{CONF}\n\n[Install]\nWantedBy=multi-user.target\n"
    ),
)
RUNNING = ServiceRunning(unit="kubexm-test", inputs=(CONF,))


def conf(word: str) -> FilePresent:
    return FilePresent(path=CONF, content=f"{word}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible(Step):
    """Something that never comes about."""

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(False)

    async def run(self, ctx: StepContext) -> None:
        raise StepError("it cannot be", host=ctx.host.name)


@dataclass
class Desk:
    """One host of a lab, and runs on it."""

    context: Context
    directory: Path
    host: str = "n1"
    runs: int = 0

    async def carry_out(self, *steps: Step, rollback: bool = False) -> GraphExecutionResult:
        self.runs += 1
        names = [f"desk.steps.s{index}" for index in range(len(steps))]
        nodes = tuple(
            ExecutionNode(id=name, step=step, hosts=(self.host,), after=(names[index - 1],) if index else ())
            for index, (name, step) in enumerate(zip(names, steps, strict=True))
        )
        journal = Journal.create(self.directory / f"journal-{self.runs}")
        context = replace(self.context, caches=type(self.context.caches)())
        try:
            graph = ExecutionGraph.build("desk", ExecutionFragment(nodes))
            options = RunOptions(run=f"{new_run_id()}-{self.runs}", journal=journal, rollback=rollback)
            return await LocalEngine().execute(context, graph, options)
        finally:
            await journal.close()

    async def sh(self, script: str) -> str:
        return (await self.context.host_runtimes[self.host].command.run(script)).text


async def desk_of(lab: Lab, directory: Path) -> AsyncIterator[Desk]:
    context = await RuntimeBuilder(lab.cluster_file, work_dir=str(directory / "work")).build()
    try:
        yield Desk(context, directory)
    finally:
        await context.close()


@pytest.fixture
async def desk(lab: Lab, tmp_path: Path) -> AsyncIterator[Desk]:
    async for made in desk_of(lab, tmp_path):
        yield made
        await made.sh("rm -rf /var/lib/kubexm")


def states(result: GraphExecutionResult) -> list[str]:
    assert [(node, host.error) for node, host in result.failures()] == []
    return [host.state.value for _, host in result.results()]


async def test_a_service_follows_its_inputs_and_goes_with_its_rollback(desk: Desk) -> None:
    log = "journalctl -u kubexm-test -o cat | grep -c 'started with' || :"
    assert states(await desk.carry_out(UNIT, conf("one"), RUNNING)) == ["succeeded"] * 3
    assert states(await desk.carry_out(UNIT, conf("one"), RUNNING)) == ["satisfied"] * 3
    assert await desk.sh(log) == "1"
    assert states(await desk.carry_out(UNIT, conf("two"), RUNNING)) == ["satisfied", "succeeded", "succeeded"]
    assert await desk.sh(log) == "2"
    await desk.sh(f"echo by hand >{CONF}")
    assert states(await desk.carry_out(RUNNING)) == ["succeeded"], "an edit by hand is seen"

    # A run that changes the config and then fails leaves the service running with what it had before.
    await desk.carry_out(conf("three"), RUNNING)
    failed = await desk.carry_out(conf("four"), RUNNING, Impossible(), rollback=True)
    assert failed.status is RunStatus.FAILED
    assert [host.rolled_back for _, host in failed.results()] == [True, True, False]
    assert await desk.sh(f"cat {CONF}; systemctl is-active kubexm-test") == "three\nactive"
    assert "started with three" in await desk.sh("journalctl -u kubexm-test -o cat | tail -n 1")
    assert states(await desk.carry_out(conf("three"), RUNNING)) == ["satisfied"] * 2

    assert states(await desk.carry_out(ServiceStopped(unit="kubexm-test"))) == ["succeeded"]
    assert states(await desk.carry_out(ServiceStopped(unit="kubexm-test"))) == ["satisfied"]
    assert await desk.sh("systemctl is-active kubexm-test; systemctl is-enabled kubexm-test; :") == "inactive\ndisabled"
    await desk.sh(f"rm -f {UNIT.path} {CONF}; systemctl daemon-reload")


async def test_a_new_service_is_gone_after_its_rollback(desk: Desk) -> None:
    failed = await desk.carry_out(UNIT, conf("one"), RUNNING, Impossible(), rollback=True)
    assert [host.rolled_back for _, host in failed.results()] == [True, True, True, False]
    assert await desk.sh(f"ls {UNIT.path} {CONF} 2>&1 | grep -c 'No such file'") == "2"
    assert "inactive" in await desk.sh("systemctl daemon-reload; systemctl is-active kubexm-test; :")


async def test_a_service_that_fails_says_why_in_its_own_words(desk: Desk) -> None:
    broken = replace(UNIT, content="[Service]\nExecStart=/bin/sh -c 'echo bad flag: --frob >&2; sleep 1; exit 3'\n"
                                   "Type=notify\n[Install]\nWantedBy=multi-user.target\n")  # fmt: skip
    failed = await desk.carry_out(broken, conf("x"), RUNNING, rollback=True)
    ((node, host),) = failed.failures()
    assert node == "desk.steps.s2"
    assert host.error is not None
    assert "bad flag: --frob" in host.error.message + host.error.stderr
    assert "journalctl -u kubexm-test" in host.error.hint
    await desk.sh("systemctl daemon-reload; systemctl reset-failed kubexm-test 2>/dev/null; :")


async def test_kernel_parameters_go_back_live_and_on_disk(desk: Desk) -> None:
    key = "net.ipv4.ip_local_port_range"
    before = await desk.sh(f"cat /proc/sys/{key.replace('.', '/')}")
    step = SysctlSet(values={key: "20000 50000"}, name="kubexm-test")
    assert states(await desk.carry_out(step)) == ["succeeded"]
    assert states(await desk.carry_out(step)) == ["satisfied"]
    other = SysctlSet(values={key: "21000 51000"}, name="kubexm-test")
    failed = await desk.carry_out(other, Impossible(), rollback=True)
    assert [host.rolled_back for _, host in failed.results()] == [True, False]
    assert re.split(r"\s+", await desk.sh(f"cat /proc/sys/{key.replace('.', '/')}")) == ["20000", "50000"]
    assert states(await desk.carry_out(step)) == ["satisfied"]
    await desk.sh(f"rm /etc/sysctl.d/*kubexm-test*; echo '{before}' >/proc/sys/{key.replace('.', '/')}")


async def test_modules_that_are_built_in_need_nothing(desk: Desk) -> None:
    there = [name for name in ("overlay", "br_netfilter") if desk.context.facts_of(desk.host).kernel.has(name)]
    assert there, "a lab host without overlay or br_netfilter could not be a node"
    assert states(await desk.carry_out(ModulesLoaded(modules=tuple(there)))) == ["satisfied"]
    failed = await desk.carry_out(ModulesLoaded(modules=("kubexm_no_such_module",)))
    ((_, host),) = failed.failures()
    assert host.error is not None
    assert "kubexm_no_such_module" in host.error.message
    assert "modules" in host.error.hint


async def test_swap(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make_lab(hosts=1, flavours={"n1": "defects"})
    async for desk in desk_of(lab, tmp_path):
        assert states(await desk.carry_out(SwapOff())) == ["succeeded"]
        assert states(await desk.carry_out(SwapOff())) == ["satisfied"]
        assert "swap" not in await desk.sh("grep -v '^#' /etc/fstab; :")
