"""A bundle to five lab hosts: each gets what its roles need through kubexm, beside scp of the same files at once.

Needs root and the lab bundle (`kubexm lab bundle`). kubexm also checks each file by sha256 on both sides and syncs it
before it appears; scp does neither. The second push is of what is there already.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from benchmarks.report import interleaved, machine, spread, table
from kubexm.assets import Bundle, assets_for
from kubexm.config import load
from kubexm.connector import Upload
from kubexm.lab import Lab
from kubexm.lab.places import cache_directory
from kubexm.lab.sources import built_bundle
from kubexm.runtime import RuntimeBuilder

INTO = PurePosixPath("/var/lib/containerd/payload")


def payload(bundle: Bundle, roles: frozenset[str]) -> list[tuple[Path, str]]:
    """The files a host of these roles needs, biggest first, each with its sha256."""
    chosen = assets_for(bundle.manifest, roles=roles, arch="amd64", kubernetes=max(bundle.manifest.kubernetes))
    entries = sorted((item.entry for item in chosen.files), key=lambda entry: -entry.size)
    places = [(bundle.local_path(entry.path), entry.sha256) for entry in entries]
    return [(path, sha256) for path, sha256 in places if path is not None]


async def with_kubexm(file: Path, bundle: Bundle) -> float:
    """Seconds to connect and to put every host's files there."""
    started = time.perf_counter()
    context = await RuntimeBuilder(load(file)).build()
    try:

        async def push(name: str, roles: frozenset[str]) -> None:
            connector = context.host_runtimes[name].connector
            for source, sha256 in payload(bundle, roles):
                await connector.upload(Upload(source=source, path=INTO / source.name, mode=0o644, sha256=sha256))

        await asyncio.gather(*(push(host.name, host.roles) for host in context.hosts))
    finally:
        await context.close()
    return time.perf_counter() - started


def with_scp(lab: Lab, file: Path, bundle: Bundle) -> float:
    """Seconds until one scp for each host, all at once, is done."""
    hosts = {host.name: host for host in load(file).cluster.hosts}
    started = time.perf_counter()
    running = [
        subprocess.Popen(
            [
                *("scp", "-q", "-B", "-c", "aes128-gcm@openssh.com", "-F", "none", "-i", str(lab.access.private_key)),
                *("-o", f"UserKnownHostsFile={lab.access.known_hosts}"),
                *(str(source) for source, _ in payload(bundle, hosts[host.name].roles)),
                f"root@{host.address}:{INTO}",
            ],
            stdin=subprocess.DEVNULL,
        )
        for host in lab.hosts
    ]
    codes = [process.wait(600) for process in running]
    assert not any(codes), f"scp ended with {codes}"
    return time.perf_counter() - started


def main() -> None:
    """Prints the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = built_bundle(cache_directory())
    if found is None:
        raise SystemExit("error: there is no lab bundle yet\n  → kubexm lab bundle --kubernetes 1.34.4")
    bundle = Bundle.open(found.path)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "push.yaml"
        lab = Lab("push")
        lab.up(hosts=5, save=file)
        try:

            def empty() -> None:
                for host in lab.hosts:
                    lab.run(host.name, f"rm -rf {INTO}; mkdir -p {INTO}; sync")

            def fresh(run: Callable[[], float]) -> Callable[[], float]:
                def timed() -> float:
                    empty()
                    return run()

                return timed

            rounds = interleaved(
                {
                    "scp": fresh(lambda: with_scp(lab, file, bundle)),
                    "kubexm": fresh(lambda: asyncio.run(with_kubexm(file, bundle))),
                    "kubexm, all there already": lambda: asyncio.run(with_kubexm(file, bundle)),
                },
                options.rounds,
            )
        finally:
            lab.down()
    scp = sorted(rounds["scp"])[len(rounds["scp"]) // 2]
    print(machine())
    print()
    rows = [(way, spread(found), f"{sorted(found)[len(found) // 2] / scp:.2f}x") for way, found in rounds.items()]
    print(table(("way", "seconds", "over scp"), rows))


if __name__ == "__main__":
    main()
