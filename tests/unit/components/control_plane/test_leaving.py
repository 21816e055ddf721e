"""How long an API server that shuts down keeps serving, and when it is killed."""

from __future__ import annotations

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane import api_server, shutdown_delay, stop_timeout
from kubexm.errors import ConfigError


def cluster(control_planes: int = 3, workers: int = 2, endpoint: str = "{}", args: str = "{}") -> Cluster:
    return config.loads(
        f"""\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: test}}
spec:
  hosts:
    - {{name: "cp[1:{control_planes}]", address: "10.0.0.[1:{control_planes}]"}}
    - {{name: "w[1:{workers}]", address: "10.1.0.[1:{workers}]"}}
  roleGroups:
    etcd: [cp1]
    controlPlane: ["cp[1:{control_planes}]"]
    worker: ["w[1:{workers}]"]
  controlPlaneEndpoint: {endpoint}
  kubernetes: {{apiServer: {{extraArgs: {args}}}}}
""",
        name="test.yaml",
    ).cluster


@pytest.mark.parametrize(("workers", "delay"), [(1, 4), (50, 4), (51, 6), (200, 6), (201, 10)])
def test_it_serves_until_every_balancer_has_noticed(workers: int, delay: int) -> None:
    found = cluster(workers=workers)
    assert api_server(found).added["shutdown-delay-duration"] == f"{delay}s"
    assert api_server(found).added["goaway-chance"] == "0.001"
    assert stop_timeout(found) == delay + 65


def test_a_single_one_leaves_at_once() -> None:
    found = cluster(control_planes=1)
    assert not {"shutdown-delay-duration", "goaway-chance"} & set(api_server(found).added)
    assert stop_timeout(found) == 65


def test_the_delay_for_an_external_balancer_is_in_the_file() -> None:
    external = "{loadBalancer: external, address: 10.9.9.9%s}"
    assert shutdown_delay(cluster(endpoint=external % "")) == 10
    assert shutdown_delay(cluster(endpoint=external % ", shutdownDelay: 25s")) == 25
    with pytest.raises(ConfigError, match="longer than 5m"):
        cluster(endpoint=external % ", shutdownDelay: 6m")


@pytest.mark.parametrize(("given", "delay"), [("70s", 70), ("1m0.5s", 60)])
def test_the_users_own_argument_wins(given: str, delay: int) -> None:
    found = cluster(args=f"{{shutdown-delay-duration: {given}}}")
    assert api_server(found).whole()["shutdown-delay-duration"] == (given,)
    assert stop_timeout(found) in (delay + 65, delay + 66)
