"""A large file to many hosts at once: kubexm's upload beside OpenSSH's scp with the same cipher.

Both are measured as whole processes, connecting included. kubexm also checks the content by sha256 on both sides and
syncs it before the file appears; scp does neither.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from benchmarks.hosts import Fleet, fleet
from benchmarks.report import interleaved, machine, say, spread, table, target
from kubexm.connector import ConnectionPool, ConnectionSettings, Upload

LIMIT = 600.0
TARGET = "/srv/payload"
MEMORY = "mount -t tmpfs -o size=1g tmpfs /srv"
AIM = "≤ 1.15"


def with_scp(hosts: Fleet, payload: Path, target_path: str) -> float:
    """Seconds until an scp for each host, all at once, is done."""
    commands = [
        [
            *("scp", "-q", "-B", "-c", "aes128-gcm@openssh.com", "-F", "none", "-i", str(hosts.key)),
            *("-o", f"UserKnownHostsFile={hosts.known_hosts}", "-P", str(server.port)),
            *(str(payload), f"root@{server.address}:{target_path.format(index=index)}"),
        ]
        for index, server in enumerate(hosts.servers)
    ]
    started = time.perf_counter()
    running = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for command in commands]
    codes = [process.wait(LIMIT) for process in running]
    seconds = time.perf_counter() - started
    assert not any(codes), f"scp ended with {codes}"
    return seconds


def with_kubexm(hosts: Fleet, payload: Path, target_path: str) -> float:
    """Seconds for a process that uploads to all hosts and ends."""
    work = {
        "payload": str(payload),
        "hosts": {
            name: (server.address, server.port, target_path.format(index=index))
            for index, (name, server) in enumerate(zip(hosts.names(), hosts.servers, strict=True))
        },
    }
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "benchmarks.files", "--one", str(hosts.directory)],
        input=json.dumps(work).encode(),
        check=True,
        timeout=LIMIT,
    )
    return time.perf_counter() - started


async def upload_all(directory: Path, work: dict[str, object]) -> None:
    """What the process measured does."""
    pool = ConnectionPool()
    hosts = work["hosts"]
    assert isinstance(hosts, dict)

    async def one(name: str, address: str, port: int, path: str) -> None:
        connector = pool.connector(
            name,
            ConnectionSettings(
                address=address,
                port=port,
                private_key_path=directory / "host1" / "client_key",
                known_hosts=directory / "known_hosts",
                timeout=60.0,
            ),
        )
        assert await connector.upload(Upload(source=Path(str(work["payload"])), path=PurePosixPath(path)))

    try:
        await asyncio.gather(*(one(name, *where) for name, where in hosts.items()))
    finally:
        await pool.close()


def measured(count: int, size: int, rounds: int, *, memory: bool) -> tuple[str, ...]:
    """The row for hosts that write to memory, or to this machine's one disk."""
    where = "memory (tmpfs)" if memory else "this machine's disk"
    say(f"{size} MiB to {count} hosts, {where}")
    with fleet(count, mounts=(MEMORY,) if memory else ()) as hosts:
        payload = hosts.directory / "payload"
        payload.write_bytes(os.urandom(size * 2**20))
        hosts.key.chmod(0o600)
        place = TARGET if memory else f"{hosts.directory}/copy-{{index}}"
        ssh = ("ssh", "-F", "none", "-i", str(hosts.key), "-o", f"UserKnownHostsFile={hosts.known_hosts}")

        def fresh(way: Callable[[Fleet, Path, str], float]) -> Callable[[], float]:
            def run() -> float:
                seconds = way(hosts, payload, place)
                for index, server in enumerate(hosts.servers):
                    path = place.format(index=index)
                    check = f"cmp {path} {payload} && rm {path}"  # they share this machine's /tmp
                    command = [*ssh, "-p", str(server.port), f"root@{server.address}", check]
                    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=LIMIT)
                os.sync()
                return seconds

            return run

        found = interleaved({"kubexm": fresh(with_kubexm), "scp": fresh(with_scp)}, rounds)
    ratio = statistics.median(found["kubexm"]) / statistics.median(found["scp"])
    return where, spread(found["kubexm"]), spread(found["scp"]), target(ratio, AIM) if memory else f"{ratio:.2f}x"


def main() -> None:
    """Prints the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--size", type=int, default=64, help="MiB")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--one", metavar="DIRECTORY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        asyncio.run(upload_all(Path(options.one), json.load(sys.stdin)))
        return
    print(f"{machine()}\n")
    rows = [measured(options.hosts, options.size, options.rounds, memory=memory) for memory in (True, False)]
    head = (f"{options.size} MiB to {options.hosts} hosts, which write to", "kubexm, s", "scp, s", "kubexm / scp")
    print(table(head, rows))


if __name__ == "__main__":
    main()
