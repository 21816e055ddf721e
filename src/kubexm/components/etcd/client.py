"""Asking etcd and telling it, with etcdctl on a host of the cluster. Must not know what the answers are for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kubexm.components.etcd.layout import ETCDCTL
from kubexm.components.pki.files import ETCD_PKI, KUBERNETES_PKI
from kubexm.connector import CommandResult
from kubexm.connector.base import shell
from kubexm.runtime import HostRuntime

__all__ = [
    "EtcdClient",
    "Member",
    "Membership",
    "has_quorum",
    "health_question",
    "parse_members",
    "quorum",
    "telling",
]

_MEMBERS = "members of etcd"
_BAD = ("error", "fatal", "panic", "flag provided but not defined", "invalid value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member as etcd lists it; one that was never started has no name."""

    id: int
    name: str = ""
    peer_urls: tuple[str, ...] = ()
    client_urls: tuple[str, ...] = ()
    learner: bool = False

    @property
    def hex_id(self) -> str:
        """As etcdctl writes ids."""
        return f"{self.id:x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The members of a cluster, as a quorum of them knows."""

    cluster: int
    members: tuple[Member, ...]

    @property
    def voters(self) -> tuple[Member, ...]:
        """Those who count for a quorum."""
        return tuple(member for member in self.members if not member.learner)

    def with_peer_url(self, url: str) -> Member | None:
        """The member that others reach there."""
        return next((member for member in self.members if url in member.peer_urls), None)

    def with_id(self, wanted: int) -> Member | None:
        """The member of this id."""
        return next((member for member in self.members if member.id == wanted), None)


@dataclass(frozen=True, slots=True)
class EtcdClient:
    """etcdctl on this host, talking to these endpoints as the health check's client."""

    host: HostRuntime
    endpoints: tuple[str, ...]

    def command(self, *words: str, seconds: int = 5) -> str:
        """The command line."""
        return shell(
            ETCDCTL,
            f"--endpoints={','.join(self.endpoints)}",
            f"--cacert={ETCD_PKI}/ca.crt",
            f"--cert={ETCD_PKI}/healthcheck-client.crt",
            f"--key={ETCD_PKI}/healthcheck-client.key",
            f"--command-timeout={seconds}s",
            "--dial-timeout=2s",
            *words,
        )

    async def members(self) -> Membership | None:
        """Who is a member, by a read that takes a quorum; None if there is none, or nobody answers."""
        result = await self._read("member", "list", "-w", "json", display=f"list {_MEMBERS}")
        return parse_members(result.text) if result.ok else None

    async def healthy(self, urls: Iterable[str]) -> set[str]:
        """Those of these client URLs behind which a member answers with a quorum, and has no alarm."""
        wanted = tuple(urls)
        if not wanted:
            return set()
        asked = replace(self, endpoints=wanted)
        result = await asked._read("endpoint", "health", "-w", "json", display=f"health of {_MEMBERS}")
        try:
            found = json.loads(result.text or "[]")
        except ValueError:
            return set()
        return {str(entry["endpoint"]) for entry in found if entry.get("health") is True}

    async def change(self, *words: str, display: str) -> CommandResult:
        """Tells etcd something; whatever comes of it."""
        return await self.host.command.run(
            self.command(*words, seconds=10), within=60, check=False, long=True, display=display
        )

    async def _read(self, *words: str, display: str) -> CommandResult:
        return await self.host.command.read(self.command(*words), check=False, long=True, display=display)


def health_question(url: str, *, client: str) -> str:
    """Shell text for a control plane, which need not have etcdctl: asks for health, which takes a quorum to answer.

    `client` is the certificate to ask with, without its ending, below the PKI of Kubernetes. kubectl can ask any server
    that speaks TLS, and every control plane has it.
    """
    return shell(
        "/usr/local/bin/kubectl",
        "--kubeconfig=/dev/null",
        f"--server={url}",
        f"--certificate-authority={KUBERNETES_PKI}/etcd/ca.crt",
        f"--client-certificate={KUBERNETES_PKI}/{client}.crt",
        f"--client-key={KUBERNETES_PKI}/{client}.key",
        "--request-timeout=5s",
        "get",
        "--raw",
        "/health",
    )


def quorum(voters: int) -> int:
    """How many of so many must agree."""
    return voters // 2 + 1


def has_quorum(voters: int, healthy: int) -> bool:
    """True if so many healthy ones of these voters can agree."""
    return healthy >= quorum(voters)


def parse_members(text: str) -> Membership | None:
    """What `etcdctl member list -w json` and `member add -w json` print; None for anything else."""
    try:
        data: dict[str, Any] = json.loads(text)
        return Membership(
            cluster=int(data["header"]["cluster_id"]),
            members=tuple(
                Member(
                    id=int(entry["ID"]),
                    name=str(entry.get("name", "")),
                    peer_urls=tuple(entry.get("peerURLs", ())),
                    client_urls=tuple(entry.get("clientURLs", ())),
                    learner=bool(entry.get("isLearner", False)),
                )
                for entry in data["members"]
            ),
        )
    except (ValueError, KeyError, TypeError):
        return None


def telling(log: str, *, most: int = 6) -> list[str]:
    """The last lines of etcd's log that tell of an error, else its very last ones, as people read them."""
    lines = [_readable(line) for line in log.splitlines() if line.strip()]
    bad = [line for line in lines if line.startswith(_BAD)]
    return list(dict.fromkeys((bad or lines)[-most:]))


def _readable(line: str) -> str:
    try:
        entry = json.loads(line)
        level, message = str(entry["level"]), str(entry["msg"])
    except (ValueError, KeyError, TypeError):
        return line
    return f"{level}: {message}" + (f": {entry['error']}" if entry.get("error") else "")
