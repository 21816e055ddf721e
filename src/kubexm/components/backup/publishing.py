"""The last step of a backup, on this machine: seal keys, write the manifest, check everything, publish the set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubexm import __version__
from kubexm.components.backup.age import seal
from kubexm.components.backup.keys import ca_fingerprint, encryption_key_ids
from kubexm.components.backup.manifest import MANIFEST, SEALED, SNAPSHOT, Manifest, Part, set_name
from kubexm.components.backup.sealed import CLUSTER_FILE, SECRETS, STATE, Contents, pack
from kubexm.components.backup.sets import BackupSet, check, describe_file, partial_path, publish, write_file
from kubexm.components.backup.steps import REPORT, read_report
from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["SetPublished"]

_STATE_FILES = ("uid", "applied.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPublished(Step):
    """The set of this run is in its directory, complete and checked."""

    target: str
    cluster: str
    kubernetes: str
    recipients: tuple[str, ...]

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for a set with a good manifest."""
        found = BackupSet.at(Path(self.target) / set_name(self.cluster, ctx.run))
        return Check(True) if found.manifest is not None else Check(False, reason="the set is not published yet")

    async def run(self, ctx: StepContext) -> None:
        """Writes what is missing beside the snapshot, checks all of it, and gives the set its name."""
        if not self.recipients:
            ctx.warn(
                "no recipient: CAs, keys, cluster.yaml and state are NOT in this backup set. Once work directory and "
                "control planes are lost it cannot be restored. Use --recipient or spec.etcd.backup.recipients"
            )
        await asyncio.to_thread(self._publish, ctx)

    def _publish(self, ctx: StepContext) -> None:
        target, name = Path(self.target), set_name(self.cluster, ctx.run)
        partial = partial_path(target, name)
        report = read_report(partial)
        if report is None or not ctx.cluster_uid:
            cause = "the snapshot is not here" if report is None else "the work directory has no cluster UID"
            raise StepError(
                f"{partial}: the set cannot be completed: {cause}", host=ctx.host.name, hint="start a new backup"
            )
        secrets = _secrets(ctx.work_dir)
        parts = {SNAPSHOT: Part(size=report["size"], sha256=report["sha256"])}
        if self.recipients:
            write_file(partial / SEALED, seal(pack(_contents(ctx, secrets, report["sha256"])), self.recipients))
            parts[SEALED] = describe_file(partial / SEALED)
        manifest = Manifest(
            cluster=self.cluster,
            uid=ctx.cluster_uid,
            run=ctx.run,
            kubexm=__version__,
            kubernetes=self.kubernetes,
            ca_fingerprint=ca_fingerprint(secrets.get("pki.ca.crt", b"")),
            encryption_keys=encryption_key_ids(secrets.get("encryption-config", b"")),
            recipients=self.recipients,
            parts=parts,
            members=tuple(report["members"]),
            **{key: report[key] for key in ("taken", "etcd", "member", "revision", "hash", "total_keys")},
        )
        write_file(partial / MANIFEST, manifest.render())
        (partial / REPORT).unlink()
        if problems := check(BackupSet.at(partial), uid=ctx.cluster_uid):
            write_file(partial / REPORT, json.dumps(report).encode())
            raise StepError(
                f"{partial}: the set was written and is not good: {problems[0]}",
                host=ctx.host.name,
                hint="check the disk of this machine, then `kubexm runs resume last`",
            )
        publish(target, name)

    def reads(self) -> Resources:
        """The set, and what is sealed in it."""
        return resources("secret:*")

    def writes(self) -> Resources:
        """The set."""
        return resources("secret:backup-set")

    def describe(self) -> str:
        """Where, and whether keys are in it."""
        keys = f"keys sealed for {len(self.recipients)} recipient(s)" if self.recipients else "without keys"
        return f"backup set published in {self.target}, {keys}"


def _secrets(work_dir: Path) -> dict[str, bytes]:
    """Every secret of the cluster, by name."""
    files = (path for path in sorted((work_dir / "secrets").iterdir()) if not path.name.startswith("."))
    return {path.name: path.read_bytes() for path in files if path.is_file()}


def _contents(ctx: StepContext, secrets: Mapping[str, bytes], snapshot: str) -> Contents:
    state: dict[str, Any] = {name: ctx.work_dir / name for name in _STATE_FILES}
    files = {
        CLUSTER_FILE: ctx.cluster_text.encode(),
        **{f"{STATE}{name}": path.read_bytes() for name, path in state.items() if path.exists()},
        **{f"{SECRETS}{name}": content for name, content in secrets.items()},
    }
    return Contents(files, snapshot, ctx.cluster_uid)
