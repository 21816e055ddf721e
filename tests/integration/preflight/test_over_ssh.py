"""Preflight over real sshd, as root and as a user whose sudo asks for a password."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kubexm.connector import ConnectionPool
from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.pipeline.preflight import PreflightPipeline
from kubexm.plan import State
from kubexm.runtime import RuntimeBuilder
from kubexm.testing import SshServer, TcpProxy

CLUSTER = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: near}}
spec:
  global: {{knownHostsFile: {directory}/known_hosts}}
  hosts:
{hosts}
  roleGroups: {{etcd: [n1], controlPlane: [n1], worker: [{last}]}}
  kubernetes: {{version: v1.34.4}} # also fit for a machine with control groups v1
  preflight: {{minDisk: 1Mi, minMemory: 1Mi, minCPU: 1, skip: [{skip}]}}
"""
HERE = ("init", "addresses", "machine-id", "mac", "tools", "os", "modules", "ports", "product-uuid")
"""What a process on this machine is not, or shares with its neighbours."""


async def preflight(
    directory: Path,
    *servers: SshServer,
    user: str = "root",
    skip: tuple[str, ...] = HERE,
    proxies: tuple[TcpProxy, ...] = (),
) -> dict[tuple[str, str], str]:
    """Messages of what failed, by (check, host)."""
    ports = [proxy.port for proxy in proxies] or [server.port for server in servers]
    known = [
        server.known_hosts.read_text().replace(f":{server.port} ", f":{port} ")
        for server, port in zip(servers, ports, strict=True)
    ]
    (directory / "known_hosts").write_text("".join(known))
    (directory / "sudo").write_text("correct horse")
    (directory / "sudo").chmod(0o600)
    sudo = "" if user == "root" else f", sudoPassword: 'file:{directory}/sudo'"
    hosts = "\n".join(
        f"    - {{name: n{index + 1}, address: {server.address}, port: {ports[index]}, user: {user}, "
        f"privateKeyPath: {server.private_key}{sudo}}}"
        for index, server in enumerate(servers)
    )
    file = directory / "cluster.yaml"
    file.write_text(CLUSTER.format(directory=directory, hosts=hosts, last=f"n{len(servers)}", skip=", ".join(skip)))
    context = await RuntimeBuilder(file, work_dir=str(directory / "work")).build()
    journal = Journal.create(directory / "journal")
    try:
        graph = PreflightPipeline().plan(context.pipeline_context())
        result = await LocalEngine().execute(context, graph, RunOptions(run="r1", journal=journal))
    finally:
        await journal.close()
        await context.close()
    assert not any(host.state is State.BLOCKED for _, host in result.results())
    assert not any(host.stdout or host.attempts for _, host in result.results()), "a check changed something"
    return {
        (node.rpartition(".")[2], host.host): host.error.message
        for node, host in result.failures()
        if host.error is not None
    }


@pytest.mark.parametrize("user", ["root", "ops"])
async def test_a_host_that_is_fit(sshd: SshServer, user: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert await preflight(tmp_path, sshd, user=user) == {}


async def test_what_is_really_wrong_is_found(sshd: SshServer, tmp_path: Path) -> None:
    left = tuple(name for name in HERE if name not in ("ports", "init", "addresses"))
    with socket.create_server(("127.0.0.1", 10248)):
        found = await preflight(tmp_path, sshd, skip=left)
    assert "10248, for kubelet health, is used by" in found["ports", "n1"]
    assert "not systemd" in found["init", "n1"]
    assert "127.0.0.1 is not an address of this host" in found["addresses", "n1"]
    assert len(found) == 3


async def test_hosts_are_compared_with_each_other(make_sshd: Callable[..., SshServer], tmp_path: Path) -> None:
    one = make_sshd(address="127.0.0.21", hostname="same")
    two = make_sshd(address="127.0.0.22", hostname="same")
    found = await preflight(tmp_path, one, two, skip=tuple(name for name in HERE if name != "machine-id"))
    assert set(found) == {("machine-id", "n1"), ("machine-id", "n2")}
    assert "is also that of n2" in found["machine-id", "n1"]


async def test_a_host_of_another_cluster(make_sshd: Callable[..., SshServer], tmp_path: Path) -> None:
    mark = '{"uid": "u-1", "name": "other"}'
    server = make_sshd(
        address="127.0.0.23",
        mounts=(
            "mount -t tmpfs tmpfs /var/lib",
            "mkdir /var/lib/kubexm",
            f"echo '{mark}' >/var/lib/kubexm/cluster.json",
        ),
    )
    found = await preflight(tmp_path, server)
    assert found == {("membership", "n1"): "it belongs to the cluster other"}


async def test_a_read_only_system(make_sshd: Callable[..., SshServer], tmp_path: Path) -> None:
    server = make_sshd(
        address="127.0.0.24",
        mounts=("mount --bind /opt /opt", "mount -o remount,ro,bind /opt", "mount -t tmpfs -o noexec tmpfs /usr/local"),
    )
    found = await preflight(tmp_path, server)
    assert found == {("writable", "n1"): "/opt cannot be written to; /usr/local is mounted noexec"}


@pytest.mark.parametrize("user", ["root", "ops"])
async def test_it_takes_few_round_trips_beyond_connecting(
    make_sshd: Callable[..., SshServer], pool: ConnectionPool, user: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    servers = [make_sshd(address=f"127.0.0.{last}", hostname=f"far{last}") for last in (41, 42)]
    async with contextlib.AsyncExitStack() as stack:
        one, two, alone = [
            await stack.enter_async_context(TcpProxy(server.address, server.port, delay=0.03, address=server.address))
            for server in (*servers, servers[0])
        ]
        changed_known = servers[0].known_hosts.read_text().replace(f":{servers[0].port} ", f":{alone.port} ")
        (tmp_path / "known_alone").write_text(changed_known)
        await pool.connector(
            "n1", servers[0].settings(user, port=alone.port, known_hosts=tmp_path / "known_alone")
        ).connect()
        assert await preflight(tmp_path, *servers, user=user, proxies=(one, two)) == {}
        for proxy in (one, two):
            assert proxy.accepted == 1
            assert proxy.round_trips - alone.round_trips <= 6, "facts are one, and all that is read beyond them another"
