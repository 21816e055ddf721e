"""etcd as a backup reaches it from a host: under systemd, in static pods, or the user's own. Commands and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from kubexm.components.etcd.client import parse_members
from kubexm.components.etcd.layout import ETCDCTL, ETCDUTL
from kubexm.components.pki.files import ETCD_PKI, KUBERNETES_PKI
from kubexm.components.runtimes import DEFAULT_RUNTIME, runtime_named
from kubexm.connector.base import shell

__all__ = ["Endpoint", "EtcdAccess", "healthy_endpoints", "member_list", "preferred"]

_TIMEOUT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdAccess:
    """How etcdctl and etcdutl are run on a host, and where the members are."""

    type: str
    """As spec.etcd.type says."""
    endpoints: tuple[tuple[str, str], ...]
    """Host, empty if it is none of ours, and client URL of each member."""
    image: str = ""
    """etcd's image, for members in static pods: their hosts have no etcdctl of their own."""
    runtime: str = DEFAULT_RUNTIME
    """The container runtime that runs it."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The client URLs of all members."""
        return tuple(url for _, url in self.endpoints)

    def ctl(
        self, *words: str, urls: tuple[str, ...] = (), seconds: int = _TIMEOUT, at: PurePosixPath | None = None
    ) -> str:
        """The command line of etcdctl; `at` is a directory that it may write to."""
        if self.type == "kubexm":
            ca, client = ETCD_PKI / "ca.crt", ETCD_PKI / "healthcheck-client"
        elif self.type == "kubeadm":
            ca, client = KUBERNETES_PKI / "etcd/ca.crt", KUBERNETES_PKI / "etcd/healthcheck-client"
        else:
            ca, client = KUBERNETES_PKI / "etcd/ca.crt", KUBERNETES_PKI / "apiserver-etcd-client"
        options = (
            f"--endpoints={','.join(urls or self.urls)}",
            f"--cacert={ca}",
            f"--cert={client}.crt",
            f"--key={client}.key",
            f"--command-timeout={seconds}s",
            "--dial-timeout=3s",
        )
        return self._run("etcdctl", (*options, *words), at)

    def util(self, *words: str, at: PurePosixPath) -> str:
        """The command line of etcdutl on files below `at`."""
        return self._run("etcdutl", words, at)

    def programs_test(self) -> str:
        """A command that succeeds if this host can run both."""
        if self.type == "kubeadm":
            return f"{runtime_named(self.runtime).library()}kx_rt_here"
        return f"[ -x {shell(ETCDCTL)} ] && [ -x {shell(ETCDUTL)} ]"

    def _run(self, program: str, words: tuple[str, ...], at: PurePosixPath | None) -> str:
        if self.type != "kubeadm":
            return shell(ETCDCTL if program == "etcdctl" else ETCDUTL, *words)
        run = runtime_named(self.runtime).run_once(
            self.image, f"kubexm-{program}-$$", str(KUBERNETES_PKI / "etcd"), "" if at is None else str(at)
        )
        return f"{run} {shell(program, *words)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A member as it answers."""

    url: str
    member: int
    leader: bool
    version: str
    size: int
    """Bytes of its database."""


def healthy_endpoints(status: str, health: str) -> list[Endpoint]:
    """Members that serve reads with a quorum, have data and no errors: from `endpoint status` and `endpoint health`."""
    try:
        well = {str(entry["endpoint"]) for entry in json.loads(health or "[]") if entry.get("health") is True}
        return [
            Endpoint(
                url=str(entry["Endpoint"]),
                member=int(answer["header"]["member_id"]),
                leader=answer.get("leader") == answer["header"]["member_id"],
                version=str(answer["version"]),
                size=int(answer.get("dbSize", 0)),
            )
            for entry in json.loads(status or "[]")
            if (answer := entry["Status"]) is not None
            and entry["Endpoint"] in well
            and not answer.get("isLearner")
            and not answer.get("errors")
        ]
    except (ValueError, KeyError, TypeError):
        return []


def preferred(found: list[Endpoint], own: str) -> Endpoint:
    """Which one to take the snapshot from: not the leader if there is another, and this host's own if possible."""
    return min(found, key=lambda each: (each.leader, each.url != own, each.url))


def member_list(text: str) -> tuple[list[Mapping[str, Any]], int]:
    """Members as a manifest lists them, and the id of the etcd cluster; nothing if the answer is none."""
    found = parse_members(text)
    if found is None:
        return [], 0
    members = [
        {
            "id": member.hex_id,
            "name": member.name,
            "peer_urls": list(member.peer_urls),
            "client_urls": list(member.client_urls),
        }
        for member in found.members
    ]
    return sorted(members, key=lambda each: str(each["name"])), found.cluster
