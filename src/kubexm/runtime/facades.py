"""Four views of the context, one for each layer: a step cannot see what a pipeline can, and the other way round.

The upper three plan and touch no host; only StepContext reaches one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kubexm.apis.v1alpha1 import Cluster
from kubexm.cache import Key, StepCache
from kubexm.connector import Host
from kubexm.errors import AssetError
from kubexm.redact import Secret, SecretRef
from kubexm.runner import Facts, Intent
from kubexm.runtime.assets import AssetShelf
from kubexm.runtime.host import HostRuntime
from kubexm.runtime.reach import WHOLE_CLUSTER
from kubexm.runtime.secrets import Secrets
from kubexm.runtime.sources import LocalFile, verified
from kubexm.runtime.unit import UnitConnector

if TYPE_CHECKING:
    from kubexm.runtime.context import Context

__all__ = ["ModuleContext", "PipelineContext", "StepContext", "TaskContext"]

T = TypeVar("T")


class PipelineContext:
    """What a pipeline plans from: the cluster, and who its hosts are."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def cluster(self) -> Cluster:
        """The user's file, with every default."""
        return self._context.cluster

    @property
    def logger(self) -> logging.Logger:
        """Where planning may say something."""
        return self._context.logger

    @property
    def cluster_uid(self) -> str:
        """The UID its hosts carry, if it was made from this work directory; empty before there is one."""
        return self._context.work_dir.cluster_uid

    @property
    def intent(self) -> Intent | None:
        """The operation of this cluster that is under way, as its hosts record it; None if there is none."""
        for name, host in self._context.host_runtimes.items():
            seen = self._context.facts_trace.view(name, host.facts).intent
            if seen is not None:  # a plan that was made from it does not fit another one
                _ = (seen.token, seen.open)
        return self._context.open_intent

    @property
    def control_node(self) -> Host:
        """This machine, for work that is done once and locally."""
        return self._context.control_node

    @property
    def whole_cluster(self) -> Host:
        """What a node is `on` that concerns no single host; it acts `via` one of several."""
        return Host(name=WHOLE_CLUSTER, address="")

    def hosts(self, role: str | None = None) -> tuple[Host, ...]:
        """The cluster's hosts (of one role), in the order of the file."""
        return tuple(host for host in self._context.hosts if role is None or role in host.roles)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Every host a node may be for, the control node and the cluster as a whole included."""
        return (*(host.name for host in self._context.hosts), self.control_node.name, WHOLE_CLUSTER)

    def for_module(self) -> ModuleContext:
        """The view for modules."""
        return ModuleContext(self._context)


class ModuleContext(PipelineContext):
    """What a module plans from."""

    def for_task(self) -> TaskContext:
        """The view for tasks."""
        return TaskContext(self._context)


class TaskContext(ModuleContext):
    """What a task decides from: config, hosts, and their facts. Notes which facts it was asked for."""

    def facts(self, host: Host) -> Facts:
        """The host's facts, or the documented assumption where it was not reached."""
        return self._context.facts_trace.view(host.name, self._context.facts_of(host.name))

    @property
    def assets(self) -> AssetShelf:
        """What is known of the cluster's files and images: names, places, and sums where a bundle is at hand."""
        return self._context.assets

    @property
    def work_dir(self) -> str:
        """The cluster's directory on the control node, for planning local paths."""
        return str(self._context.work_dir.path)

    def local_path(self, written: str) -> str:
        """A path as it stands in the user's file, as an absolute path on this machine."""
        return str((self._context.base_dir / Path(written).expanduser()).absolute())


class StepContext:
    """What a step acts with: its host, the values others produced, secrets by name. Nothing of the plan."""

    __slots__ = (
        "_cache",
        "_cache_of",
        "_connector",
        "_context",
        "_host",
        "_runtime",
        "_secrets_of",
        "_sources",
        "node",
        "run",
        "subject",
        "warnings",
    )

    def __init__(
        self,
        context: Context,
        node: str,
        runtime: HostRuntime,
        connector: UnitConnector,
        run: str,
        *,
        subject: str = "",
        cache: Callable[[], StepCache] | None = None,
        secrets: Callable[[], Secrets] | None = None,
        sources: Callable[[], Collection[LocalFile]] | None = None,
    ) -> None:
        """`cache`, `secrets` and `sources`: what this attempt was given; without them, all that the context has."""
        self._context = context
        self._cache_of = cache
        self._secrets_of = secrets
        self._sources = sources
        self._connector = connector
        self._runtime = runtime
        self._host: HostRuntime | None = None
        self._cache: StepCache | None = None
        self.node = node
        self.run = run
        self.subject = subject or runtime.name
        """The name of the host, or of the cluster, that the step is about; `host` is where it acts from."""
        self.warnings: list[str] = []

    @property
    def host(self) -> HostRuntime:
        """The host, and what can be done to it in this attempt."""
        if self._host is None:
            self._host = self._runtime.through(self._connector)
        return self._host

    @property
    def logger(self) -> logging.Logger:
        """A logger of this node and host."""
        return self._context.logger.getChild(f"{self.node}.{self.host.name}")

    @property
    def facts(self) -> Facts:
        """The host's facts as of the start of the run."""
        return self.host.facts

    def facts_of(self, host: str) -> Facts:
        """Another host's facts."""
        return self._context.facts_of(host)

    @property
    def cache(self) -> StepCache:
        """What this step can see: its own values, then its task's, its module's and the pipeline's."""
        if self._cache is None:
            self._cache = self._context.caches.step(self.node) if self._cache_of is None else self._cache_of()
        return self._cache

    def value(self, key: Key[T]) -> T:
        """A value produced upstream: the subject's for a per-host key."""
        return self.cache.get(key, self.subject)

    def has(self, key: Key[Any]) -> bool:
        """True if the value is there: prechecks of consumers run without what is produced on demand."""
        return (key, self.subject) in self.cache

    def values(self, key: Key[T]) -> Mapping[str, T]:
        """Every host's value of a per-host key."""
        return self.cache.by_host(key)

    @property
    def assets(self) -> AssetShelf:
        """The bytes of the cluster's files and images."""
        return self._context.assets

    @property
    def _secrets(self) -> Secrets:
        return self._context.secrets if self._secrets_of is None else self._secrets_of()

    def secret(self, ref: SecretRef) -> Secret:
        """A secret by its name."""
        return self._secrets.get(ref)

    def has_secret(self, ref: SecretRef) -> bool:
        """True if the secret was made: steps that read it ahead of its maker do so without it."""
        return ref in self._secrets

    def keep(self, secrets: Mapping[str, Secret]) -> None:
        """Keeps secrets in the work directory under these names, each replacing an older one whole."""
        self._secrets.put_all(secrets)

    def source(self, path: str, sha256: str) -> Path:
        """A local file that the step declared, as it was when planned; AssetError if it is not any more."""
        if self._sources is not None and LocalFile(path, sha256) not in self._sources():
            raise AssetError(f"{self.node} reads {path}, which its step does not declare", hint="this is a bug")
        return verified(path, sha256)

    @property
    def work_dir(self) -> Path:
        """The cluster's directory on this machine, for steps of the control node."""
        return self._context.work_dir.path

    @property
    def cluster_text(self) -> str:
        """The user's file as it was read; it may hold secrets."""
        return self._context.cluster_text

    @property
    def cluster_uid(self) -> str:
        """The cluster's UID, as the work directory has it now; empty before there is one."""
        return self._context.work_dir.cluster_uid

    def renew(self) -> None:
        """Begins another call with the same host: forgets values and warnings of the last one."""
        self._cache = None
        self.warnings = []

    def warn(self, message: str) -> None:
        """Something the user should know, though the step succeeds."""
        self.warnings.append(self._context.redactor(message))
