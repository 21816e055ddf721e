"""Hosts far away: what a command, several commands and a preflight cost in round trips of 100 ms.

Counted twice. By the clock: time over the length of a round trip, which holds everything else that takes time too. By
the proxies: how many times in a row an answer had to come back before more was sent, which no busy machine distorts.
TCP's own handshake is not delayed by the proxies; over a real distance connecting takes one round trip more.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmarks.hosts import Fleet, fleet
from benchmarks.report import machine, say, spread, table
from kubexm.connector import Command, ConnectionPool, ConnectionSettings, Connector
from kubexm.plan import RunSpec, RunStatus
from kubexm.service import ClusterService, ServiceOptions
from kubexm.testing import TcpProxy

CLUSTER = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: far}}
spec:
  global: {{user: root, privateKeyPath: {key}, workDir: {directory}/work}}
  hosts:
{hosts}
  roleGroups: {{etcd: [n001], controlPlane: [n001], worker: [{workers}]}}
  preflight: {{minDisk: 1Mi, minMemory: 1Mi, minCPU: 1, skip: [{skip}]}}
"""
HERE = ("init", "addresses", "machine-id", "mac", "tools", "os", "modules", "ports", "product-uuid")
"""What a process on this machine is not, or shares with its neighbours. These checks look at facts alone, so leaving
them out saves no round trip."""
TOGETHER = 20
MOST = 6


@dataclass(frozen=True, slots=True)
class Cost:
    """Round trips of one thing, by the clock and as counted."""

    clock: float
    counted: int


Costs = dict[str, list[Cost]]


@dataclass(frozen=True, slots=True)
class Far:
    """The servers of a fleet, each behind a proxy of its own that nobody has used before."""

    hosts: Fleet
    proxies: Sequence[TcpProxy]
    round_trip: float

    def settings(self) -> ConnectionSettings:
        """How to reach the first of them the long way."""
        return ConnectionSettings(
            address=self.proxies[0].address,
            port=self.proxies[0].port,
            private_key_path=self.hosts.key,
            host_key=self.hosts.servers[0].fingerprint,
            timeout=60.0,
        )

    async def cost(self, work: Awaitable[object]) -> Cost:
        """What it costs on the first host."""
        counted, started = self.proxies[0].round_trips, time.perf_counter()
        await work
        seconds = time.perf_counter() - started
        return Cost(seconds / self.round_trip, self.proxies[0].round_trips - counted)


@asynccontextmanager
async def far_away(hosts: Fleet, round_trip: float) -> AsyncIterator[Far]:
    """Puts new proxies before the hosts."""
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(
                TcpProxy(server.address, server.port, delay=round_trip / 2, address=f"127.0.9.{index + 1}")
            )
            for index, server in enumerate(hosts.servers)
        ]
        yield Far(hosts, proxies, round_trip)


async def over_a_connector(far: Far, found: Costs) -> None:
    """Everything one does with a host, once."""

    async def note(what: str, work: Awaitable[object]) -> None:
        found.setdefault(what, []).append(await far.cost(work))

    pool = ConnectionPool()
    try:
        connector = pool.connector("n001", far.settings())
        await note("kubexm: connect and log in", connector.connect())
        await note("kubexm: the first command", _ok(connector, Command(script="echo ok")))
        await note("kubexm: a read", _ok(connector, Command(script="echo ok")))
        await note("kubexm: a change, with its receipt", _ok(connector, Command(script="echo ok", changes=True)))
        # Each its own question: of the same one, asked twice in one moment, one answer would do for both.
        many = [_ok(connector, Command(script=f"echo ok # {number}")) for number in range(TOGETHER)]
        await note(f"kubexm: {TOGETHER} reads known together", asyncio.gather(*many))
    finally:
        await pool.close()


async def _ok(connector: Connector, command: Command) -> None:
    assert (await connector.execute(command)).check().text == "ok"


async def over_channels(far: Far, found: Costs) -> None:
    """The same with asyncssh, an exec channel per command."""
    import asyncssh

    settings = far.settings()
    connection: asyncssh.SSHClientConnection | None = None

    async def connect() -> None:
        nonlocal connection
        connection = await asyncssh.connect(
            settings.address,
            settings.port,
            username="root",
            client_keys=[str(settings.private_key_path)],
            known_hosts=None,
            agent_path=None,
            config=None,
        )

    found.setdefault("asyncssh: connect and log in", []).append(await far.cost(connect()))
    assert connection is not None
    for _ in range(2):
        command = connection.run("echo ok", check=True)
        found.setdefault("asyncssh: a command in an exec channel", []).append(await far.cost(command))
    connection.close()
    await connection.wait_closed()


async def preflight(far: Far) -> tuple[list[int], float]:
    """Round trips of each host for the whole of `kubexm preflight`, and its seconds."""
    directory = far.hosts.directory
    names = far.hosts.names()
    hosts = "\n".join(
        f"    - {{name: {name}, address: {proxy.address}, port: {proxy.port}, hostKey: '{server.fingerprint}'}}"
        for name, proxy, server in zip(names, far.proxies, far.hosts.servers, strict=True)
    )
    file = directory / "far.yaml"
    file.write_text(
        CLUSTER.format(
            key=far.hosts.key, directory=directory, hosts=hosts, workers=", ".join(names[1:]), skip=", ".join(HERE)
        )
    )
    started = time.perf_counter()
    result = await ClusterService(ServiceOptions()).run(file, RunSpec.of("preflight"))
    seconds = time.perf_counter() - started
    failed = [f"{node} {host.host}: {host.error}" for node, host in result.failures()]
    assert result.status is RunStatus.SUCCEEDED, failed
    assert all(proxy.accepted == 1 for proxy in far.proxies), "one connection per host"
    return [proxy.round_trips for proxy in far.proxies], seconds


async def measure(hosts: Fleet, round_trip: float, times: int) -> None:
    """Prints the tables."""
    costs: Costs = {}
    trips: list[int] = []
    clocks: list[float] = []
    for number in range(times):
        say(f"round {number + 1} of {times}")
        async with far_away(hosts, round_trip) as far:
            await over_a_connector(far, costs)
        async with far_away(hosts, round_trip) as far:
            await over_channels(far, costs)
        async with far_away(hosts, round_trip) as far:
            counted, seconds = await preflight(far)
            trips += counted
            clocks.append(seconds / round_trip)
    rows = [
        (what, spread([cost.clock for cost in found]), spread([cost.counted for cost in found], 0))
        for what, found in costs.items()
    ]
    head = (f"round trips of {round_trip * 1000:g} ms", "by the clock", "counted")
    print(table(head, rows))
    connecting = statistics.median(cost.counted for cost in costs["kubexm: connect and log in"])
    beyond = [each - connecting for each in trips]
    met = "" if max(beyond) <= MOST else ", **missed**"
    print(
        table(
            (f"`kubexm preflight` with nothing to report, {len(hosts.servers)} hosts", "round trips per host"),
            [
                ("in all, counted", spread(trips, 0)),
                ("beyond connecting, counted", f"{spread(beyond, 0)} (aim: ≤ {MOST}{met})"),
                ("in all, by the clock: planning, journal and this busy machine included", spread(clocks, 1)),
            ],
        )
    )


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--milliseconds", type=float, default=100.0, help="of a round trip")
    options = parser.parse_args()
    print(f"{machine()}\n")
    with fleet(options.hosts) as hosts:
        hosts.key.chmod(0o600)
        asyncio.run(measure(hosts, options.milliseconds / 1000, options.rounds))


if __name__ == "__main__":
    main()
