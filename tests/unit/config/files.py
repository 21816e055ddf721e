"""Cluster files for tests: the smallest valid one, and ways to change it."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from ruamel.yaml import YAML

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster

MINIMAL = """\
metadata: {name: demo}
spec:
  hosts: [{name: node1, address: 192.0.2.10}]
  roleGroups: {etcd: [node1], controlPlane: [node1], worker: [node1]}
"""

HA = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata:
  name: demo
spec:
  hosts:
    - {name: "cp[1:3]", address: "10.0.0.[11:13]"}
    - {name: "w[01:03]", address: "10.0.0.[21:23]"}
  roleGroups:
    etcd: ["cp[1:3]"]
    controlPlane: ["cp[1:3]"]
    worker: ["w[01:03]"]
"""


PINNED = "v1.34.4"
"""The Kubernetes version of plans that are compared with golden files, which the next default must not change."""


def pinned(text: str) -> str:
    """A file that names a Kubernetes version: its own, or the one of golden files."""
    document = data(text)
    document["spec"].setdefault("kubernetes", {}).setdefault("version", PINNED)
    return json.dumps(document)


def data(text: str = HA) -> dict[str, Any]:
    """A file as plain data."""
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return loaded


def merged(base: Any, change: Any) -> Any:
    """Mappings merged, everything else replaced."""
    if isinstance(base, dict) and isinstance(change, dict):
        return {key: merged(base.get(key), change[key]) if key in change else base[key] for key in {**base, **change}}
    return deepcopy(change)


def cluster(change: dict[str, Any] | None = None, *, base: str = HA) -> Cluster:
    """A cluster whose spec has been changed; rules are not checked."""
    return Cluster.model_validate(merged(data(base), {"spec": change or {}}), by_alias=True, by_name=False)


def problems(text: str) -> tuple[config.Problem, ...]:
    """Everything the loader says about a text, errors and warnings."""
    try:
        return config.loads(text, name="cluster.yaml").warnings
    except config.ConfigErrors as error:
        return (*error.problems, *error.warnings)


def spec(more: str, *, base: str = HA) -> str:
    """The file with more lines at the end of its spec."""
    return base + "".join(f"  {line}\n" if line else "\n" for line in more.splitlines())


def only(text: str) -> config.Problem:
    """The one problem a text has."""
    found = problems(text)
    assert len(found) == 1, "\n".join(problem.render() for problem in found)
    return found[0]
