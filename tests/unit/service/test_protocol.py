"""A service on this machine and one on a server are the same to whoever uses them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kubexm.cli.remote.runs import RemoteRun
from kubexm.cli.remote.service import RemoteService
from kubexm.service import ClusterService, RunView, Service
from kubexm.service.local_runs import LocalRun


def _services(here: ClusterService, there: RemoteService) -> tuple[Service, Service]:
    """The type checker proves it; nobody calls this."""
    return here, there


def _runs(here: LocalRun, there: RemoteRun) -> tuple[RunView, RunView]:
    return here, there


@pytest.mark.parametrize("kind", [ClusterService, RemoteService])
def test_both_take_the_same_arguments(kind: Any) -> None:
    methods = [name for name, each in vars(Service).items() if inspect.isfunction(each) and name[0] != "_"]
    assert {"facts", "plan", "run", "apply", "find", "latest", "kubeconfig"} <= set(methods)
    for name in methods:
        wanted = list(inspect.signature(getattr(Service, name)).parameters)
        assert list(inspect.signature(getattr(kind, name)).parameters) == wanted, name
