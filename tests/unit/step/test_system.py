"""Services, packages, users, kernel settings and archives, on stand-ins for what must not happen to this machine."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import pytest

from kubexm.connector import Command
from kubexm.errors import CommandError, StepError
from kubexm.plan.codec import decode, encode
from kubexm.runner import Group as UserGroup
from kubexm.runner import ModuleState, SwapState, UnitStatus, User
from kubexm.runner.facts.model import SwapDevice
from kubexm.step import (
    ArchiveExtracted,
    ModulesLoaded,
    NoRebootPending,
    PackagesInstalled,
    Reversible,
    ServiceRunning,
    ServiceStopped,
    Step,
    SwapOff,
    SysctlSet,
    TimeKept,
    UserPresent,
    clash,
    step_kinds,
)
from tests.unit.step.bench import Bench, fake_host


@dataclass
class Units:
    """systemd with one unit."""

    active: bool = False
    enabled: bool = False
    reason: str = "inactive (dead)"
    calls: list[str] = field(default_factory=list)

    async def why_not(self, unit: str, inputs: Any) -> str:
        return self.reason

    async def failure(self, unit: str) -> CommandError:
        return CommandError(host="n1", command="x", exit_code=7, message=f"{unit} did not run", stderr="bad flag: --x")

    async def status(self, unit: str) -> UnitStatus:
        state = "active" if self.active else "inactive"
        return UnitStatus(
            unit=unit, load="loaded", active=state, sub="", enabled="enabled" if self.enabled else "disabled"
        )

    async def restart(self, unit: str, inputs: Any, *, within: float) -> None:
        self._up("restart")

    async def reload(self, unit: str, inputs: Any, *, within: float) -> None:
        self._up("reload")

    async def start(self, unit: str) -> None:
        self._up("start")

    async def stop(self, unit: str) -> None:
        self.calls.append("stop")
        self.active, self.reason = False, "inactive (dead)"

    async def enable(self, unit: str) -> None:
        self.calls.append("enable")
        self.enabled = True

    async def disable(self, unit: str) -> None:
        self.calls.append("disable")
        self.enabled = False

    def _up(self, call: str) -> None:
        self.calls.append(call)
        self.active = self.enabled = True
        self.reason = ""


async def test_a_service_is_started_and_its_rollback_stops_it(bench: Bench) -> None:
    units = Units()
    bench = fake_host(bench, services=units)
    step = ServiceRunning(unit="etcd")
    await bench.reach(step)
    await bench.rollback(step)
    assert units.calls == ["restart", "stop", "disable"]


async def test_a_service_with_changed_inputs_is_restarted_or_reloaded(bench: Bench) -> None:
    for reload, call in ((False, "restart"), (True, "reload")):
        units = Units(active=True, enabled=True, reason="inputs changed")
        at = fake_host(bench, services=units)
        await at.reach(ServiceRunning(unit="haproxy", inputs=(PurePosixPath("/etc/haproxy.cfg"),), reload=reload))
        assert units.calls == [call]


async def test_rollback_of_a_restart_runs_it_from_the_old_inputs_again(bench: Bench) -> None:
    units = Units(active=True, enabled=True, reason="inputs changed")
    bench.local("etcd.conf").write_text("old\n")
    conf = bench.path("etcd.conf")
    from tests.unit.step.test_files import present

    await bench.reach(present(bench, "etcd.conf", "new\n"))
    faked = fake_host(bench, services=units)
    step = ServiceRunning(unit="etcd", inputs=(conf,))
    await faked.reach(step)
    await faked.rollback(step)
    assert bench.local("etcd.conf").read_text() == "old\n"
    assert units.calls == ["restart", "restart"]


async def test_a_failed_service_says_why(bench: Bench) -> None:
    bench = fake_host(bench, services=Units(reason="failed (failed)"))
    check = await bench.check(ServiceRunning(unit="etcd"))
    assert check.reason == "etcd did not run: bad flag: --x"


async def test_rollback_in_another_process_says_that_it_cannot(bench: Bench) -> None:
    with pytest.raises(StepError, match="earlier process"):
        await fake_host(bench, services=Units()).rollback(ServiceRunning(unit="etcd"))


async def test_a_stopped_service_comes_back(bench: Bench) -> None:
    units = Units(active=True, enabled=True)
    bench = fake_host(bench, services=units)
    step = ServiceStopped(unit="firewalld")
    await bench.reach(step)
    await bench.rollback(step)
    assert (units.active, units.enabled) == (True, True)


def test_a_service_reads_what_it_is_started_from() -> None:
    step = ServiceRunning(unit="etcd", inputs=(PurePosixPath("/etc/etcd.conf"), PurePosixPath("/etc/etcd/pki")))
    for written in (
        "file:/etc/etcd.conf",
        "file:/etc/etcd/pki/ca.crt",
        "file:/etc/systemd/system/etcd.service",
        "file:/etc/systemd/system/etcd.service.d/10-x.conf",
        "unit:etcd.service",
    ):
        assert clash(step.reads(), frozenset({written})), written
    assert not clash(step.reads(), frozenset({"file:/etc/other", "unit:kubelet.service"}))
    assert step.writes() == {"unit:etcd.service"}
    assert ServiceRunning(unit="etcd.socket").writes() == {"unit:etcd.socket"}


@dataclass
class Database:
    """A package database."""

    there: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)

    async def installed(self, names: Any) -> dict[str, str]:
        return {name: self.there[name] for name in (n.split("=")[0] for n in names) if name in self.there}

    async def install(self, names: Any) -> tuple[str, ...]:
        self.calls.append(("install", *names))
        new = [n for n in ("conntrack", "libconntrack") if n not in self.there]
        self.there |= dict.fromkeys(new, "2")
        return tuple(new)

    async def install_files(self, files: Any) -> tuple[str, ...]:
        return await self.install(map(str, files))

    async def remove(self, names: Any) -> tuple[str, ...]:
        self.calls.append(("remove", *names))
        return ("libconntrack",)


async def test_packages(bench: Bench) -> None:
    database = Database({"socat": "1"})
    bench = fake_host(bench, packages=database)
    step = PackagesInstalled(packages=("socat", "conntrack=2"))
    assert (await bench.check(step)).reason == "missing: conntrack=2"
    await bench.reach(step)
    assert (await bench.check(PackagesInstalled(packages=("socat=9",)))).reason == "missing: socat=9"
    await bench.rollback(step)
    assert database.calls[-1] == ("remove", "conntrack", "libconntrack")
    assert bench.warnings == ["other packages need libconntrack by now, so they stay"]


async def test_packages_from_files(bench: Bench) -> None:
    database = Database()
    bench = fake_host(bench, packages=database)
    await bench.reach(PackagesInstalled(packages=("conntrack",), files=(PurePosixPath("/x/conntrack.deb"),)))
    assert database.calls == [("install", "/x/conntrack.deb")]


@dataclass
class Accounts:
    """Users and groups."""

    users: dict[str, User] = field(default_factory=dict)
    groups: dict[str, UserGroup] = field(default_factory=dict)

    async def user(self, name: str) -> User | None:
        return self.users.get(name)

    async def group(self, name: str) -> UserGroup | None:
        return self.groups.get(name)

    async def ensure_group(self, name: str, *, system: bool) -> None:
        self.groups.setdefault(name, UserGroup(name=name, gid=900))

    async def ensure_user(self, name: str, **more: Any) -> None:
        self.users[name] = User(
            name=name,
            uid=more["uid"] or 901,
            gid=self.groups[more["group"]].gid,
            home=more["home"] or "/",
            shell=more["login_shell"] or "/usr/sbin/nologin",
            groups=tuple(more["groups"]),
        )

    async def remove_user(self, name: str) -> None:
        del self.users[name]

    async def remove_group(self, name: str) -> None:
        del self.groups[name]


async def test_users(bench: Bench) -> None:
    accounts = Accounts()
    bench = fake_host(bench, users=accounts)
    step = UserPresent(name="etcd", home="/var/lib/etcd")
    await bench.reach(step)
    wrong = await bench.check(UserPresent(name="etcd", uid=5, home="/x", groups=("tss",)))
    assert wrong.reason == "its uid is 901; its home is /var/lib/etcd; it is not in tss"
    assert (await bench.check(UserPresent(name="etcd", group="other"))).reason == "there is no group other"
    await bench.rollback(step)
    assert not accounts.users
    assert not accounts.groups


@dataclass
class Parameters:
    """Kernel parameters."""

    live: dict[str, str | None]
    persisted: dict[str, str] = field(default_factory=dict)

    async def matches(self, values: Any, *, name: str) -> bool:
        return all(self.live.get(key) == value == self.persisted.get(key) for key, value in values.items())

    async def read(self, keys: Any) -> dict[str, str | None]:
        return {key: self.live.get(key) for key in keys}

    async def apply(self, values: Any, *, name: str, snapshot: Any) -> None:
        self.live |= values
        self.persisted = dict(values)


async def test_sysctl(bench: Bench) -> None:
    kernel = Parameters({"net.ipv4.ip_forward": "0", "vm.x": "1"})
    bench = fake_host(bench, sysctl=kernel)
    step = SysctlSet(values={"net.ipv4.ip_forward": "1", "vm.x": "1"})
    check = await bench.check(step)
    assert check.reason == "net.ipv4.ip_forward: 0"
    assert check.diff == "-net.ipv4.ip_forward = 0\n+net.ipv4.ip_forward = 1"
    await bench.reach(step)
    kernel.persisted.clear()
    assert (await bench.check(step)).reason == "they are not set for the next boot"
    assert (await bench.check(SysctlSet(values={"no.such": "1"}))).reason == "no.such: not there"
    assert decode(encode(step), SysctlSet) == step


async def test_modules(bench: Bench) -> None:
    class Kernel:
        found = ModuleState.LOADABLE

        async def states(self, names: Any) -> dict[str, ModuleState]:
            return dict.fromkeys(names, self.found)

        async def matches(self, names: Any, *, name: str) -> bool:
            return self.found.present

        async def ensure(self, names: Any, *, name: str, snapshot: Any) -> None:
            self.found = ModuleState.LOADED

    bench = fake_host(bench, modules=Kernel())
    step = ModulesLoaded(modules=("overlay", "br_netfilter"))
    assert (await bench.check(step)).reason == "overlay is loadable; br_netfilter is loadable"
    await bench.reach(step)
    assert clash(step.writes(), SysctlSet(values={"net.bridge.bridge-nf-call-iptables": "1"}).reads())


async def test_swap(bench: Bench) -> None:
    class Areas:
        state = SwapState(active=(SwapDevice(path="/swapfile", kind="file", size=1),), configured=("/swapfile",))

        async def look(self) -> SwapState:
            return self.state

        async def off(self, *, snapshot: Any) -> None:
            self.state = SwapState()

    areas = Areas()
    bench = fake_host(bench, swap=areas)
    step = SwapOff()
    assert (await bench.check(step)).reason == "/swapfile in use"
    await bench.reach(step)
    areas.state = SwapState(configured=("/dev/sda2",))
    assert (await bench.check(step)).reason == "/etc/fstab switches on /dev/sda2"


async def test_time(bench: Bench) -> None:
    class Time:
        servers: tuple[str, ...] | None = None

        async def uses(self, servers: Any) -> bool:
            return bool(self.servers == servers)

        async def use(self, servers: Any, *, snapshot: Any) -> None:
            self.servers = servers

    bench = fake_host(bench, time=Time())
    await bench.reach(TimeKept(servers=("10.0.0.1",)))
    await bench.reach(TimeKept())


async def test_reboot(bench: Bench) -> None:
    flag = bench.local("reboot-required")

    class Switch:
        async def reboot_and_wait(self, *, within: float) -> None:
            flag.unlink()

    bench = fake_host(bench, power=Switch())
    flag.write_text("")
    await bench.reach(NoRebootPending(flag=bench.path("reboot-required")))


async def test_archives(bench: Bench) -> None:
    source = bench.root / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin/tool").write_text("tool 1\n")
    archive = bench.local("tool.tar.gz")
    subprocess.run(["tar", "-czf", archive, "-C", source, "."], check=True)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    bench.local("opt/bin/tool").write_text("tool 0\n")
    step = ArchiveExtracted(archive=bench.path("tool.tar.gz"), sha256=digest, into=bench.path("opt"))
    await bench.reach(step)
    assert bench.local("opt/bin/tool").read_text() == "tool 1\n"
    bench.local("opt/bin/tool").write_text("tampered\n")
    assert not (await bench.check(step)).satisfied
    await bench.reach(step)
    await bench.rollback(step)
    assert bench.local("opt/bin/tool").read_text() == "tool 0\n"


def generic() -> list[type[Step]]:
    return [kind for name, kind in step_kinds().items() if name.startswith("kubexm.step.") and "_Edited" not in name]


@pytest.mark.parametrize("kind", generic(), ids=lambda kind: kind.__name__)
def test_every_generic_step_is_documented_frozen_and_says_what_it_touches(kind: type[Step]) -> None:
    assert kind.__doc__
    assert hasattr(kind, "__slots__")
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for method in ("reads", "writes", "precheck", "run"):
        assert getattr(kind, method) is not getattr(Step, method), method
    irreversible = {"CommandRun", "NoRebootPending", "OnlyRead", "Reached", "TimeKept"}
    assert issubclass(kind, Reversible) != (kind.__name__ in irreversible)


async def test_nothing_on_the_bench_reaches_this_machine(bench: Bench) -> None:
    with pytest.raises(CommandError, match="groupadd is not for tests"):
        await bench.run(UserPresent(name="kubexm-bench-user"))
    with pytest.raises(AssertionError, match="must not change this machine"):
        await bench.connector.execute(Command(script="echo 1 >/proc/sys/vm/swappiness", changes=True))
