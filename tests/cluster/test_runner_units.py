"""The runner on real hosts with a real systemd, as root and as a user whose sudo asks for a password."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import ConnectionPool, ConnectionSettings, Connector
from kubexm.errors import CommandError
from kubexm.lab import Lab
from kubexm.redact import Secret
from kubexm.runner import Facts, Opening, Outcome, Runner

UNIT = PurePosixPath("/etc/systemd/system/kx-test.service")
CONFIG = PurePosixPath("/etc/kx-test.conf")
SERVICE = """[Unit]
Description=A test of kubexm
[Service]
ExecStart=/bin/sh -c '. /etc/kx-test.conf; echo "hello from $NAME"; exec sleep 1000'
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Guest:
    """A lab host, the way a step sees one."""

    runner: Runner
    connector: Connector
    facts: Facts
    run: Callable[..., str]
    """Runs a command there by ordinary ssh, behind the runner's back."""


@pytest.fixture(params=["root", "ops"])
async def guest(request: pytest.FixtureRequest, lab: Lab) -> AsyncIterator[Guest]:
    host = lab.hosts[0]
    settings = ConnectionSettings(
        address=str(host.address),
        user=request.param,
        private_key_path=lab.access.private_key,
        known_hosts=lab.access.known_hosts,
        sudo_password=Secret(lab.access.sudo_password()) if request.param == "ops" else None,
    )
    pool, runner = ConnectionPool(), Runner()
    connector = pool.connector(host.name, settings)
    facts = await runner.gather_facts(connector)
    yield Guest(runner, connector, facts, lambda *words: lab.run(host.name, *words, user="root"))
    await runner.originals(connector, facts).restore()
    await runner.originals(connector, facts).forget()
    lab.run(host.name, "rm -rf /var/lib/kubexm", user="root")
    await pool.close()


