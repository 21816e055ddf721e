"""Helm charts from files of this machine, installed by helm on a control plane.

What it leaves there: the packed chart in /var/lib/kubexm/addons, and helm's caches in /run/kubexm/helm. Values go over
stdin and are kept nowhere but in the release itself, which helm keeps as a Secret in the cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from kubexm.components.addons.sources import SourceFile, local_files, read_chart, read_source
from kubexm.components.api import ADMIN_CONF, Kubectl, is_transient, note_group, yaml_documents
from kubexm.connector import CommandResult
from kubexm.connector.base import shell
from kubexm.errors import CommandError, KubexmError
from kubexm.runner import STATE
from kubexm.runtime import LocalFile, StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import restore, snapshot

__all__ = ["GROUP", "ChartInstalled", "ChartPlaced", "chart_path", "helm", "uninstall"]

GROUP: Final = "chart"
_HOMES: Final = "/run/kubexm/helm"
_NOTE: Final = "kubexm"


def chart_path(name: str) -> PurePosixPath:
    """Where a control plane has the chart of an addon."""
    return STATE / "addons" / f"{name}.tgz"


def helm(*words: str) -> str:
    """A command line for helm as the cluster's administrator."""
    homes = " ".join(f"HELM_{kind}_HOME={_HOMES}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA"))
    return f"{homes} KUBECONFIG={ADMIN_CONF} {shell('helm', *words)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPlaced(Step):
    """The packed chart is on this host."""

    name: str
    source: str
    sha256: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares by digest."""
        same = await ctx.host.files.matches(chart_path(self.name), sha256=self.sha256, mode=0o600)
        return Check(True) if same else Check(False, reason="it is not there, or differs")

    async def run(self, ctx: StepContext) -> None:
        """Packs it if it is a directory, and sends it."""
        content = read_chart(self.source, self.sha256, ctx.source)
        await ctx.host.files.write(chart_path(self.name), content, mode=0o600, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, chart_path(self.name))

    def reads(self) -> Resources:
        """The file."""
        return resources(f"file:{chart_path(self.name)}")

    def writes(self) -> Resources:
        """The file."""
        return resources(f"file:{chart_path(self.name)}")

    def sources(self) -> tuple[LocalFile, ...]:
        """The chart."""
        return (LocalFile(self.source, self.sha256),)

    def describe(self) -> str:
        """Which chart."""
        return f"chart of {self.name} from {self.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartInstalled(Step):
    """The release is deployed from this chart with these values, and nobody deployed it otherwise since."""

    name: str
    """Of the addon."""
    release: str
    namespace: str
    chart: str
    """sha256 of the packed chart."""
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    files: tuple[SourceFile, ...] = ()
    """Files of values; later ones win, and `values` win over all."""
    wait: float | None = None
    """Seconds to wait until its workloads are ready."""
    patience: float = 120.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks helm for the last revision: its description says what it was made from."""
        last = await _last_revision(ctx, self.release, self.namespace)
        if last is None:
            return Check(False, reason="it is not installed yet")
        if last["status"] != "deployed":
            return Check(False, reason=f"revision {last['revision']} is {last['status']}")
        if last["description"] != self._note():
            return Check(False, reason=f"revision {last['revision']} was made from another chart or other values")
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Installs or upgrades it; what an interrupted helm left half done is forgotten first."""
        last = await _last_revision(ctx, self.release, self.namespace)
        kubectl = Kubectl(ctx.host)
        if last is not None and str(last["status"]).startswith("pending"):
            secret = f"sh.helm.release.v1.{self.release}.v{last['revision']}"
            words = ("delete", "secret", "-n", self.namespace, secret, "--ignore-not-found")
            await kubectl.change(*words, patience=self.patience, display="forget a half-done revision")
        await note_group(ctx, self.name, GROUP, self.namespace, self.release, patience=self.patience)
        words = ("upgrade", "--install", self.release, str(chart_path(self.name)), "--namespace", self.namespace)
        limit = self.wait or 300.0
        more = (f"--timeout={limit:.0f}s", *(("--wait",) if self.wait else ()))
        result = await ctx.host.command.run(
            helm(
                *words, "--create-namespace", "--description", self._note(), f"--timeout={limit:.0f}s", *more, "-f", "-"
            ),
            stdin=json.dumps(self._merged(ctx.source)).encode(),
            within=limit + 120,
            long=True,
            check=False,
            display=f"helm upgrade --install {self.release}",
        )
        if not result.ok:
            raise _error(ctx, result, f"`helm -n {self.namespace} status {self.release}` on {ctx.host.name} tells more")

    async def rollback(self, ctx: StepContext) -> None:
        """Goes back to the revision before, or removes the release if this was the first."""
        last = await _last_revision(ctx, self.release, self.namespace)
        if last is None or last["description"] != self._note():
            return
        if last["revision"] > 1:
            words = ("rollback", self.release, str(last["revision"] - 1), "--namespace", self.namespace)
            await ctx.host.command.run(helm(*words), long=True, display=f"helm rollback {self.release}")
        else:
            await uninstall(ctx, self.release, self.namespace)

    def reads(self) -> Resources:
        """The release."""
        return resources(f"api:{self.name}")

    def writes(self) -> Resources:
        """The release."""
        return resources(f"api:{self.name}")

    def sources(self) -> tuple[LocalFile, ...]:
        """Files of values."""
        return local_files(self.files)

    def describe(self) -> str:
        """Which release."""
        return f"helm release {self.namespace}/{self.release}"

    def _note(self) -> str:
        """What the release is made from; files count by what they are, not by their names."""
        made_from = [self.chart, dict(self.values), [file.sha256 for file in self.files]]
        digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
        return f"{_NOTE} {digest[:32]}"

    def _merged(self, found: Callable[[str, str], Path]) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for source in self.files:
            for document in yaml_documents(read_source(source, found).decode(), source.path):
                if document is not None and not isinstance(document, dict):
                    raise KubexmError(f"{source.path}: values are a mapping", hint="write them as `key: value`")
                whole = _over(whole, document or {})
        return _over(whole, self.values)


async def uninstall(ctx: StepContext, release: str, namespace: str) -> None:
    """Removes a release; fine if there is none."""
    words = ("uninstall", release, "--namespace", namespace, "--ignore-not-found")
    result = await ctx.host.command.run(helm(*words), long=True, check=False, display=f"helm uninstall {release}")
    if not result.ok:
        raise _error(ctx, result, f"remove it by hand: `helm -n {namespace} uninstall {release}`")


async def _last_revision(ctx: StepContext, release: str, namespace: str) -> dict[str, Any] | None:
    """The newest revision; None if there is no release, or nobody to ask."""
    result = await ctx.host.command.read(
        helm("history", release, "--namespace", namespace, "--max", "1", "-o", "json"),
        check=False,
        display=f"helm history {release}",
    )
    if result.ok:
        found: list[dict[str, Any]] = json.loads(result.text or "[]")
        return found[-1] if found else None
    text = result.error_text
    if "not found" in text or "admin.conf" in text or result.exit_code == 127 or is_transient(result):
        return None
    raise _error(ctx, result, "")


def _over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """As helm lays values over each other: mappings go deep, a null stays, since it takes away the chart's default."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = _over(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return result


def _error(ctx: StepContext, result: CommandResult, hint: str) -> CommandError:
    return CommandError(
        host=ctx.host.name,
        command=result.command,
        exit_code=result.exit_code,
        stdout=result.text,
        stderr=result.error_text,
        hint=hint,
    )
