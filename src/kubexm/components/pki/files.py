"""Where certificates, keys and kubeconfigs are on a host, and the one way to put them there. Makes none of them.

The layout is kubeadm's, in both modes. Keys of CAs go to control planes only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane.layout import CA_ROOT, CA_TRUST
from kubexm.components.milestones import PKI_ISSUED
from kubexm.components.pki import names
from kubexm.connector import Host
from kubexm.redact import SecretRef
from kubexm.runner import NewFile
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.content import look_at, sha256_of
from kubexm.step.undo import restore, snapshot
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = [
    "ENCRYPTION_CONFIG",
    "ETCD_PKI",
    "KUBELET_PKI",
    "KUBERNETES",
    "KUBERNETES_PKI",
    "PkiFile",
    "PkiFilesPresent",
    "control_plane_files",
    "etcd_files",
    "kubelet_files",
    "paths",
    "place_files",
]

KUBERNETES: Final = PurePosixPath("/etc/kubernetes")
KUBERNETES_PKI: Final = KUBERNETES / "pki"
ETCD_PKI: Final = PurePosixPath("/etc/etcd/pki")
"""Of an etcd under systemd, whose hosts need not be nodes of Kubernetes."""
KUBELET_PKI: Final = PurePosixPath("/var/lib/kubelet/pki")
ENCRYPTION_CONFIG: Final = KUBERNETES / "config/encryption.yaml"
"""Put there with the other settings of the API server; a lost work directory gets it back from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PkiFile:
    """One file and the secret that is in it; `{host}` in the secret's name stands for the host."""

    path: PurePosixPath
    secret: str
    mode: int = 0o600


def control_plane_files(cluster: Cluster) -> tuple[PkiFile, ...]:
    """All PKI files and kubeconfigs of a control plane."""
    etcd = cluster.spec.etcd.type
    return (
        *_pair(KUBERNETES_PKI / "ca", names.CA),
        *_trusted(),
        *_pair(KUBERNETES_PKI / "front-proxy-ca", names.FRONT_PROXY_CA),
        # The key of etcd's CA is not needed there by a running etcd under systemd, but a lost work directory is
        # fetched back from control planes.
        *(_pair(KUBERNETES_PKI / "etcd/ca", names.ETCD_CA)[: 1 if etcd == "external" else 2]),
        PkiFile(path=KUBERNETES_PKI / "sa.key", secret=names.key(names.SERVICE_ACCOUNT)),
        PkiFile(path=KUBERNETES_PKI / "sa.pub", secret=names.public_key(names.SERVICE_ACCOUNT)),
        *_pair(KUBERNETES_PKI / "apiserver", names.APISERVER),
        *_pair(KUBERNETES_PKI / "apiserver-kubelet-client", names.APISERVER_KUBELET_CLIENT),
        *_pair(KUBERNETES_PKI / "front-proxy-client", names.FRONT_PROXY_CLIENT),
        *_pair(KUBERNETES_PKI / "apiserver-etcd-client", names.APISERVER_ETCD_CLIENT),
        *(_member_files(KUBERNETES_PKI / "etcd") if etcd == "kubeadm" else ()),
        PkiFile(path=KUBERNETES / "admin.conf", secret=names.kubeconfig(names.HOST_ADMIN)),
        PkiFile(path=KUBERNETES / "super-admin.conf", secret=names.kubeconfig(names.SUPER_ADMIN)),
        PkiFile(path=KUBERNETES / "controller-manager.conf", secret=names.kubeconfig(names.CONTROLLER_MANAGER)),
        PkiFile(path=KUBERNETES / "scheduler.conf", secret=names.kubeconfig(names.SCHEDULER)),
    )


def etcd_files() -> tuple[PkiFile, ...]:
    """The PKI files of a member of etcd under systemd: no key of a CA among them."""
    return (PkiFile(path=ETCD_PKI / "ca.crt", secret=names.certificate(names.ETCD_CA)), *_member_files(ETCD_PKI))


def kubelet_files() -> tuple[PkiFile, ...]:
    """The PKI files of every kubelet: who may call it, and how it proves who it is."""
    return (
        PkiFile(path=KUBERNETES_PKI / "ca.crt", secret=names.certificate(names.CA)),
        *_trusted(),
        *_pair(KUBELET_PKI / "kubelet-serving", names.KUBELET_SERVING),
    )