async def until(condition: Callable[[], Awaitable[bool]], *, seconds: float = 30) -> None:
    """Waits for it."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.2)


async def write_service(guest: Guest) -> None:
    files = guest.runner.files(guest.connector, guest.facts)
    await files.write(UNIT, SERVICE)
    await files.write(CONFIG, "NAME=one\n")


async def test_facts(guest: Guest, request: pytest.FixtureRequest) -> None:
    facts = guest.facts
    assert facts.systemd.running
    assert facts.systemd.version > 200
    assert facts.os.family == "debian"
    assert (facts.uid, facts.sudo_user) == (0, "ops" if "ops" in request.node.callspec.id else "")
    assert facts.network.route4 is None or facts.network.route4.source in facts.network.addresses
    assert {port.process for port in facts.ports if port.port == 22} & {"sshd", "systemd"}
    assert facts.kernel.has("overlay")
    assert Facts.from_dict(facts.to_dict()) == facts


async def test_a_unit_counts_as_running_only_with_its_inputs_as_they_are(guest: Guest) -> None:
    services = guest.runner.services(guest.connector, guest.facts)
    files = guest.runner.files(guest.connector, guest.facts)
    await write_service(guest)
    assert "inactive" in await services.why_not("kx-test", [CONFIG])
    await services.restart("kx-test", [CONFIG])
    assert await services.runs_with("kx-test", [CONFIG])
    assert "hello from one" in await services.logs("kx-test")
    status = await services.status("kx-test")
    assert (status.is_active, status.is_enabled, status.sub) == (True, True, "running")

    await files.write(CONFIG, "NAME=two\n")
    assert await services.why_not("kx-test", [CONFIG]) == "inputs changed"
    await services.restart("kx-test", [CONFIG])
    assert "hello from two" in await services.logs("kx-test")

    dropin = PurePosixPath("/etc/systemd/system/kx-test.service.d/10-limits.conf")
    await files.write(dropin, "[Service]\nLimitNOFILE=4096\n")
    assert await services.why_not("kx-test", [CONFIG]) == "unit file changed"
    await services.restart("kx-test", [CONFIG])
    assert await services.runs_with("kx-test", [CONFIG])
    assert guest.run("systemctl show -P LimitNOFILE kx-test").strip() == "4096"

    guest.run("systemctl disable -q kx-test")
    assert await services.why_not("kx-test", [CONFIG]) == "not enabled"
    await services.start("kx-test", [CONFIG])
    assert await services.runs_with("kx-test", [CONFIG])


async def test_a_unit_that_crashed_and_came_back_by_itself_still_counts(guest: Guest) -> None:
    services = guest.runner.services(guest.connector, guest.facts)
    await write_service(guest)
    await services.restart("kx-test", [CONFIG])
    before = await services.status("kx-test")
    # It has to come back in a later second than its inputs were written in.
    await until(lambda: _later(guest, UNIT))
    guest.run("systemctl kill -s KILL kx-test")
    await until(lambda: services.runs_with("kx-test", [CONFIG]))
    assert (await services.status("kx-test")).invocation != before.invocation
    guest.run("echo NAME=three >/etc/kx-test.conf")
    guest.run("systemctl restart kx-test")
    assert not await services.runs_with("kx-test", [CONFIG])


async def _later(guest: Guest, path: PurePosixPath) -> bool:
    return bool(guest.run(f'[ "$(date +%s)" -gt "$(stat -c %Z {path})" ] && echo yes || :').strip())


async def test_a_unit_that_fails_says_why_in_its_own_words(guest: Guest) -> None:
    services = guest.runner.services(guest.connector, guest.facts)
    files = guest.runner.files(guest.connector, guest.facts)
    broken = "[Service]\nType=notify\nExecStart=/bin/sh -c 'echo fatal: cannot open the data directory; exit 3'\n"
    await files.write(UNIT, broken + "[Install]\nWantedBy=multi-user.target\n")
    with pytest.raises(CommandError) as caught:
        await services.restart("kx-test")
    assert "kx-test.service did not start" in caught.value.message
    assert "fatal: cannot open the data directory" in caught.value.message
    assert "exit status 3" in caught.value.message
    failure = await services.failure("kx-test")
    assert isinstance(failure, CommandError)
    with pytest.raises(CommandError, match="not found") as caught:
        await services.restart("kx-nowhere")
    assert "package or unit file" in caught.value.hint


async def test_units_go_back_to_how_they_were(guest: Guest) -> None:
    services = guest.runner.services(guest.connector, guest.facts)
    guest.run(f"cat >{UNIT} <<'EOF'\n{SERVICE}EOF\necho NAME=users >{CONFIG}\nsystemctl daemon-reload")
    guest.run("systemctl enable -q --now kx-test")
    try:
        await services.stop("kx-test")
        await services.disable("kx-test")
        status = await services.status("kx-test")
        assert (status.is_active, status.is_enabled) == (False, False)
        restored = await guest.runner.originals(guest.connector, guest.facts).restore()
        assert {(r.kind, r.name, r.outcome) for r in restored} == {("unit", "kx-test.service", Outcome.RESTORED)}
        status = await services.status("kx-test")
        assert (status.is_active, status.is_enabled) == (True, True)
    finally:
        guest.run(f"systemctl disable -q --now kx-test; rm -f {UNIT} {CONFIG}; systemctl daemon-reload")


async def test_our_own_unit_leaves_nothing_behind(guest: Guest) -> None:
    await write_service(guest)
    await guest.runner.services(guest.connector, guest.facts).restart("kx-test", [CONFIG])
    restored = await guest.runner.originals(guest.connector, guest.facts).restore()
    assert {r.outcome for r in restored} == {Outcome.RESTORED}
    assert guest.run(f"ls {UNIT} {CONFIG} 2>/dev/null || :") == ""
    assert "kx-test" not in guest.run("systemctl list-units --all --no-legend; ls /etc/systemd/system/*.wants")


async def test_kernel_parameters_and_modules(guest: Guest) -> None:
    sysctl = guest.runner.sysctl(guest.connector, guest.facts)
    values: dict[str, str | int] = {
        "net.ipv4.ip_forward": 1,
        "vm.overcommit_memory": 1,
        "net.ipv4.ip_local_port_range": "32000 61000",
    }
    before = await sysctl.read(values)
    await sysctl.apply(values, name="kx-test")
    assert await sysctl.matches(values, name="kx-test")
    assert guest.run("sysctl -n net.ipv4.ip_local_port_range").split() == ["32000", "61000"]
    modules = guest.runner.modules(guest.connector, guest.facts)
    assert await modules.matches(["overlay", "br_netfilter"])
    assert not await modules.ensure(["overlay", "br_netfilter"])
    await guest.runner.originals(guest.connector, guest.facts).restore()
    assert await sysctl.read(values) == before


async def test_users_and_packages(guest: Guest, tmp_path: Path) -> None:
    users = guest.runner.users(guest.connector, guest.facts)
    assert await users.ensure_user("kx-etcd", home="/var/lib/kx-etcd")
    user = await users.user("kx-etcd")
    assert user is not None
    assert user.shell.endswith("nologin")
    root = tmp_path / "deb"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: kx-test\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: a test\n"
    )
    deb = tmp_path / "kx-test.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(root), str(deb)], check=True, capture_output=True)
    files = guest.runner.files(guest.connector, guest.facts)
    packages = guest.runner.packages(guest.connector, guest.facts)
    await files.upload(deb, "/var/tmp/kx-test.deb")
    assert await packages.install_files(["/var/tmp/kx-test.deb"]) == ("kx-test",)
    assert await packages.installed(["kx-test"]) == {"kx-test": "1"}
    assert await packages.ours() == ("kx-test",)
    assert await packages.remove(await packages.ours()) == ()
    assert await packages.installed(["kx-test"]) == {}


async def test_a_firewall_of_plain_rules_gets_openings_that_last(guest: Guest) -> None:
    firewall = guest.runner.firewall(guest.connector, guest.facts)
    openings = [Opening(port=7443), Opening(port=7500, to=7510, protocol="udp", source="10.0.0.0/8")]
    assert await firewall.detect() == "none"
    assert not await firewall.open(openings)
    guest.run("iptables -A INPUT -p tcp --dport 7000:8000 -j REJECT")
    try:
        assert await firewall.detect() == "iptables"
        assert (await firewall.look(openings)).missing == tuple(openings)
        assert await firewall.open(openings)
        assert (await firewall.look(openings)).missing == ()
        assert not await firewall.open(openings)
        guest.run("iptables -D INPUT -p tcp --dport 7443 -m comment --comment kubexm -j ACCEPT")
        guest.run("systemctl restart kubexm-firewall")  # as a boot would
        assert (await firewall.look(openings)).missing == ()
        await firewall.close(openings)
        assert "kubexm" not in guest.run("iptables -S INPUT; ip6tables -S INPUT")
        assert "kubexm-firewall" not in guest.run("ls /etc/systemd/system /etc/systemd/system/*.wants")
    finally:
        guest.run("iptables -D INPUT -p tcp --dport 7000:8000 -j REJECT")


async def test_reboot(guest: Guest) -> None:
    services = guest.runner.services(guest.connector, guest.facts)
    await write_service(guest)
    await services.restart("kx-test", [CONFIG])
    await until(lambda: _later(guest, UNIT))
    before = await guest.connector.boot_id()
    await guest.runner.power(guest.connector, guest.facts).reboot_and_wait(within=120)
    assert await guest.connector.boot_id() != before
    # Started by the boot, from inputs nobody touched since: nothing to do.
    await until(lambda: services.runs_with("kx-test", [CONFIG]))
