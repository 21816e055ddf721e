"""Connections that break, hosts that vanish, limits that bite: what was done is known, or said to be unknown."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, ConnectionPool, ReceiptState, SSHConnector, Upload
from kubexm.errors import ConnectError, ConnectionLost, HostError, OutcomeUnknown
from kubexm.testing import SshServer, SshUser, TcpProxy

from ..conftest import MakeServer

USERS = pytest.mark.parametrize("user", ["root", "ops"])
LARGE = os.urandom(6_000_000)


def name() -> str:
    return f"t{secrets.token_hex(6)}"


async def until(connector: SSHConnector, script: str) -> None:
    await connector.execute(Command(script=f"while ! {script}; do sleep 0.05; done", long=True))


@USERS
async def test_a_cut_change_is_settled_not_repeated(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd()
    connector = pool.connector("n1", server.settings(user))
    script = "echo ran >>/run/log; while ! [ -e /run/go ]; do sleep 0.05; done; echo result; echo err >&2; exit 6"
    running = asyncio.ensure_future(connector.execute(Command(script=script, changes=True, receipt=name())))
    await until(connector, "[ -e /run/log ]")
    assert server.cut()
    await connector.execute(Command(script="echo x >/run/go"))
    result = await running
    assert (result.exit_code, result.stdout, result.stderr) == (6, b"result\n", b"err\n")
    assert (await connector.execute(Command(script="cat /run/log"))).text == "ran"


@USERS
async def test_a_cut_change_that_ended_meanwhile(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd()
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        settings = server.settings(user, port=proxy.port, known_hosts=None, host_key=server.fingerprint)
        connector = pool.connector("n1", settings)
        await connector.execute(Command(script=":"))
        proxy.stall()  # the reply will not arrive
        running = asyncio.ensure_future(
            connector.execute(Command(script="echo ran >>/run/log; echo result", changes=True, receipt=name()))
        )
        direct = pool.connector("direct", server.settings(user))
        proxy.heal()
        await until(direct, "[ -e /run/log ]")
        proxy.cut()
        assert (await running).stdout == b"result\n"
        assert (await connector.execute(Command(script="cat /run/log"))).text == "ran"


@USERS
async def test_changes_cut_at_many_points_run_once(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd()
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        settings = server.settings(user, port=proxy.port, host_key=server.fingerprint)
        for number in range(24):
            connector = pool.connector(f"n{number}", settings)
            await connector.execute(Command(script=":"))
            proxy.cut_after(30 + number * 60)
            result = await connector.execute(
                Command(script=f"echo {number} >>/run/log; echo result{number}", changes=True, receipt=name())
            )
            assert result.text == f"result{number}"
            await connector.close()
    direct = pool.connector("direct", server.settings(user))
    log = await direct.execute(Command(script="cat /run/log"))
    assert log.text.split() == [str(number) for number in range(24)]


async def test_reads_are_repeated(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd()
    connector = pool.connector("n1", server.settings())
    script = "echo ran >>/run/log; [ $(wc -l </run/log) -gt 1 ] || sleep 60; echo done"
    reading = asyncio.ensure_future(connector.execute(Command(script=script)))
    await until(connector, "[ -e /run/log ]")
    server.cut()
    assert (await reading).text == "done"


async def test_reads_give_up_in_the_end(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd()
    connector = pool.connector("n1", server.settings())
    # kills its own connection each time
    script = "kill -9 $(ps -eo pid,args | grep '[s]shd: root' | awk '{print $1}'); sleep 60"
    with pytest.raises(ConnectionLost, match="broke 4 times"):
        await connector.execute(Command(script=script))


@USERS
async def test_a_host_that_restarts_leaves_it_unknown(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd()
    connector = pool.connector("n1", server.settings(user))
    marker = server.directory / "begun"
    running = asyncio.ensure_future(
        connector.execute(Command(script=f"echo x >{marker}; sleep 60", changes=True, receipt=name()))
    )
    while not marker.exists():
        await asyncio.sleep(0.02)
    server.stop()
    server.start()
    with pytest.raises(OutcomeUnknown, match="receipts are gone") as caught:
        await running
    assert "may have happened" in caught.value.hint
    assert (await connector.execute(Command(script="echo again"))).text == "again"


async def test_a_command_that_is_killed_with_its_shell_is_unknown(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd()
    connector = pool.connector("n1", server.settings())
    receipt = name()
    # as an administrator might who kills everything of kubexm
    script = f"{{ read -r _; read -r shell _; }} </run/kubexm/{receipt}.begin; kill -9 $shell $$"
    with pytest.raises(OutcomeUnknown, match="neither it nor its exit code"):
        await connector.execute(Command(script=script, changes=True, receipt=receipt))
    (found,) = await connector.settle(receipt, wait=0)
    assert found.state is ReceiptState.LOST


async def test_a_host_that_is_gone(make_sshd: MakeServer) -> None:
    server = make_sshd()
    pool = ConnectionPool(reconnect_for=0.5)
    connector = pool.connector("n1", server.settings())
    await connector.execute(Command(script=":"))
    server.stop()
    with pytest.raises(HostError, match=r"did not come back|refuses") as caught:
        await connector.execute(Command(script="echo x"))
    assert caught.value.host == "n1"
    server.start()
    assert (await connector.execute(Command(script="echo back"))).text == "back"
    marker = server.directory / "begun"
    running = asyncio.ensure_future(connector.execute(Command(script=f"echo x >{marker}; sleep 60", changes=True)))
    while not marker.exists():
        await asyncio.sleep(0.02)
    server.stop()
    with pytest.raises(OutcomeUnknown, match="did not come back"):
        await running
    await pool.close()


async def test_a_pulled_cable_is_noticed(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd()
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        settings = server.settings(port=proxy.port, host_key=server.fingerprint, keepalive=0.2)
        connector = pool.connector("n1", settings)
        await connector.execute(Command(script=":"))
        proxy.stall()
        reading = asyncio.ensure_future(connector.execute(Command(script="echo there")))
        await asyncio.sleep(0.3)
        assert not reading.done()
        while proxy.accepted < 2:  # it has given up the first connection
            await asyncio.sleep(0.02)
        proxy.heal()
        assert (await reading).text == "there"


async def test_closing_needs_nobody_at_the_other_end(make_sshd: MakeServer) -> None:
    server = make_sshd()
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        pool = ConnectionPool()
        connector = pool.connector("n1", server.settings(port=proxy.port, host_key=server.fingerprint))
        await connector.execute(Command(script=":"))
        proxy.stall()
        sending = asyncio.ensure_future(connector.upload(Upload(source=LARGE, path=PurePosixPath("/run/file"))))
        await asyncio.sleep(0.2)
        async with asyncio.timeout(20):
            await pool.close()
        with pytest.raises(HostError):
            await sending


@USERS
async def test_an_upload_cut_half_way_goes_on(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd()
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        settings = server.settings(user, port=proxy.port, host_key=server.fingerprint)
        connector = pool.connector("n1", settings)
        await connector.execute(Command(script=":"))
        proxy.cut_after(len(LARGE) // 2)
        before = proxy.passed
        assert await connector.upload(Upload(source=LARGE, path=PurePosixPath("/run/file"), mode=0o600))
        assert proxy.accepted == 2
        assert proxy.passed - before < len(LARGE) * 1.4  # the first half was not sent again
        listed = await connector.execute(Command(script="sha256sum </run/file; ls -A /run | grep -c part"))
        assert listed.text.splitlines()[1] == "0"
        down = server.directory / "down"
        proxy.cut_after(len(LARGE) // 2)
        await connector.download(PurePosixPath("/run/file"), down)
        assert down.read_bytes() == LARGE


@USERS
async def test_one_session_is_enough(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd(options={"MaxSessions": "1"})
    connector = pool.connector("n1", server.settings(user))

    async def work(number: int) -> list[str]:
        read, change, stream, plain = await asyncio.gather(
            connector.execute(Command(script=f"echo read{number}")),
            connector.execute(Command(script=f"sleep 0.05; echo change{number}", changes=True)),
            connector.execute(Command(script=f"echo stream{number}", long=True)),
            connector.execute(Command(script="id -un", sudo=False)),
        )
        return [read.text, change.text, stream.text, plain.text]

    for number, done in enumerate(await asyncio.gather(*(work(number) for number in range(3)))):
        assert done == [f"read{number}", f"change{number}", f"stream{number}", user]
    assert await connector.upload(Upload(source=LARGE[:300_000], path=PurePosixPath("/run/file")))
    with pytest.raises(HostError, match="passed its deadline"):
        await connector.execute(Command(script="sleep 60", changes=True, timeout=0.3))
    with pytest.raises(HostError, match="passed its deadline"):
        await connector.execute(Command(script="sleep 60", timeout=0.3))
    assert (await connector.execute(Command(script="echo fine"))).text == "fine"
    assert not [line for line in server.processes() if "sleep 60" in line]


async def test_no_session_at_all(make_sshd: MakeServer, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubexm.connector.shells._REFUSED_FOR", 0.3)
    server = make_sshd(options={"MaxSessions": "0"})
    with pytest.raises(ConnectError, match="opens no session") as caught:
        await pool.connector("n1", server.settings()).execute(Command(script=":"))
    assert "MaxSessions" in caught.value.hint


async def test_few_startups(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd(options={"MaxStartups": "2"})
    connectors = [pool.connector(f"n{number}", server.settings()) for number in range(20)]
    await asyncio.gather(*(connector.connect() for connector in connectors))
    assert server.connections() == 20


async def test_two_bastions_are_shared(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    first, second, target = make_sshd(), make_sshd(address="127.0.0.2"), make_sshd(address="127.0.0.3")
    chain = (first.settings("ops"), second.settings())
    connectors = [pool.connector(f"n{number}", target.settings("ops", bastions=chain)) for number in range(5)]
    results = await asyncio.gather(*(c.execute(Command(script="echo $SSH_CONNECTION", sudo=False)) for c in connectors))
    assert {result.text.split()[2] for result in results} == {"127.0.0.3"}
    assert {result.text.split()[0] for result in results} == {"127.0.0.1"}
    assert (first.connections(), second.connections(), target.connections()) == (1, 1, 5)
    one = pool.connector("other", second.settings(bastions=chain[:1]))
    assert (await one.execute(Command(script="id -un"))).text == "root"
    assert first.connections() == 1

    first.cut()  # everybody comes back, through one new connection
    results = await asyncio.gather(*(c.execute(Command(script="id -un")) for c in connectors))
    assert {result.text for result in results} == {"root"}
    assert first.connections() == 1


async def test_what_a_bastion_cannot_reach(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    bastion = make_sshd()
    settings = bastion.settings(port=1, bastions=(bastion.settings(),))
    with pytest.raises(ConnectError, match=r"the bastion cannot reach 127\.0\.0\.1 port 1") as caught:
        await pool.connector("n1", settings).connect()
    assert caught.value.host == "n1"
    unknown = bastion.settings(bastions=(bastion.settings(known_hosts=Path("/nonexistent")),))
    with pytest.raises(ConnectError, match="bastion the host key") as caught:
        await pool.connector("n2", unknown).connect()
    assert caught.value.host == "n2"
    gone = bastion.settings(bastions=(bastion.settings(port=1),))
    with pytest.raises(ConnectError, match=r"bastion 127\.0\.0\.1 port 1 refuses"):
        await pool.connector("n3", gone).connect()


CLIENT = """
import asyncio, json, sys
from pathlib import Path
from kubexm.connector import Command, ConnectionPool, ConnectionSettings
from kubexm.redact import Secret
given = json.loads(sys.argv[1])
settings = ConnectionSettings(
    address="127.0.0.1", port=given["port"], user=given["user"], private_key_path=Path(given["key"]),
    known_hosts=Path(given["known_hosts"]), sudo_password=Secret("correct horse"),
)
async def main():
    connector = ConnectionPool().connector("n1", settings)
    if not given["changes"]:
        await connector.execute(Command(script=":"))  # the host's own watch comes with the second read
    await connector.execute(Command(script=given["script"], changes=given["changes"], receipt=given["receipt"],
                                    timeout=given["timeout"]))
