"""This machine as two hosts of a cluster, with everything kubexm keeps on hosts in a directory of the test."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import ConnectionPool, LocalConnector
from kubexm.pipeline import PIPELINES
from kubexm.runner import Runner
from kubexm.runtime import builder
from tests.unit.runtime.clusters import cluster_file
from tests.unit.service.work import CLUSTER


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cluster.yaml; the pipelines `work`, `marked` and `idle` exist while the test runs."""

    def here(pool: ConnectionPool, host: str, *_: object, **__: object) -> LocalConnector:
        store = PurePosixPath(tmp_path / "receipts")
        found = pool._connectors.setdefault(host, LocalConnector(host, store=store))
        assert isinstance(found, LocalConnector)
        return found

    monkeypatch.setattr(builder, "Runner", lambda: Runner(PurePosixPath(tmp_path / "state")))
    monkeypatch.setattr(ConnectionPool, "local", here)
    monkeypatch.setattr(ConnectionPool, "connector", here)
    monkeypatch.setitem(PIPELINES, "work", "tests.unit.service.work:WorkPipeline")
    monkeypatch.setitem(PIPELINES, "marked", "tests.unit.service.work:MarkedPipeline")
    monkeypatch.setitem(PIPELINES, "idle", "tests.unit.service.work:IdlePipeline")
    (tmp_path / "root").mkdir()
    (tmp_path / "conf").mkdir()
    return cluster_file(tmp_path / "conf", CLUSTER)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the pipeline `work` puts its files."""
    return tmp_path / "root"
