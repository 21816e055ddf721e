"""A hundred hosts at once: kubexm beside ansible-core and pyinfra, and its shells beside a channel per command.

Whole programs are measured as a person starts them, from the first instruction to the last; the hosts are sshd
processes on this machine, so half of each figure is theirs. Ways alternate within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hosts import Fleet, fleet
from benchmarks.report import interleaved, machine, say, spread, table, target
from kubexm.connector import Command, ConnectionPool, ConnectionSettings

BIN = Path(sys.executable).parent
SCRIPT = "echo ok"
LIMIT = 600.0
ANSIBLE_ROUNDS = 3
"""Minutes each under load: three are enough for a ratio of ten."""
PYINFRA_FACTS = (
    "server.Hostname",
    "server.Kernel",
    "server.KernelVersion",
    "server.Arch",
    "server.LinuxDistribution",
    "server.Date",
    "server.Mounts",
    "server.KernelModules",
    "server.Selinux",
    "hardware.Cpus",
    "hardware.Memory",
    "hardware.BlockDevices",
    "hardware.NetworkDevices",
)
"""What pyinfra can tell of that which kubexm's facts hold; each costs it a command."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The command lines of the three programs for one fleet."""

    hosts: Fleet

    def environment(self, *, own: bool) -> dict[str, str]:
        """Nothing of the user's settings reaches any of them; only our own processes find the benchmarks."""
        return {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(self.hosts.directory),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(Path(__file__).parent.parent) if own else "",
            "ANSIBLE_CONFIG": str(self.hosts.directory / "ansible.cfg"),
        }

    def write(self) -> None:
        """The files they read."""
        directory, key, known = self.hosts.directory, self.hosts.key, self.hosts.known_hosts
        key.chmod(0o600)
        pairs = list(zip(self.hosts.names(), self.hosts.servers, strict=True))
        self.hosts.cluster_file()
        (directory / "inventory.ini").write_text(
            "[all:vars]\nansible_user=root\nansible_python_interpreter=/usr/bin/python3\n"
            f"ansible_ssh_private_key_file={key}\n[all]\n"
            + "".join(f"{name} ansible_host={each.address} ansible_port={each.port}\n" for name, each in pairs)
        )
        (directory / "ansible.cfg").write_text(
            "[defaults]\nforks = 50\nhost_key_checking = True\nlocal_tmp = ~/.ansible-tmp\n"
            "[ssh_connection]\npipelining = True\n"
            f"ssh_args = -o ControlMaster=auto -o ControlPersist=60s -o UserKnownHostsFile={known}\n"
            f"control_path_dir = {directory}/cp\n"
        )
        settings = {
            name: {
                "ssh_hostname": each.address,
                "ssh_port": each.port,
                "ssh_user": "root",
                "ssh_key": str(key),
                "ssh_known_hosts_file": str(known),
                "ssh_strict_host_key_checking": "yes",
            }
            for name, each in pairs
        }
        (directory / "inventory.py").write_text(f"hosts = {list(settings.items())!r}\n")

    def run(self, *command: str) -> float:
        """Seconds for one run; its output must be there and its exit code 0."""
        log = self.hosts.directory / "output"
        with log.open("wb") as output:
            started = time.perf_counter()
            done = subprocess.run(
                command,
                cwd=self.hosts.directory,
                env=self.environment(own=command[0] == sys.executable),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
                check=False,
            )
            seconds = time.perf_counter() - started
        text = log.read_text(errors="replace")
        missing = [name for name in self.hosts.names() if name not in text]
        if done.returncode or missing:
            raise SystemExit(
                f"{' '.join(command)} ended with {done.returncode}, no word of {missing[:3]}:\n{text[-3000:]}"
            )
        return seconds

    def ansible(self, *words: str) -> float:
        """One run of ansible, from cold: the connections it keeps open are ended afterwards."""
        try:
            return self.run("ansible", "all", "-i", "inventory.ini", *words)
        finally:
            for socket in (self.hosts.directory / "cp").glob("*"):
                subprocess.run(["ssh", "-S", socket, "-O", "exit", "any"], check=False, capture_output=True, timeout=30)

    def pyinfra(self, *words: str) -> float:
        """One run of pyinfra."""
        return self.run("pyinfra", "-vv", "inventory.py", *words)

    def kubexm(self, *words: str) -> float:
        """One run of kubexm."""
        return self.run("kubexm", *words)

    def library(self, what: str) -> float:
        """kubexm's connectors with nothing above them, in a process of its own, whole."""
        return self.run(sys.executable, "-m", "benchmarks.fleet", "--one", what, str(self.hosts.directory))


