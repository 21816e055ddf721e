"""Networks other than the usual one, each from bare hosts to a proven cluster and back: nothing of it stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import create, edit, kubectl, kubexm
from tests.cluster.host_snapshot import Snapshot, allowed_to_differ, take
from tests.cluster.marks import BUNDLE, LONG, PATIENT

MakeLab = Callable[..., Lab]
INTERFACE = "host0"

pytestmark = [LONG, PATIENT, BUNDLE]


@pytest.fixture
def pair(make_lab: MakeLab) -> Iterator[Lab]:
    """A control plane and a worker."""
    lab = make_lab(topology="1+1")
    yield lab
    lab.down()


def snapshots(lab: Lab) -> dict[str, Snapshot]:
    return {host.name: take(lab, host.name) for host in lab.hosts}


def assert_gone(lab: Lab, before: dict[str, Snapshot]) -> None:
    """Delete leaves nothing of it."""
    done = kubexm(lab.cluster_file, "delete", "cluster", "--yes")
    assert (done.exit_code, done.errors, done.warnings) == (0, {}, {}), done.stderr
    for name, was in before.items():
        assert was.differences(take(lab, name), allowed_to_differ()) == [], name


def sh(lab: Lab, host: str, script: str) -> str:
    return lab.run(host, "sh", "-c", script, timeout=120).strip()


def test_plain_routes_nftables_and_an_api_that_knows_everybody_by_name(pair: Lab) -> None:
    before = snapshots(pair)
    edit(
        pair.cluster_file,
        network={"flannel": {"backend": "host-gw"}},
        kubernetes={"kubeProxy": {"mode": "nftables"}, "apiServer": {"anonymousAccess": "none"}},
    )
    done = create(pair)
    assert done.states["verify.probe.workloads", "cluster"] == "succeeded"
    way = sh(pair, "n1", "ip -4 route show root 10.244.0.0/16")
    assert f"via {pair.host('n2').address} " in way, "the other node's pods, without a tunnel"
    assert "flannel.1" not in sh(pair, "n1", "ls /sys/class/net")
    assert "KUBE-SVC" not in sh(pair, "n2", "iptables-save")
    tables = kubectl(pair, "-n", "kube-system", "exec", "ds/kube-proxy", "--", "nft", "list", "tables")
    assert "table ip kube-proxy" in tables
    # The worker's balancer asks for health as nobody, is told 401, and must not take that for a server that is down.
    assert '"code": 401' in sh(pair, "n2", "curl -sk https://127.0.0.1:6443/readyz")
    assert "kubexm-haproxy" in sh(pair, "n2", "systemctl is-active kubexm-haproxy && echo kubexm-haproxy")
    assert create(pair).result["changed"] is False
    assert_gone(pair, before)


def test_both_ip_families(pair: Lab) -> None:
    hosts = []
    for number, host in enumerate(pair.hosts, start=1):
        address = f"fd00:aa::{number}"
        sh(pair, host.name, f"ip -6 address add {address}/64 dev {INTERFACE} nodad")
        hosts.append({"name": host.name, "address": str(host.address), "internalAddress": f"{host.address},{address}"})
    before = snapshots(pair)
    edit(
        pair.cluster_file,
        hosts=hosts,
        network={"podCIDR": "10.244.0.0/16,fd00:244::/56", "serviceCIDR": "10.96.0.0/16,fd00:96::/108"},
    )
    done = create(pair)
    assert done.states["verify.probe.workloads", "cluster"] == "succeeded"
    image = next(name for name in sh(pair, "n1", "ctr -n k8s.io images ls -q").split() if "/agnhost:" in name)
    for name in ("n1", "n2"):
        spec = {"nodeName": name, "tolerations": [{"operator": "Exists"}]}
        words = (
            "run",
            f"web-{name}",
            f"--image={image}",
            "--labels=app=web",
            "--overrides",
            json.dumps({"spec": spec}),
        )
        kubectl(pair, *words, "--", "netexec", "--http-port=8080")
    kubectl(pair, "wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=90s")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": 8080}],
            "ipFamilyPolicy": "RequireDualStack",
        },
    }
    sh(pair, "n1", f"cat >/tmp/service.json <<'END'\n{json.dumps(service)}\nEND")
    kubectl(pair, "apply", "-f", "/tmp/service.json")
    pods = {
        pod["metadata"]["name"]: pod
        for pod in json.loads(kubectl(pair, "get", "pods", "-l", "app=web", "-o", "json"))["items"]
    }
    addresses = [one["ip"] for one in pods["web-n2"]["status"]["podIPs"]]
    assert [":" in one for one in addresses] == [False, True]
    services = json.loads(kubectl(pair, "get", "service", "web", "-o", "json"))["spec"]["clusterIPs"]
    assert [":" in one for one in services] == [False, True]
    for target, port in [*((one, 8080) for one in addresses), *((one, 80) for one in services)]:
        where = f"[{target}]:{port}" if ":" in target else f"{target}:{port}"
        asked = ("exec", "web-n1", "--", "/agnhost", "connect", where, "--timeout=10s")
        kubectl(pair, *asked)
    kubectl(pair, "delete", "pod,service", "-l", "app=web", "--now")
    assert create(pair).result["changed"] is False
    assert_gone(pair, before)