def paths(files: Iterable[PkiFile]) -> tuple[PurePosixPath, ...]:
    """Where they are, for a service that is to be restarted with them."""
    return tuple(file.path for file in files)


def place_files(
    g: FragmentBuilder,
    files: Sequence[PkiFile],
    *,
    on: Host | Iterable[Host],
    node: str = "pki",
    owner: str = "root",
    group: str = "root",
    after: Sequence[NodeHandle] = (),
    after_same_host: Sequence[NodeHandle] = (),
    **more: Any,
) -> NodeHandle:
    """Adds one node that puts all these files on the hosts as soon as the PKI is issued."""
    step = PkiFilesPresent(files=tuple(files), owner=owner, group=group)
    needs = more.pop("needs", ())
    needs = (PKI_ISSUED, *(needs if isinstance(needs, list | tuple) else (needs,)))
    return g.add(node, step, on=on, after=after, after_same_host=after_same_host, needs=needs, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class PkiFilesPresent(Step):
    """Certificates, keys and kubeconfigs are in their places on the host, as they are in the work directory."""

    files: tuple[PkiFile, ...]
    owner: str = "root"
    group: str = "root"

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares all of them in one round trip; contents are never shown."""
        missing = [name for name in self.secrets(ctx.host.name) if not ctx.has_secret(SecretRef(name))]
        if missing:
            return Check(False, reason=f"{missing[0]} is not made yet")
        faults = await self._faults(ctx)
        reasons = [f"{file.path}: {'; '.join(found)}" for file, found in faults.items()]
        return Check(False, reason=_few(reasons)) if reasons else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Writes those that are not as they should be, each whole or not at all."""
        wrong = [
            NewFile(path=file.path, content=self._content(ctx, file), mode=file.mode)
            for file in await self._faults(ctx)
        ]
        await ctx.host.files.write_all(wrong, owner=self.owner, group=self.group, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, *(file.path for file in self.files))

    def reads(self) -> Resources:
        """The files, and the secrets they are compared with."""
        secrets = {f"secret:{file.secret.partition(names.HOST)[0]}" for file in self.files if names.HOST in file.secret}
        return self.writes() | resources(
            *(f"{prefix}*" for prefix in secrets),
            *(f"secret:{file.secret}" for file in self.files if names.HOST not in file.secret),
        )

    def writes(self) -> Resources:
        """The files."""
        return resources(*(f"file:{file.path}" for file in self.files))

    def secrets(self, host: str) -> tuple[str, ...]:
        """Those of this host alone: no host is given the keys of another."""
        return tuple(names.of_host(file.secret, host) for file in self.files)

    def describe(self) -> str:
        """How many, and where the first of them is."""
        return f"{len(self.files)} PKI files: {_few([str(file.path) for file in self.files])}"

    async def _faults(self, ctx: StepContext) -> dict[PkiFile, list[str]]:
        digests = [sha256_of(self._content(ctx, file)) for file in self.files]
        found = await asyncio.gather(
            *(
                look_at(ctx.host, file.path, sha256=sha256, show=False)
                for file, sha256 in zip(self.files, digests, strict=True)
            )
        )
        faults = {
            file: one.faults(sha256=sha256, mode=file.mode, owner=self.owner, group=self.group)
            for file, one, sha256 in zip(self.files, found, digests, strict=True)
        }
        return {file: reasons for file, reasons in faults.items() if reasons}

    def _content(self, ctx: StepContext, file: PkiFile) -> bytes:
        return ctx.secret(SecretRef(names.of_host(file.secret, ctx.host.name))).reveal().encode()


def _pair(path: PurePosixPath, name: str) -> tuple[PkiFile, PkiFile]:
    """A certificate and its key, as PATH.crt and PATH.key."""
    return (
        PkiFile(path=path.with_name(f"{path.name}.crt"), secret=names.certificate(name)),
        PkiFile(path=path.with_name(f"{path.name}.key"), secret=names.key(name)),
    )


def _trusted() -> tuple[PkiFile, ...]:
    return tuple(PkiFile(path=path, secret=names.certificate(names.CA)) for path in (CA_TRUST, CA_ROOT))


def _member_files(directory: PurePosixPath) -> tuple[PkiFile, ...]:
    return (
        *_pair(directory / "server", names.ETCD_SERVER),
        *_pair(directory / "peer", names.ETCD_PEER),
        *_pair(directory / "healthcheck-client", names.ETCD_HEALTHCHECK_CLIENT),
    )


def _few(items: list[str], most: int = 3) -> str:
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest
