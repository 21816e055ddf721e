"""ClusterService on a server: the same methods, which upload the file, ask for a task and watch it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubexm import config
from kubexm.cli.remote.address import ServerAddress
from kubexm.cli.remote.asking import Asking
from kubexm.cli.remote.following import follow, watched
from kubexm.cli.remote.runs import PAGE, RemoteRun, asked, info_of
from kubexm.config import Loaded
from kubexm.config.uploads import Upload, upload_of
from kubexm.errors import ConfigError, ConflictError, HostError, NotFoundError, PlanError, UsageError
from kubexm.pipeline import declared
from kubexm.plan import GraphExecutionResult, RunSpec, SavedPlan
from kubexm.runner import Facts
from kubexm.service import RunInfo, ServiceOptions, Watch
from kubexm.service.local_runs import chosen
from kubexm.service.reports import FactsReport, Planned
from kubexm.service.selection import choose_hosts

__all__ = ["RemoteService", "Uploaded"]

_WHAT = ("format", "pipeline", "options", "only", "skip")
"""What a plan says itself."""


class Uploaded:
    """What came of sending a file to a server."""

    def __init__(self, name: str, change: str, version: int) -> None:
        self.name = name
        self.change = change
        """registered, updated or unchanged."""
        self.version = version


class RemoteService:
    """What ClusterService does, done by a server."""

    is_remote = True

    def __init__(self, address: ServerAddress, options: ServiceOptions) -> None:
        self.address = address
        self._options = options

    def asking(self) -> Asking:
        """For whoever asks something by themselves."""
        return Asking(self.address)

    # The cluster

    async def upload(self, file: Path) -> Uploaded:
        """Registers the cluster of the file, or brings the server's spec, secrets and files to what the file says."""
        async with self.asking() as asking:
            return await self._uploaded(asking, file)

    async def _uploaded(self, asking: Asking, file: Path) -> Uploaded:
        loaded = self._load(file)
        ready = await asyncio.to_thread(upload_of, loaded, self._options.ask)  # it may ask the person at the terminal
        await self._refuse_bundles(asking, ready)
        try:
            known = await asking.get(f"clusters/{ready.name}/spec")
        except NotFoundError:
            known = None
        if known is None:
            secrets = {name: secret.reveal() for name, secret in ready.secrets.items()}
            made = await asking.post("clusters", {"spec": ready.text, "secrets": secrets})
            await self._put_files(asking, ready, {})
            return Uploaded(ready.name, "registered", made["version"])
        for name, secret in ready.secrets.items():
            await asking.put(f"clusters/{ready.name}/secrets/{name}", {"value": secret.reveal()})
        there = {each["name"]: each["size"] for each in await asking.get(f"clusters/{ready.name}/files")}
        await self._put_files(asking, ready, there)
        if known["text"] == ready.text:
            return Uploaded(ready.name, "unchanged", known["version"])
        body = {"spec": ready.text, "version": known["version"]}
        edited = (await asking.send("PUT", f"clusters/{ready.name}/spec", json=body)).json()
        return Uploaded(ready.name, "updated", edited["version"])

    @staticmethod
    async def _put_files(asking: Asking, ready: Upload, there: dict[str, int]) -> None:
        for name, content in ready.files.items():
            try:
                await asking.put(f"clusters/{ready.name}/files/{name}", content)
            except ConflictError:  # a task is at work with what there is; looking on is still allowed
                if there.get(name) != len(content):
                    raise

    async def _refuse_bundles(self, asking: Asking, ready: Upload) -> None:
        if not ready.bundles:
            return
        there = {each["name"] for each in await asking.get("bundles")}
        if missing := sorted(ready.bundles - there):
            raise ConfigError(
                f"{self.address.url} has no bundle {', '.join(missing)}: bundles are too large to be sent along",
                hint="copy it into the directory `bundles` of the server's data directory",
            )

    def _load(self, file: Path) -> Loaded:
        loaded = config.load(file)
        for warning in loaded.warnings:
            text = ": ".join(part for part in (warning.place, warning.path, warning.message) if part)
            self._options.logger.warning("%s%s", text, f" ({warning.hint})" if warning.hint else "")
        return loaded

    # Looking

    async def facts(self, file: Path, *, roles: Sequence[str] = (), limit: Sequence[str] = ()) -> FactsReport:
        """The facts of the hosts, gathered now."""
        chosen = choose_hosts(config.load(file).cluster, roles, limit)
        async with self.asking() as asking:
            name = (await self._uploaded(asking, file)).name
            await watched(asking, await asking.post(f"clusters/{name}/facts"))
            found = {each["host"]: each for each in await asking.get(f"clusters/{name}/facts")}
        wanted = [found[host] for host in chosen if host in found] if chosen is not None else list(found.values())
        return FactsReport(
            {each["host"]: Facts.from_dict(each["facts"]) for each in wanted if not each["error"]},
            {each["host"]: HostError(each["error"], host=each["host"]) for each in wanted if each["error"]},
        )

    def kubeconfig(self, file: Path) -> str:
        """The administrator's kubeconfig of the cluster."""
        name = config.load(file).cluster.name

        async def take() -> str:
            async with self.asking() as asking:
                return (await asking.send("GET", f"clusters/{name}/kubeconfig")).text

        return asyncio.run(take())

    # Planning

    async def plan(self, file: Path, spec: RunSpec, *, offline: bool = False) -> Planned:
        """The plan, made by the server and kept there."""
        body = {**spec.to_json(), "offline": offline}
        async with self.asking() as asking:
            name = (await self._uploaded(asking, file)).name
            task = await watched(asking, await asking.post(f"clusters/{name}/plan", body))
            content = (await asking.send("GET", f"plans/{task['plan']}/file")).content
        return Planned(_loaded(content), {})

    # Running

    async def run(self, file: Path, spec: RunSpec, watch: Watch | None = None) -> GraphExecutionResult:
        """Has the server plan and execute what the spec asks for, and watches it."""
        watch = watch or Watch()
        async with self.asking() as asking:
            name = (await self._uploaded(asking, file)).name
            confirmed = {"confirm": name} if declared(spec.pipeline).confirms else {}  # at the terminal, before
            task = await asking.post(f"clusters/{name}/run", {**spec.to_json(), **confirmed})
            return await follow(asking, task, watch.observers, watch.cancellation)

    async def apply(
        self, saved: Path, how: RunSpec | None = None, watch: Watch | None = None, *, file: Path | None = None
    ) -> GraphExecutionResult:
        """Has the server run a plan it made, if it still has it exactly as it is here."""
        content, plan = await asyncio.to_thread(saved.read_bytes), SavedPlan.load(saved)
        watch, how = watch or Watch(), how or plan.spec
        async with self.asking() as asking:
            name = await self._same_plan(asking, plan, content)
            body = {name: value for name, value in how.to_json().items() if name not in _WHAT}
            task = await asking.post(f"plans/{name}/apply", body)
            return await follow(asking, task, watch.observers, watch.cancellation)

    async def _same_plan(self, asking: Asking, plan: SavedPlan, content: bytes) -> str:
        cursor: dict[str, str] = {}
        while True:
            page = await asking.get(f"clusters/{plan.cluster}/plans", **cursor)
            for each in page["items"]:
                if each["digest"] == plan.graph.digest:
                    kept = (await asking.send("GET", f"plans/{each['id']}/file")).content
                    if kept == content:
                        return str(each["id"])
            if not page["next"]:
                raise PlanError(
                    f"{self.address.url} has no such plan of {plan.cluster}: it was made elsewhere, or is gone",
                    hint="make it there: `kubexm --server … plan --save`",
                )
            cursor = {"cursor": page["next"]}

    async def resume(self, run: str, watch: Watch, *, rollback: bool = False) -> GraphExecutionResult:
        """Has the server continue a task."""
        if rollback:
            raise UsageError("a task on a server is resumed as it was asked for", hint="leave out --rollback")
        async with self.asking() as asking:
            task = await asking.post(f"tasks/{run}/resume")
            return await follow(asking, task, watch.observers, watch.cancellation)

    # Runs

    def latest(self, file: Path | None, most: int) -> list[RunInfo]:
        """Tasks of the server, the latest first."""
        return [info_of(task) for task in self._tasks(file, most)]

    def find(self, run: str, file: Path | None = None) -> RemoteRun:
        """The task of this id, of the only id that starts so, or the last one."""
        if run != "last":
            with contextlib.suppress(NotFoundError):
                return RemoteRun(self, asked(self, lambda asking: asking.get(f"tasks/{run}")))
        tasks = {task["id"]: task for task in self._tasks(file, 1 if run == "last" else PAGE)}
        return RemoteRun(self, tasks[chosen(run, list(tasks), "`kubexm runs list` shows those of the server")])

    def _tasks(self, file: Path | None, most: int) -> list[dict[str, Any]]:
        cluster = {} if file is None else {"cluster": config.load(file).cluster.name}

        async def pages(asking: Asking) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            cursor: dict[str, str] = {}
            while True:
                page = await asking.get("tasks", limit=min(most, PAGE), **cluster, **cursor)
                found += page["items"]
                if len(found) >= most or not page["next"]:
                    return found[:most]
                cursor = {"cursor": page["next"]}

        return asked(self, pages)


def _loaded(content: bytes) -> SavedPlan:
    with tempfile.TemporaryDirectory(prefix="kubexm-") as directory:
        path = Path(directory) / "plan.kxp"
        path.write_bytes(content)
        return SavedPlan.load(path)