asyncio.run(main())
"""


def client(server: SshServer, user: str, **command: object) -> subprocess.Popen[bytes]:
    given = {
        "port": server.port,
        "user": user,
        "key": str(server.private_key),
        "known_hosts": str(server.known_hosts),
        "timeout": 60,
        "receipt": "",
        **command,
    }
    return subprocess.Popen([sys.executable, "-c", CLIENT, json.dumps(given)])


@USERS
async def test_settled_by_another_process_after_kill(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd()
    receipt = name()
    script = "echo begun >/run/begun; while ! [ -e /run/go ]; do sleep 0.05; done; echo finished; exit 3"
    process = client(server, user, script=script, changes=True, receipt=f"{receipt}.1")
    connector = pool.connector("n1", server.settings(user))
    await until(connector, "[ -e /run/begun ]")
    process.send_signal(signal.SIGKILL)
    process.wait()
    while server.connections() > 1:
        await asyncio.sleep(0.02)
    settling = asyncio.ensure_future(connector.settle(f"{receipt}.", wait=30))
    await connector.execute(Command(script="echo x >/run/go"))
    (found,) = await settling
    assert (found.state, found.exit_code, found.stdout) == (ReceiptState.EXITED, 3, b"finished\n")


@pytest.mark.parametrize(("user", "changes"), [("root", True), ("ops", False)])
async def test_the_deadline_holds_when_nobody_is_left(make_sshd: MakeServer, user: str, *, changes: bool) -> None:
    server = make_sshd()
    marker = server.directory / "begun"
    script = f"echo x >{marker}; trap '' HUP; sleep 4321"
    process = client(server, user, script=script, changes=changes, timeout=1)
    while not marker.exists():
        await asyncio.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for _ in range(600):
        left = [line for line in server.processes() if not line.startswith("sleep 3")]
        if not left:
            break
        await asyncio.sleep(0.05)
    assert left == []


@pytest.mark.parametrize(("user", "changes"), [("root", True), ("root", False), ("ops", False)])
async def test_who_answers_nobody_leaves_nobody_behind(make_sshd: MakeServer, user: str, *, changes: bool) -> None:
    server = make_sshd()
    marker = server.directory / "begun"
    process = client(server, user, script=f"echo x >{marker}; sleep 1; echo hello", changes=changes, timeout=600)
    while not marker.exists():
        await asyncio.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for _ in range(300):
        if not (left := server.processes()):
            break
        await asyncio.sleep(0.05)
    assert left == []


async def test_nothing_is_left_behind(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd(users=(SshUser(name="ops", uid=23001, password="p", sudo="ALL=(ALL:ALL) ALL"),))
    for user in ("root", "ops"):
        connector = pool.connector(user, server.settings(user))
        for changes in (False, True):
            for _ in range(3):
                await connector.execute(Command(script="echo some output", changes=changes))
        await connector.close()
    for _ in range(200):
        left = server.processes()
        if not any(word in line for line in left for word in ("sh", "sudo")):
            break
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    assert server.processes() == [], "what watched over a shell naps on"
    watcher = pool.connector("watcher", server.settings())
    for _ in range(100):
        listed = (await watcher.execute(Command(script="ls -A /run/kubexm; ls -A /run/user/*/kubexm 2>/dev/null"))).text
        files = [file for file in listed.split() if file != "id"]
        # the last receipt of each stays: its reply might not have arrived
        if len([file for file in files if not file.startswith((".", "made-"))]) == 0 and len(files) <= 2 * 4 + 5:
            break
        await asyncio.sleep(0.05)
    assert len(files) <= 2 * 4 + 5