def programs_table(hosts: Fleet, rounds: int) -> str:
    """Connect and do one thing, against others."""
    programs = Programs(hosts)
    programs.write()
    parts = []
    ways: dict[str, dict[str, Callable[[], float]]] = {
        "`true`": {
            "kubexm exec": lambda: programs.kubexm("exec", "-f", "cluster.yaml", "-v", "--", "true"),
            "connectors alone": lambda: programs.library("connect"),
            "pyinfra exec": lambda: programs.pyinfra("exec", "--", "true"),
            "ansible -m command": lambda: programs.ansible("-m", "ansible.builtin.command", "-a", "true"),
            "ansible -m raw": lambda: programs.ansible("-m", "ansible.builtin.raw", "-a", "true"),
        },
        "facts": {
            "kubexm facts": lambda: programs.kubexm("facts", "-f", "cluster.yaml", "-o", "json"),
            "pyinfra fact": lambda: programs.pyinfra("fact", *PYINFRA_FACTS),
            "ansible -m setup": lambda: programs.ansible("-m", "ansible.builtin.setup"),
        },
    }
    for what, each in ways.items():
        say(f"connect and {what}, {len(hosts.servers)} hosts")
        found = interleaved(each, rounds, fewer={name: ANSIBLE_ROUNDS for name in each if name.startswith("ansible")})
        ours = next(iter(found.values()))
        rows = []
        for name, seconds in found.items():
            ratio = statistics.median(seconds) / statistics.median(ours[: len(seconds)])  # of the same rounds
            if name.startswith("ansible") and "raw" not in name:
                shown = target(ratio, "≥ 8")
            elif name.startswith("pyinfra"):
                shown = f"kubexm takes {target(1 / ratio, '≤ 1.1')} its time"
            else:
                shown = f"{ratio:.2f}x"
            rows.append((name, spread(seconds), shown))
        parts.append(table((f"connect and {what}, {len(hosts.servers)} hosts", "seconds", "beside kubexm"), rows))
    return "\n".join(parts)


def commands_table(hosts: Fleet, rounds: int, commands: int) -> str:
    """Commands one after the other on each host, all hosts at once, over connections that are there."""
    say(f"{commands} commands x {len(hosts.servers)} hosts")
    cpu: dict[str, list[float]] = {name: [] for name in LOOPS}

    def way(name: str) -> Callable[[], float]:
        def run() -> float:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.fleet", "--one", name, str(hosts.directory), str(commands)],
                check=True,
                stdout=subprocess.PIPE,
                timeout=LIMIT,
            )
            figures = json.loads(done.stdout)
            cpu[name].append(figures["cpu"])
            return float(figures["seconds"])

        return run

    found = interleaved({name: way(name) for name in LOOPS}, rounds)
    channel = statistics.median(found["exec channels"])
    total = len(hosts.servers) * commands
    aims = {"reads": "≥ 2.5", "changes": "≥ 1.5"}
    rows = []
    for name, seconds in found.items():
        ratio = channel / statistics.median(seconds)
        rows.append(
            (
                LOOPS[name][0],
                spread(seconds),
                f"{statistics.median(cpu[name]) / total * 1e6:.0f}",
                f"{target(ratio, aims[name]) if name in aims else f'{ratio:.2f}x'}",
            )
        )
    head = (f"{commands} commands x {len(hosts.servers)} hosts", "seconds", "client CPU, µs a command", "faster by")
    return table(head, rows)


async def _reads(settings: Mapping[str, ConnectionSettings], commands: int) -> tuple[float, float]:
    return await _connectors(settings, lambda: [Command(script=SCRIPT, timeout=300.0)], commands)


async def _changes(settings: Mapping[str, ConnectionSettings], commands: int) -> tuple[float, float]:
    return await _connectors(settings, lambda: [Command(script=SCRIPT, changes=True, timeout=300.0)], commands)


