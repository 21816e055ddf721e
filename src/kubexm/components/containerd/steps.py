"""States of a container runtime that no generic step names: its registries' settings, and that it answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from kubexm.components.containerd.config import CERTS
from kubexm.components.containerd.registries import MARK, RegistryFile
from kubexm.connector.base import shell
from kubexm.redact import SecretRef
from kubexm.runner import NewFile
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.content import look_at, sha256_of, unified
from kubexm.step.undo import restore_below, snapshot

__all__ = ["RegistriesConfigured", "RuntimeAnswers"]

_FOUND = re.compile(r"(?P<ours>ours|other) (?P<mode>[0-7]+) (?P<sha256>[0-9a-f]{64}) (?P<path>/.+)")
_LOOK = """for f in {certs}/*/hosts.toml {certs}/*/kubexm-ca.crt; do
  [ -f "$f" ] || continue
  case $f in */kubexm-ca.crt) o=ours ;; *)
    IFS= read -r l <"$f"; if [ "$l" = {mark} ]; then o=ours; else o=other; fi ;;
  esac
  h=$(sha256sum <"$f") || exit 1
  printf '%s %s %s %s\\n' "$o" "$(stat -c %a -- "$f")" "${{h%% *}}" "$f"
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistriesConfigured(Step):
    """The runtime reaches registries as cluster.yaml says: these files are there, and none that kubexm made earlier."""

    files: tuple[RegistryFile, ...]

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares all of them in one read; shows what differs, unless it is secret."""
        for piece in (piece for file in self.files for piece in file.pieces):
            if isinstance(piece, SecretRef) and not ctx.has_secret(piece):
                return Check(False, reason=f"the secret {piece.name} is not in the work directory")
        wrong, stale = await self._difference(ctx)
        if not wrong and not stale:
            return Check(True)
        reasons = [f"{file.path} is missing or differs" for file in wrong]
        reasons += [f"{path} is no longer wanted" for path in stale]
        diffs = [await self._diff(ctx, file) for file in wrong if not file.secret]
        return Check(False, reason="; ".join(reasons), diff="\n".join(filter(None, diffs)))

    async def run(self, ctx: StepContext) -> None:
        """Writes what differs and removes what is no longer wanted."""
        wrong, stale = await self._difference(ctx)
        new = [NewFile(path=file.path, content=_content(ctx, file), mode=_mode(file)) for file in wrong]
        await ctx.host.files.write_all(new, snapshot=snapshot(ctx))
        for path in stale:
            await ctx.host.files.remove(path, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore_below(ctx, CERTS)

    def reads(self) -> Resources:
        """The files, and the secrets in them."""
        secrets = {piece.name for file in self.files for piece in file.pieces if isinstance(piece, SecretRef)}
        return self.writes() | resources(*(f"secret:{name}" for name in secrets))

    def writes(self) -> Resources:
        """The directory of such files."""
        return resources(f"file:{CERTS}/*")

    def describe(self) -> str:
        """The registries."""
        names = ", ".join(dict.fromkeys(file.path.parent.name for file in self.files))
        return f"registries {names}" if names else "registries as they are by default"

    async def _difference(self, ctx: StepContext) -> tuple[list[RegistryFile], list[PurePosixPath]]:
        script = _LOOK.format(certs=shell(CERTS), mark=shell(MARK))
        lines = (await ctx.host.command.read(script, display="look at registries' settings")).text.splitlines()
        found = {PurePosixPath(match["path"]): match for line in lines if (match := _FOUND.fullmatch(line))}
        wrong = []
        for file in self.files:
            known = found.get(file.path)
            state = (known["sha256"], int(known["mode"], 8)) if known else None
            if state != (sha256_of(_content(ctx, file)), _mode(file)):
                wrong.append(file)
        wanted = {file.path for file in self.files}
        return wrong, sorted(path for path, match in found.items() if match["ours"] == "ours" and path not in wanted)

    async def _diff(self, ctx: StepContext, file: RegistryFile) -> str:
        content = _content(ctx, file)
        old = await look_at(ctx.host, file.path, sha256=sha256_of(content))
        known = old.kind == "absent" or old.content is not None
        return unified(file.path, old.content, content) if known else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAnswers(Step):
    """The container runtime answers over CRI and calls itself ready."""

    settle: ClassVar[float] = 60.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks it."""
        result = await ctx.host.command.read("crictl info -o json 2>&1", check=False, display="crictl info", within=20)
        if not result.ok:
            lines = result.text.strip().splitlines()
            return Check(False, reason=f"crictl info: {lines[-1][:300] if lines else 'no answer'}")
        reason = _not_ready(result.text)
        return Check(False, reason=reason) if reason else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Waits: it was started, and comes up in its own time."""

    def reads(self) -> Resources:
        """The runtime."""
        return resources("unit:containerd.service", "asset:crictl", "file:/etc/crictl.yaml")

    def writes(self) -> Resources:
        """Nothing."""
        return frozenset()

    def describe(self) -> str:
        """In words."""
        return "the container runtime answers"


def _not_ready(text: str) -> str:
    """Why the runtime is not ready, from what it says of itself; the network comes later and does not count."""
    start = text.find("{")
    try:
        conditions = json.loads(text[start:])["status"]["conditions"]
        ready = next(condition for condition in conditions if condition["type"] == "RuntimeReady")
    except (ValueError, KeyError, TypeError, StopIteration):
        return "crictl info says nothing about RuntimeReady"
    return (
        ""
        if ready["status"]
        else f"RuntimeReady is false: {ready.get('reason', '')} {ready.get('message', '')}".strip()
    )


def _content(ctx: StepContext, file: RegistryFile) -> bytes:
    texts = (ctx.secret(piece).reveal() if isinstance(piece, SecretRef) else piece for piece in file.pieces)
    return "".join(texts).encode()


def _mode(file: RegistryFile) -> int:
    return 0o600 if file.secret and file.path.name == "hosts.toml" else 0o644
