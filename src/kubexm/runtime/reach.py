"""The way to each host of a file: who is asked for, and a connector for each. Connects to none of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from kubexm import config
from kubexm.apis.v1alpha1 import Host as HostEntry
from kubexm.config import Loaded
from kubexm.errors import ConfigError, UsageError
from kubexm.redact import Redactor
from kubexm.runtime.settings import SettingsReader

if TYPE_CHECKING:
    from kubexm.connector import ConnectionPool, Connector

__all__ = ["CONTROL_NODE", "WHOLE_CLUSTER", "connectors_of", "entries_of"]

CONTROL_NODE = "control-node"
WHOLE_CLUSTER = "cluster"
"""What steps are about that concern no single host; they act from one of several."""


def entries_of(loaded: Loaded, only: Collection[str] | None = None) -> list[HostEntry]:
    """The hosts of the file, or those of these names; raises if a name is not there, or is not to be had."""
    entries = list(loaded.cluster.hosts)
    names = [entry.name for entry in entries]
    if WHOLE_CLUSTER in names:
        raise ConfigError(
            f"{loaded.source.name}: no host can be called {WHOLE_CLUSTER}: that stands for the cluster as a whole",
            hint="rename the host",
        )
    if CONTROL_NODE in names:
        raise ConfigError(
            f"{loaded.source.name}: no host can be called {CONTROL_NODE}: that is the machine kubexm runs on",
            hint="give it another name; to make this machine a part of the cluster, say `type: local`",
        )
    if only is None:
        return entries
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise UsageError(
            f"no such host in {loaded.source.name}: {', '.join(unknown)}",
            hint="hosts there: " + ", ".join(names),
        )
    return [entry for entry in entries if entry.name in only]


def connectors_of(
    loaded: Loaded,
    entries: Iterable[HostEntry],
    pool: ConnectionPool,
    redactor: Redactor,
    *,
    ask: Callable[[str], str] | None = None,
    accept_new_host_keys: bool = False,
) -> dict[str, Connector]:
    """The connector of each; every secret that cannot be had is told at once."""
    reader = SettingsReader(
        loaded.source.directory,
        redactor,
        ask=ask,
        accept_new_host_keys=accept_new_host_keys,
        names=config.names_in(loaded.cluster),
    )
    connectors: dict[str, Connector] = {}
    refused: dict[str, ConfigError] = {}
    for entry in entries:
        try:
            if entry.type == "ssh":
                connectors[entry.name] = pool.connector(entry.name, reader.settings(entry))
            else:
                connectors[entry.name] = pool.local(entry.name, sudo_password=reader.sudo_password(entry))
        except ConfigError as error:
            refused[error.message] = error
    if len(refused) > 1:
        lines = [f"{text}\n    → {each.hint}" if each.hint else text for text, each in refused.items()]
        raise ConfigError("\n".join([f"{len(refused)} secrets cannot be had:", *(f"  {line}" for line in lines)]))
    if refused:
        raise next(iter(refused.values()))
    return connectors
