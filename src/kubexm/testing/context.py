"""A context with no machine behind it, for tests of steps, tasks, pipelines and engines."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kubexm import config
from kubexm.connector import Connector, Host
from kubexm.errors import HostError
from kubexm.redact import Redactor
from kubexm.runner import Facts, Runner
from kubexm.runtime import CONTROL_NODE, AssetShelf, Context, HostRuntime, SecretStore, WorkDir

__all__ = ["memory_context"]


def memory_context(
    work_dir: Path,
    connectors: Mapping[str, Connector],
    *,
    roles: Mapping[str, frozenset[str]] | None = None,
    facts: Mapping[str, Facts] | None = None,
    unreached: Mapping[str, HostError] | None = None,
    cluster: str = "",
    assets: AssetShelf | None = None,
) -> Context:
    """A context whose hosts are these connectors; one named `control-node` stands for this machine."""
    loaded = config.loads(cluster or _file(connectors), name="test.yaml")
    hosts = [
        Host(name=name, address=f"10.0.{index // 250}.{index % 250 + 1}", roles=(roles or {}).get(name, frozenset()))
        for index, name in enumerate([*connectors, *(unreached or {})])
        if name != CONTROL_NODE
    ]
    control = Host(name=CONTROL_NODE, address="127.0.0.1", local=True)
    runner = Runner()
    redactor = Redactor()
    directory = WorkDir(work_dir)
    directory.prepare()
    known = {host.name: host for host in (*hosts, control)}
    runtimes = {
        name: HostRuntime(
            known[name], connector, (facts or {}).get(name) or replace(Facts.assumed(), boot_id="boot-1"), runner
        )
        for name, connector in connectors.items()
    }
    return Context(
        cluster=loaded.cluster,
        hosts=tuple(hosts),
        control_node=control,
        host_runtimes=runtimes,
        unreached=unreached or {},
        runner=runner,
        pool=cast("Any", _NoPool()),
        logger=logging.getLogger("kubexm.testing"),
        work_dir=directory,
        redactor=redactor,
        secrets=SecretStore(directory.secrets, redactor),
        assets=assets or AssetShelf(loaded.cluster),
    )


class _NoPool:
    """In-memory hosts need no connections."""

    async def close(self) -> None:
        """Nothing to close."""


def _file(connectors: Mapping[str, Connector]) -> str:
    names = [name for name in connectors if name != CONTROL_NODE] or ["n1"]
    hosts = "\n".join(f"    - {{name: {name}, address: 10.0.{i // 250}.{i % 250 + 1}}}" for i, name in enumerate(names))
    return f"""\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: test}}
spec:
  hosts:
{hosts}
  roleGroups: {{etcd: [{names[0]}], controlPlane: [{names[0]}], worker: [{names[0]}]}}
"""
