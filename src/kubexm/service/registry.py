"""The clusters a server looks after: their specs, secrets and files. What comes in is checked before it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubexm.config import ConfigErrors, Problem
from kubexm.config.remote import FILE_NAME
from kubexm.errors import ConfigError, ConflictError, NotFoundError, UsageError
from kubexm.redact import Secret
from kubexm.service.checking import Checked, SpecChecker
from kubexm.service.places import Places
from kubexm.store.clusters import ClusterRecord
from kubexm.store.store import Store

__all__ = ["Limits", "Missing", "Registry"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one cluster may have uploaded."""

    file: int = 8 * 2**20
    files: int = 64 * 2**20
    secret: int = 64 * 2**10
    secrets: int = 500


@dataclass(frozen=True, slots=True)
class Missing:
    """What a spec names and nobody has uploaded yet."""

    secrets: tuple[str, ...]
    files: tuple[str, ...]


class Registry:
    """Registers, edits and removes clusters."""

    def __init__(
        self, store: Store, places: Places, limits: Limits | None = None, checker: SpecChecker | None = None
    ) -> None:
        self._store = store
        self._places = places
        self.limits = limits or Limits()
        self._checker = checker or SpecChecker()

    async def close(self) -> None:
        """Ends the processes that check specs."""
        await self._checker.close()

    # Specs

    async def validate(self, text: str, *, who: str = "") -> Checked:
        """A spec; ConfigErrors with everything that is wrong, and everything a server refuses."""
        return await self._checker.check(text, who=who)

    async def register(
        self,
        text: str,
        *,
        by: str,
        note: str = "",
        secrets: Mapping[str, Secret] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> ClusterRecord:
        """A new cluster, with what its spec names; all of it or nothing."""
        name = (await self.validate(text, who=by)).name
        for key, secret in (secrets or {}).items():
            self._check_secret(key, secret)
        for key, content in (files or {}).items():
            self._check_file(key, content)
        if sum(map(len, (files or {}).values())) > self.limits.files:
            raise self._too_much()
        made = await self._store.clusters.add(name, text, by=by, note=note)
        try:
            for key, secret in (secrets or {}).items():
                await self._store.vault.put_secret(name, key, secret, by=by)
            for key, content in (files or {}).items():
                await self._store.vault.put_file(name, key, content, by=by)
        except BaseException:
            await self._store.clusters.remove(name)
            raise
        return made

    async def edit(self, name: str, text: str, *, by: str, note: str = "", on: int | None = None) -> ClusterRecord:
        """A further version of a spec; ConflictError while a task changes the cluster."""
        checked = await self.validate(text, who=by)
        if checked.name != name:
            raise _renamed(text, checked.name, name)
        await self._refuse_if_busy(name)
        found = await self.differences(name, text, who=by)
        return await self._store.clusters.edit(name, text, found, by=by, note=note, on=on)

    async def differences(self, name: str, text: str, *, who: str = "") -> list[dict[str, Any]]:
        """What differs between the newest spec and this one, and what may be done about each."""
        old = (await self._store.clusters.spec(name)).text
        return [dict(each) for each in (await self._checker.check(text, old=old, who=who)).edits]

    async def remove(self, name: str, *, force: bool = False) -> None:
        """Forgets a cluster. Not one that still exists on its hosts, unless `force` says so."""
        cluster = await self._store.clusters.get(name)
        await self._refuse_if_busy(name)
        if cluster.state != "registered" and not force:
            raise ConflictError(
                f"{name} still exists on its hosts ({cluster.state})",
                hint="delete it there first (POST …/delete); force=true forgets it all the same",
            )
        await self._store.clusters.remove(name)

    async def missing(self, name: str) -> Missing:
        """What the newest spec names and was not uploaded."""
        named = await self._checker.check((await self._store.clusters.spec(name)).text, sent=False)
        secrets = {each.name for each in await self._store.vault.secrets(name)}
        files = {each.name for each in await self._store.vault.files(name)} | self.bundles()
        return Missing(tuple(sorted(named.secrets - secrets)), tuple(sorted(named.files - files)))

    async def refuse_missing(self, name: str) -> None:
        """A spec may be registered before what it names is there; a task needs it all."""
        found = await self.missing(name)
        words = [f"secret {each}" for each in found.secrets] + [f"file {each}" for each in found.files]
        if words:
            raise ConfigError(
                f"{name} names what was not uploaded: {', '.join(words)}",
                hint=f"PUT /api/v1/clusters/{name}/secrets/NAME or /files/NAME; bundles are put on the server",
            )

    def bundles(self) -> set[str]:
        """The bundles of this server, which every spec may name."""
        return {path.name for path in self._places.bundles.iterdir() if FILE_NAME.fullmatch(path.name)}

    # Secrets and files

    async def put_secret(self, cluster: str, name: str, secret: Secret, *, by: str) -> None:
        """Keeps a secret of a cluster."""
        await self._store.clusters.get(cluster)
        self._check_secret(name, secret)
        if len(await self._store.vault.secrets(cluster)) >= self.limits.secrets:
            raise UsageError(f"{cluster} has {self.limits.secrets} secrets", hint="remove some first")
        await self._store.vault.put_secret(cluster, name, secret, by=by)

    async def put_file(self, cluster: str, name: str, content: bytes, *, by: str) -> None:
        """Keeps a file of a cluster; ConflictError while a task changes the cluster."""
        await self._store.clusters.get(cluster)
        self._check_file(name, content)
        await self._refuse_if_busy(cluster)
        if await self._store.vault.size_of_files(cluster) + len(content) > self.limits.files:
            raise self._too_much()
        await self._store.vault.put_file(cluster, name, content, by=by)

    async def remove_file(self, cluster: str, name: str) -> None:
        """Forgets a file of a cluster; ConflictError while a task changes the cluster."""
        await self._refuse_if_busy(cluster)
        await self._store.vault.remove_file(cluster, name)

    async def kubeconfig(self, cluster: str) -> str:
        """The administrator's kubeconfig."""
        await self._store.clusters.get(cluster)
        path = self._places.work / cluster / "kubeconfig"
        try:
            return path.read_text("utf-8")
        except FileNotFoundError:
            raise NotFoundError(f"{cluster} has no kubeconfig yet", hint="it is made when the cluster is") from None

    async def _refuse_if_busy(self, name: str) -> None:
        writer = await self._store.tasks.writer(name)
        if writer is not None:
            raise ConflictError(
                f"task {writer.id} ({writer.action}, {writer.state}) is changing {name}",
                hint="wait for it to end, or cancel it",
                task=writer.id,
            )

    def _check_secret(self, name: str, secret: Secret) -> None:
        _check_name(name, "secret")
        value = secret.reveal()
        if not value:
            raise UsageError(f"the secret {name!r} is empty", hint="send its value")
        if "\0" in value:
            raise UsageError(
                f"the secret {name!r} contains a NUL character", hint="upload binary data as a file, and name that"
            )
        if len(value.encode("utf-8", "replace")) > self.limits.secret:
            raise UsageError(f"the secret {name!r} is too large", hint=f"at most {self.limits.secret} bytes")

    def _check_file(self, name: str, content: bytes) -> None:
        _check_name(name, "file")
        if name == "cluster.yaml":
            raise UsageError("the file cluster.yaml is the spec itself", hint="give the upload another name")
        if len(content) > self.limits.file:
            raise UsageError(f"the file {name!r} is too large", hint=f"at most {self.limits.file} bytes")

    def _too_much(self) -> UsageError:
        return UsageError("the files of one cluster are too large", hint=f"at most {self.limits.files} bytes together")


def _check_name(name: str, what: str) -> None:
    if FILE_NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is not a name for a {what}", hint="letters, digits, `.`, `_` and `-`, at most 128, no path"
        )


def _renamed(text: str, found: str, name: str) -> ConfigErrors:
    line = next((number for number, row in enumerate(text.splitlines(), 1) if found in row), 1)
    return ConfigErrors(
        [
            Problem(
                file="cluster.yaml",
                line=line,
                column=1,
                path="metadata.name",
                message=f"this is the spec of {found}, and the cluster is {name}",
                hint="a cluster keeps its name; register the other one by itself",
            )
        ]
    )