async def _together(settings: Mapping[str, ConnectionSettings], commands: int) -> tuple[float, float]:
    return await _connectors(settings, _ten_reads, commands // 10)


def _ten_reads() -> list[Command]:
    """Each its own question: of the same one, asked twice in one moment, one answer would do for both."""
    return [Command(script=f"{SCRIPT} # {number}", timeout=300.0) for number in range(10)]


async def _connectors(
    settings: Mapping[str, ConnectionSettings], some: Callable[[], Sequence[Command]], times: int
) -> tuple[float, float]:
    pool = ConnectionPool()
    try:
        connectors = [pool.connector(name, each) for name, each in settings.items()]
        await asyncio.gather(*(connector.execute(Command(script=":")) for connector in connectors))

        async def one(index: int) -> None:
            for _ in range(times):
                results = await asyncio.gather(*(connectors[index].execute(command) for command in some()))
                assert all(result.check().text == "ok" for result in results)

        return await _timed(asyncio.gather(*(one(index) for index in range(len(connectors)))))
    finally:
        await pool.close()


async def _channels(settings: Mapping[str, ConnectionSettings], commands: int) -> tuple[float, float]:
    """What one would write with asyncssh: a connection per host, an exec channel per command."""
    import asyncssh

    async def dial(each: ConnectionSettings) -> asyncssh.SSHClientConnection:
        return await asyncssh.connect(
            each.address,
            each.port,
            username=each.user,
            client_keys=[str(each.private_key_path)],
            known_hosts=str(each.known_hosts),
            agent_path=None,
            config=None,
            encryption_algs="aes128-gcm@openssh.com",
        )

    connections = await asyncio.gather(*(dial(each) for each in settings.values()))

    async def one(connection: asyncssh.SSHClientConnection) -> None:
        for _ in range(commands):
            result = await connection.run(SCRIPT, check=True)
            assert str(result.stdout) == "ok\n"

    try:
        await asyncio.gather(*(connection.run(":", check=True) for connection in connections))
        return await _timed(asyncio.gather(*(one(connection) for connection in connections)))
    finally:
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in connections))


async def _timed(work: Awaitable[object]) -> tuple[float, float]:
    started, cpu = time.perf_counter(), _cpu()
    await work
    return time.perf_counter() - started, _cpu() - cpu


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _connect(settings: Mapping[str, ConnectionSettings]) -> None:
    pool = ConnectionPool()
    try:
        connectors = [pool.connector(name, each) for name, each in settings.items()]
        results = await asyncio.gather(*(connector.execute(Command(script="true")) for connector in connectors))
        print(" ".join(result.check().host for result in results))
    finally:
        await pool.close()


LOOPS: dict[str, tuple[str, Callable[[Mapping[str, ConnectionSettings], int], Awaitable[tuple[float, float]]]]] = {
    "exec channels": ("asyncssh, an exec channel per command", _channels),
    "reads": ("kubexm, reads", _reads),
    "changes": ("kubexm, changes with process group and receipt", _changes),
    "together": ("kubexm, reads submitted ten at a time", _together),
}


def one(what: str, directory: Path, commands: int) -> None:
    """One measurement, in this process."""
    hosts = json.loads((directory / "hosts.json").read_text())
    settings = {
        name: ConnectionSettings(
            address=address,
            port=port,
            private_key_path=directory / "host1" / "client_key",
            known_hosts=directory / "known_hosts",
            timeout=60.0,
        )
        for name, (address, port) in hosts.items()
    }
    if what == "connect":
        asyncio.run(_connect(settings))
        return

    async def run() -> tuple[float, float]:
        return await LOOPS[what][1](settings, commands)

    seconds, cpu = asyncio.run(run())
    print(json.dumps({"seconds": seconds, "cpu": cpu}))


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--commands", type=int, default=50)
    parser.add_argument("--part", choices=("programs", "commands"), help="only this part")
    parser.add_argument("--one", nargs="+", metavar="WAY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, directory, *commands = options.one
        one(what, Path(directory), int(commands[0]) if commands else 0)
        return
    missing = [name for name in ("ansible", "pyinfra", "kubexm") if shutil.which(name, path=str(BIN)) is None]
    if missing:
        sys.exit(f"error: {', '.join(missing)} not installed beside {sys.executable}\n  → run it with `make bench`")
    print(f"{machine()}\n")
    say(f"starting {options.hosts} sshd processes")
    with fleet(options.hosts) as hosts:
        (hosts.directory / "hosts.json").write_text(
            json.dumps({name: (s.address, s.port) for name, s in zip(hosts.names(), hosts.servers, strict=True)})
        )
        if options.part != "commands":
            print(programs_table(hosts, options.rounds), flush=True)
        if options.part != "programs":
            print(commands_table(hosts, options.rounds, options.commands), flush=True)


if __name__ == "__main__":
    main()
