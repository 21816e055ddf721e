"""Hosts for the benchmarks: real sshd processes on loopback addresses, each in namespaces of its own."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubexm.connector import ConnectionSettings
from kubexm.testing import SshServer, why_no_sshd

__all__ = ["Fleet", "fleet"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running servers that let the same key in, and files that tell programs about them."""

    directory: Path
    servers: tuple[SshServer, ...]

    @property
    def key(self) -> Path:
        """Root's on all of them."""
        return self.servers[0].private_key

    @property
    def known_hosts(self) -> Path:
        """With the keys of all."""
        return self.directory / "known_hosts"

    def names(self) -> list[str]:
        """n001, n002, …"""
        return [f"n{index + 1:03}" for index in range(len(self.servers))]

    def settings(self) -> dict[str, ConnectionSettings]:
        """How to log in to each."""
        return {
            name: server.settings(known_hosts=self.known_hosts)
            for name, server in zip(self.names(), self.servers, strict=True)
        }

    def cluster_file(self) -> Path:
        """A cluster.yaml with all of them: the first carries the control plane, the rest are workers."""
        path = self.directory / "cluster.yaml"
        hosts = "\n".join(
            f"    - {{name: {name}, address: {server.address}, port: {server.port}}}"
            for name, server in zip(self.names(), self.servers, strict=True)
        )
        path.write_text(
            f"""\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: fleet}}
spec:
  global: {{user: root, privateKeyPath: {self.key}, knownHostsFile: {self.known_hosts}}}
  hosts:
{hosts}
  roleGroups: {{etcd: [n001], controlPlane: [n001], worker: [{", ".join(self.names()[1:] or ["n001"])}]}}
"""
        )
        return path


@contextmanager
def fleet(count: int, *, mounts: Sequence[str] = (), network: int = 1) -> Iterator[Fleet]:
    """So many servers on 127.0.NETWORK.1 and on; all of them end with the block."""
    reason = why_no_sshd()
    if reason:
        sys.exit(f"error: this benchmark needs real sshd processes: {reason}")
    directory = Path(tempfile.mkdtemp(prefix="kubexm-bench-"))
    directory.chmod(0o755)
    servers: list[SshServer] = []
    try:
        with ExitStack() as running:
            for index in range(count):
                server = SshServer(
                    directory=directory / f"host{index + 1}",
                    address=f"127.0.{network + index // 250}.{index % 250 + 1}",
                    users=(),
                    hostname=f"n{index + 1:03}",
                    mounts=tuple(mounts),
                )
                if servers:
                    server.directory.mkdir()
                    for name in ("client_key", "client_key.pub"):
                        shutil.copy(servers[0].directory / name, server.directory / name)
                servers.append(running.enter_context(server))
            made = Fleet(directory, tuple(servers))
            made.known_hosts.write_text("".join(server.known_hosts.read_text() for server in servers))
            yield made
    finally:
        shutil.rmtree(directory)
