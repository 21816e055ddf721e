"""What a lost work directory needs of a cluster that is there: fetched from a control plane, never made anew.

Also the files of an etcd that is the user's, which are on this machine and become secrets like any other.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.pki import kept, names
from kubexm.components.pki.encryption import read_encryption_config
from kubexm.components.pki.files import ENCRYPTION_CONFIG, KUBERNETES_PKI, PkiFile
from kubexm.components.pki.x509 import Pair, authority_fault, fingerprint, key_fault, key_pair_fault
from kubexm.errors import StepError
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["SecretsFetched", "UserFilesKept", "fetched_groups"]

_HINT: Final = (
    "put the work directory back from a copy. If there is none and the cluster can go: `kubexm delete cluster`, then "
    "create it anew"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGroup:
    """Files that belong together: fetched all or none."""

    kind: str
    """`ca`, `key` or `encryption`."""
    files: tuple[PkiFile, ...]


def fetched_groups(cluster: Cluster) -> tuple[FetchedGroup, ...]:
    """Everything that only the cluster itself can give back."""
    own_etcd = cluster.spec.etcd.type != "external"
    authorities = {"ca": names.CA, "front-proxy-ca": names.FRONT_PROXY_CA}
    authorities |= {"etcd/ca": names.ETCD_CA} if own_etcd else {}
    return (
        *(
            _group("ca", (f"{path}.crt", names.certificate(pair)), (f"{path}.key", names.key(pair)))
            for path, pair in authorities.items()
        ),
        _group(
            "key",
            ("sa.pub", names.public_key(names.SERVICE_ACCOUNT)),
            ("sa.key", names.key(names.SERVICE_ACCOUNT)),
        ),
        FetchedGroup(kind="encryption", files=(PkiFile(path=ENCRYPTION_CONFIG, secret=names.ENCRYPTION_CONFIG),)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsFetched(Step):
    """The work directory has what only the cluster itself could give back; if not, it comes from this control plane."""

    cluster: str
    groups: tuple[FetchedGroup, ...]
    fingerprint: str
    """Of the cluster's CA, as the marks on its hosts say."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks into the work directory; the host is asked nothing as long as nothing is missing."""
        missing = self._missing(ctx)
        if not missing:
            return Check(True)
        first = missing[0].files[0].secret
        return Check(False, reason=f"{first} is not in the work directory: to be fetched from {ctx.host.name}")

    async def run(self, ctx: StepContext) -> None:
        """Fetches what is missing, proves that it belongs to the cluster and together, and keeps it."""
        fetched: dict[str, Secret] = {}
        for group in self._missing(ctx):
            contents = await asyncio.gather(*(self._read(ctx, file.path) for file in group.files))
            fault = self._fault(group, contents)
            if fault:
                raise StepError(
                    f"{group.files[0].path} {fault}, so {self.cluster}'s lost work directory cannot be fetched back",
                    host=ctx.host.name,
                    hint=_HINT,
                )
            fetched |= {file.secret: Secret(text) for file, text in zip(group.files, contents, strict=True)}
        ctx.keep(fetched)
        ctx.warn(f"{len(fetched)} secrets of {self.cluster} were not in {ctx.work_dir}, and were fetched from here")

    def reads(self) -> Resources:
        """The secrets."""
        return self.writes()

    def writes(self) -> Resources:
        """The secrets."""
        return resources(*(f"secret:{file.secret}" for group in self.groups for file in group.files))

    def describe(self) -> str:
        """The state."""
        return f"what the work directory needs of {self.cluster}"

    def _missing(self, ctx: StepContext) -> list[FetchedGroup]:
        return [
            group for group in self.groups if not all(ctx.has_secret(SecretRef(file.secret)) for file in group.files)
        ]

    async def _read(self, ctx: StepContext, path: PurePosixPath) -> str:
        content = await ctx.host.files.text(path)
        if content is None:
            raise StepError(
                f"{path} is not on {ctx.host.name}, so {self.cluster}'s lost work directory cannot be fetched back",
                host=ctx.host.name,
                hint=_HINT,
            )
        return content

    def _fault(self, group: FetchedGroup, contents: list[str]) -> str:
        match group.kind:
            case "ca":
                pair = Pair(contents[0], contents[1])
                fault = authority_fault(pair, kept.now())
                if not fault and group.files[0].secret == names.certificate(names.CA):
                    found = fingerprint(pair.public)
                    return "" if found == self.fingerprint else f"is another CA ({found}) than the marks say"
                return fault
            case "key":
                return key_pair_fault(Pair(contents[0], contents[1]))
            case _:
                try:
                    read_encryption_config(contents[0])
                except ValueError as error:
                    return f"cannot be used: {error}"
                return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFilesKept(Step):
    """Files of the user on this machine are secrets of the work directory, as they are now: CA, certificate and key."""

    authority: str
    """Path of the CA's certificate."""
    certificate: str
    key: str
    names: tuple[str, str, str]
    """The secrets they become."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares; refuses files that cannot be read or do not belong together."""
        differ = [
            name
            for name, text in self._texts(ctx).items()
            if not ctx.has_secret(SecretRef(name)) or ctx.secret(SecretRef(name)) != text
        ]
        return Check(False, reason=f"differs: {', '.join(differ)}") if differ else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Takes them over."""
        ctx.keep(self._texts(ctx))

    def reads(self) -> Resources:
        """The secrets, and the files."""
        return self.writes() | resources("secret:user-files")

    def writes(self) -> Resources:
        """The secrets."""
        return resources(*(f"secret:{name}" for name in self.names))

    def describe(self) -> str:
        """The state."""
        return f"the user's files {self.authority}, {self.certificate} and its key"

    def _texts(self, ctx: StepContext) -> dict[str, Secret]:
        texts = [_local(ctx, path) for path in (self.authority, self.certificate, self.key)]
        fault = key_fault(Pair(texts[1], texts[2]))
        if fault:
            raise StepError(
                f"{self.certificate} {fault}", host=ctx.host.name, hint="see spec.etcd.external: certFile and keyFile"
            )
        return {name: Secret(text) for name, text in zip(self.names, texts, strict=True)}


def _local(ctx: StepContext, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StepError(
            f"{path} cannot be read: {error}", host=ctx.host.name, hint="see spec.etcd.external in the file"
        ) from error


def _group(kind: str, *files: tuple[str, str]) -> FetchedGroup:
    return FetchedGroup(
        kind=kind, files=tuple(PkiFile(path=KUBERNETES_PKI / path, secret=secret) for path, secret in files)
    )
