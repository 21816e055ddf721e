"""Several settings files as one node of a plan, some of them different from host to host. Must not know what they say.

One node for all of them means one round trip to look and one to write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.redact import SecretRef
from kubexm.runner import NewFile
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.content import look_at, sha256_of, unified
from kubexm.step.undo import restore, snapshot

__all__ = ["FilesPresent", "HostFile", "per_host_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """One file as it is to be, on these hosts; on all the step runs on if none is named."""

    path: PurePosixPath
    content: str | SecretRef
    mode: int = 0o644
    hosts: tuple[str, ...] = ()


def per_host_files(path: PurePosixPath, contents: Mapping[str, str], mode: int = 0o644) -> tuple[HostFile, ...]:
    """The file of each host, by its name; equal contents are kept once, so that plans of many hosts stay small."""
    groups: dict[str, list[str]] = {}
    for host, content in contents.items():
        groups.setdefault(content, []).append(host)
    return tuple(
        HostFile(path=path, content=content, mode=mode, hosts=tuple(hosts)) for content, hosts in groups.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPresent(Step):
    """Files are there with the content meant for this host, and their modes."""

    files: tuple[HostFile, ...]
    owner: str = "root"
    group: str = "root"

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares all of them in one round trip; shows what differs, unless it is secret."""
        missing = [name for name in self.secrets(ctx.host.name) if not ctx.has_secret(SecretRef(name))]
        if missing:
            return Check(False, reason=f"the secret {missing[0]} is not made yet")
        faults = await self._faults(ctx)
        reasons = [f"{file.path}: {reason}" for file, (reason, _) in faults.items()]
        diffs = [diff for _, diff in faults.values() if diff]
        return Check(False, reason="; ".join(reasons), diff="\n".join(diffs)) if reasons else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Writes those that are not as they should be, each whole or not at all."""
        wrong = [NewFile(path=file.path, content=_bytes(ctx, file), mode=file.mode) for file in await self._faults(ctx)]
        await ctx.host.files.write_all(wrong, owner=self.owner, group=self.group, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, *(file.path for file in self._own(ctx.host.name)))

    def reads(self) -> Resources:
        """The files, and the secrets they are compared with."""
        secrets = (f"secret:{file.content.name}" for file in self.files if isinstance(file.content, SecretRef))
        return self.writes() | resources(*secrets)

    def writes(self) -> Resources:
        """The files."""
        return resources(*(f"file:{file.path}" for file in self.files))

    def describe(self) -> str:
        """The paths, if they are few."""
        paths = list(dict.fromkeys(str(file.path) for file in self.files))
        rest = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
        return f"{'file' if len(paths) == 1 else 'files'} {', '.join(paths[:2])}{rest}"

    def secrets(self, host: str) -> tuple[str, ...]:
        """The contents of this host's files."""
        return tuple(file.content.name for file in self._own(host) if isinstance(file.content, SecretRef))

    def _own(self, host: str) -> list[HostFile]:
        return [file for file in self.files if not file.hosts or host in file.hosts]

    async def _faults(self, ctx: StepContext) -> dict[HostFile, tuple[str, str]]:
        """What is wrong with each file that is not as it should be, and the diff of its content."""
        files = self._own(ctx.host.name)
        found = await asyncio.gather(*(self._fault(ctx, file) for file in files))
        return {file: fault for file, fault in zip(files, found, strict=True) if fault[0]}

    async def _fault(self, ctx: StepContext, file: HostFile) -> tuple[str, str]:
        data, secret = _bytes(ctx, file), isinstance(file.content, SecretRef)
        digest = sha256_of(data)
        found = await look_at(ctx.host, file.path, sha256=digest, show=not secret, trusted=not secret)
        faults = found.faults(sha256=digest, mode=file.mode, owner=self.owner, group=self.group)
        known = found.kind == "absent" or found.content is not None
        diff = unified(file.path, found.content, data) if faults and known and not secret else ""
        return "; ".join(faults), diff


def _bytes(ctx: StepContext, file: HostFile) -> bytes:
    content = file.content if isinstance(file.content, str) else ctx.secret(file.content).reveal()
    return content.encode()
