"""Steps of a backup on a member's host: take a snapshot, check it there, fetch it, check it here, remove it there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

from kubexm.cache import Key
from kubexm.components.backup.access import Endpoint, EtcdAccess, healthy_endpoints, member_list, preferred
from kubexm.components.backup.manifest import SNAPSHOT, Part, set_name
from kubexm.components.backup.sets import BackupSet, describe_file, partial_path, prepare, snapshot_fault, write_file
from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runner import STATE
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["REPORT", "TAKEN", "SnapshotFetched", "SnapshotRemoved", "SnapshotTaken", "read_report"]

TAKEN: Final[Key[dict[str, Any]]] = Key("backup.snapshot")
"""What the host reports about the snapshot: size, sha256, status, member, members."""
REPORT: Final = "snapshot.json"
"""The same beside the fetched snapshot, until the set is published."""
_ON_HOST: Final = STATE / "backup"
_WITHIN: Final = 3600.0


def _place(ctx: StepContext) -> PurePosixPath:
    return ctx.host.runner.state / "backup" / ctx.run


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken(Step):
    """A snapshot of one healthy member is on the host, readable by root only, and etcdutl reads it."""

    access: EtcdAccess

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the report, which is written last."""
        place = _place(ctx)
        script = f"cat {shell(place / 'report')} && stat -c %s {shell(place / SNAPSHOT)}"
        result = await ctx.host.command.read(script, check=False, display="report of the snapshot")
        report = _parsed(result.text) if result.ok else None
        if report is None:
            return Check(False, reason="there is no snapshot of this run")
        return Check(True, values={TAKEN: {**report, "host": ctx.host.name}})

    async def run(self, ctx: StepContext) -> None:
        """Chooses the member, saves its data, and has etcdutl check the file."""
        chosen, members = await self._choose(ctx)
        place, root = _place(ctx), _place(ctx).parent
        part = place / f"{SNAPSHOT}.part"
        who = next((each for each in members if each["id"] == f"{chosen.member:x}"), {})
        about = json.dumps({"member": who.get("name") or chosen.url, "etcd": chosen.version, "members": members})
        script = f"""set -eu
umask 077
mkdir -p {shell(root)}
chmod 700 {shell(root)}
find {shell(root)} -mindepth 1 -maxdepth 1 -exec rm -rf {{}} +
mkdir {shell(place)}
free=$(df -Pk {shell(place)} | awk 'NR == 2 {{ print $4 }}')
if [ "$free" -lt {chosen.size // 1024 * 11 // 10 + 1024} ]; then
  echo "not enough space below {root}: $free KiB free, the database has {chosen.size // 1024} KiB" >&2
  exit 1
fi
{self.access.ctl("snapshot", "save", str(part), urls=(chosen.url,), seconds=round(_WITHIN) - 60, at=place)} >&2
status=$({self.access.util("snapshot", "status", str(part), "-w", "json", at=place)})
sum=$(sha256sum {shell(part)})
mv {shell(part)} {shell(place / SNAPSHOT)}
{{
  printf '%s\\n' "$status" "${{sum%% *}}" {shell(about)}
  date -u +%Y-%m-%dT%H:%M:%SZ
}} >{shell(place / "report.part")}
sync {shell(place / SNAPSHOT)} {shell(place / "report.part")}
mv {shell(place / "report.part")} {shell(place / "report")}"""
        await ctx.host.command.run(
            script,
            within=_WITHIN,
            long=True,
            display=f"etcdctl snapshot save, from {chosen.url}",
            hint="`kubexm verify` shows the state of etcd",
        )

    async def _choose(self, ctx: StepContext) -> tuple[Endpoint, list[Mapping[str, Any]]]:
        if not await ctx.host.command.succeeds(self.access.programs_test()):
            missing = (
                "a container runtime" if self.access.type == "kubeadm" else "etcdctl and etcdutl in /usr/local/bin"
            )
            raise StepError(
                f"{ctx.host.name} does not have {missing}",
                host=ctx.host.name,
                hint="install the version that goes with your etcd there, and back up again"
                if self.access.type == "external"
                else "`kubexm create cluster` installs them",
            )
        ask = {
            what: self.access.ctl(*what.split(), "-w", "json")
            for what in ("endpoint status", "endpoint health", "member list")
        }
        status, health, members = await asyncio.gather(
            *(
                ctx.host.command.read(line, check=False, long=True, within=60, display=f"etcdctl {what}")
                for what, line in ask.items()
            )
        )
        found = healthy_endpoints(status.text, health.text)
        listed, _ = member_list(members.text)
        if not found or not listed:
            said = (health.error_text or status.error_text or members.error_text).strip().splitlines()
            raise StepError(
                f"no member of etcd at {', '.join(self.access.urls)} is healthy"
                + (f": {said[-1][:200]}" if said else ""),
                host=ctx.host.name,
                hint="`kubexm verify` shows what is wrong with etcd; a snapshot needs one healthy member and a quorum",
            )
        own = next((url for host, url in self.access.endpoints if host == ctx.host.name), "")
        return preferred(found, own), listed

    def reads(self) -> Resources:
        """The snapshot."""
        return resources(f"file:{_ON_HOST}/*")

    def writes(self) -> Resources:
        """The snapshot: etcd is only read."""
        return resources(f"file:{_ON_HOST}/*")

    def produces(self) -> tuple[Key[Any], ...]:
        """What is known about it."""
        return (TAKEN,)

    def describe(self) -> str:
        """The state."""
        return "etcd snapshot taken from a healthy member and checked on its host"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFetched(Step):
    """The snapshot is in the set that is being put together, byte for byte as on the host."""

    target: str
    cluster: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares what is here with the report."""
        name, target = set_name(self.cluster, ctx.run), Path(self.target)
        if BackupSet.at(target / name).manifest is not None:
            return Check(True)
        report = read_report(partial_path(target, name))
        if report is None:
            return Check(False, reason="the snapshot is not here")
        fault = await asyncio.to_thread(_fault, partial_path(target, name) / SNAPSHOT, report)
        return Check(False, reason=fault) if fault else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Copies it, reads it back from disk and compares."""
        report = ctx.value(TAKEN)
        if report["host"] != ctx.host.name:
            raise StepError(
                f"the snapshot is on {report['host']}, which was lost",
                host=report["host"],
                hint="start a new backup: it is taken from another member",
            )
        partial = prepare(Path(self.target), set_name(self.cluster, ctx.run))
        path = partial / SNAPSHOT
        path.unlink(missing_ok=True)
        await ctx.host.files.download(_place(ctx) / SNAPSHOT, path)
        if fault := await asyncio.to_thread(_fault, path, report):
            path.unlink(missing_ok=True)
            raise StepError(
                f"the snapshot did not arrive as it is on {ctx.host.name}: {fault}",
                host=ctx.host.name,
                hint="back up again; if it happens again, check memory and disk of both machines",
            )
        write_file(partial / REPORT, json.dumps(report).encode())

    def consumes(self) -> tuple[Key[Any], ...]:
        """What the host reports."""
        return (TAKEN,)

    def reads(self) -> Resources:
        """The set, which is on this machine."""
        return resources("secret:backup-set")

    def writes(self) -> Resources:
        """The set."""
        return resources("secret:backup-set")

    def describe(self) -> str:
        """The state."""
        return f"snapshot copied to {self.target} and compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRemoved(Step):
    """Nothing of the snapshot is left on the host."""

    commands: ClassVar[int | None] = 1

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for it."""
        there = await ctx.host.files.exists(_place(ctx).parent)
        return Check(False, reason="it is still there") if there else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes the directory: everything in it is from backups."""
        await ctx.host.command.run(("rm", "-rf", "--", _place(ctx).parent), display="remove the snapshot from the host")

    def reads(self) -> Resources:
        """The directory."""
        return resources(f"file:{_ON_HOST}/*")

    def writes(self) -> Resources:
        """The directory."""
        return resources(f"file:{_ON_HOST}/*")

    def describe(self) -> str:
        """The state."""
        return "no snapshot left behind on the host"


def read_report(partial: Path) -> dict[str, Any] | None:
    """What the host reported about the snapshot that was fetched; None if none was."""
    try:
        found = json.loads((partial / REPORT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _fault(path: Path, report: Mapping[str, Any]) -> str:
    """Why the file is not the one that was reported; empty if it is."""
    try:
        actual = describe_file(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if actual != Part(size=report["size"], sha256=report["sha256"]):
        return f"{actual.size} bytes with sha256 {actual.sha256}, expected {report['size']} with {report['sha256']}"
    return snapshot_fault(path)


def _parsed(text: str) -> dict[str, Any] | None:
    """The report as the script writes it, and the size of the file."""
    try:
        status, digest, about, taken, size = text.strip().splitlines()
        found, told = json.loads(status), json.loads(about)
        return {
            "size": int(size),
            "sha256": digest,
            "taken": taken,
            "revision": int(found["revision"]),
            "hash": int(found["hash"]),
            "total_keys": int(found["totalKey"]),
            "member": str(told["member"]),
            "etcd": str(told["etcd"]),
            "members": list(told["members"]),
        }
    except (ValueError, KeyError, TypeError):
        return None
