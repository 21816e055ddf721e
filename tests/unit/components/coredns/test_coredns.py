"""CoreDNS's objects, and what it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubexm import config
from kubexm.components.coredns import CoreDns
from kubexm.components.coredns.manifests import coredns_objects, corefile, service_address
from kubexm.components.documents import yaml_stream
from kubexm.components.milestones import FIRST_NODES_READY
from kubexm.errors import PlanError
from tests.unit.components.api_plan import Up, api_graph, golden
from tests.unit.components.around import cluster, context_of

GOLDEN = Path(__file__).parent / "golden"
NAMES = """\
kubernetes: {dnsDomain: k8s.example}
dns:
  coredns:
    replicas: 3
    upstream: [9.9.9.9, "[2620:fe::fe]:53"]
    hosts: {db.example.com: 10.0.0.9, six.example.com: "fd00::9", www.example.com: web.example.org}
"""


def objects(more: str = "") -> dict[str, Any]:
    found = coredns_objects(config.loads(cluster(more), name="t").cluster, image="coredns:1")
    return {document["kind"]: document for document in found}


def test_the_whole_of_it() -> None:
    loaded = config.loads(cluster(), name="t").cluster
    golden(GOLDEN / "coredns.yaml", yaml_stream(coredns_objects(loaded, image="coredns:1")))


def test_names_and_servers_of_the_user() -> None:
    golden(GOLDEN / "Corefile", corefile(config.loads(cluster(NAMES), name="t").cluster))


def test_the_service_has_the_tenth_address() -> None:
    loaded = config.loads(cluster("network: {serviceCIDR: 10.32.0.0/24}"), name="t").cluster
    assert service_address(loaded) == "10.32.0.10"
    assert objects()["Service"]["spec"]["clusterIP"] == "10.96.0.10"


def test_more_pods_are_not_a_changed_configuration() -> None:
    few, many = objects()["Deployment"]["spec"], objects("dns: {coredns: {replicas: 5}}")["Deployment"]["spec"]
    assert (few["replicas"], many["replicas"]) == (2, 5)
    assert few["template"] == many["template"]
    assert few["template"] != objects(NAMES)["Deployment"]["spec"]["template"]


def test_a_name_that_is_none_is_refused() -> None:
    loaded = config.loads(cluster('dns: {coredns: {hosts: {"a } . { b": 10.0.0.1}}}'), name="t").cluster
    with pytest.raises(PlanError, match="is no name"):
        corefile(loaded)


def test_it_is_applied_once_there_are_nodes_to_spread_over(tmp_path: Path) -> None:
    node = api_graph(context_of(cluster(), tmp_path), Up, CoreDns).nodes["coredns.apply.manifests"]
    assert (node.via, node.needs) == (("cp1", "cp2", "cp3"), (FIRST_NODES_READY,))
