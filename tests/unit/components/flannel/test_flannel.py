"""flannel's objects, by backend, families, interface and endpoint."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kubexm import config
from kubexm.components.api import ManifestsApplied
from kubexm.components.documents import yaml_stream
from kubexm.components.flannel import Flannel
from kubexm.components.flannel.manifests import _BOTH_FAMILIES, flannel_objects, net_conf
from kubexm.components.milestones import API_READY
from tests.unit.components.api_plan import api_graph, golden
from tests.unit.components.around import cluster, context_of, marked

GOLDEN = Path(__file__).parent / "golden"
DUAL = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: prod}}
spec:
  hosts: [{{name: n1, address: 10.0.0.11, internalAddress: "10.0.0.11,fd00::11"}}]
  roleGroups: {{etcd: [n1], controlPlane: [n1], worker: [n1]}}
  network:
    podCIDR: "10.244.0.0/16,fd00:244::/56"
    serviceCIDR: "10.96.0.0/16,fd00:96::/112"
{more}"""


def objects(more: str = "", hosts: str | None = None) -> dict[str, Any]:
    text = cluster(more) if hosts is None else cluster(more, hosts)
    found = flannel_objects(config.loads(text, name="t").cluster, image="flannel:1", plugin_image="plugin:1")
    return {document["kind"]: document for document in found}


def flanneld(more: str = "", hosts: str | None = None) -> dict[str, Any]:
    [container] = objects(more, hosts)["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def env(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def conf(more: str, hosts: str | None = None) -> dict[str, Any]:
    text = cluster(more) if hosts is None else cluster(more, hosts)
    return net_conf(config.loads(text, name="t").cluster)


def test_the_whole_of_it() -> None:
    loaded = config.loads(cluster(), name="t").cluster
    golden(GOLDEN / "vxlan.yaml", yaml_stream(flannel_objects(loaded, image="flannel:1", plugin_image="plugin:1")))


def test_both_families() -> None:
    loaded = config.loads(cluster("", DUAL), name="t").cluster
    golden(GOLDEN / "dual.yaml", yaml_stream(flannel_objects(loaded, image="flannel:1", plugin_image="plugin:1")))


def test_every_setting_of_vxlan_reaches_it() -> None:
    given = conf("network: {mtu: 1400, flannel: {vni: 7, port: 4789, directRouting: true}}")
    assert given["Backend"] == {"Type": "vxlan", "VNI": 7, "Port": 4789, "DirectRouting": True, "MTU": 1450}


def test_plain_routes_have_no_settings_of_vxlan() -> None:
    assert conf("network: {flannel: {backend: host-gw}}")["Backend"] == {"Type": "host-gw"}


def test_the_mtu_of_pods_is_what_the_file_says_with_either_backend() -> None:
    for backend in ("vxlan", "host-gw"):
        data = objects(f"network: {{mtu: 1400, flannel: {{backend: {backend}}}}}")["ConfigMap"]["data"]
        delegate = json.loads(data["cni-conf.json"])["plugins"][0]["delegate"]
        assert delegate["mtu"] == 1400


def test_ipv6_alone() -> None:
    hosts = DUAL.replace("10.244.0.0/16,", "").replace("10.96.0.0/16,", "")
    given = conf("", hosts)
    assert given["EnableIPv4"] is False
    assert given["IPv6Network"] == "fd00:244::/56"
    assert "Network" not in given
    assert "--iface=$(HOST_IP)" in flanneld("", hosts)["args"]


def test_the_interface_is_that_of_the_nodes_address_or_the_one_of_the_file() -> None:
    assert "--iface=$(HOST_IP)" in flanneld()["args"]
    assert env(flanneld())["HOST_IP"] == {"fieldRef": {"fieldPath": "status.hostIP"}}
    assert "--iface=eth1" in flanneld("network: {flannel: {interface: eth1}}")["args"]


@pytest.mark.parametrize("addresses", ["10.0.0.1,fd00::1", "fd00::1,10.0.0.1"])
def test_of_two_families_each_address_is_handed_on(tmp_path: Path, addresses: str) -> None:
    program = tmp_path / "flanneld"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    shell = shutil.which("sh")
    assert shell is not None
    script = _BOTH_FAMILIES.replace("/opt/bin/flanneld", str(program))
    words = [shell, "-c", script, "flanneld", "--ip-masq"]
    result = subprocess.run(
        words, env={"HOST_IPS": addresses, "PATH": "/usr/bin:/bin"}, capture_output=True, check=True
    )
    assert result.stdout.decode().split() == ["--ip-masq", "--iface=10.0.0.1", "--public-ipv6=fd00::1"]


def test_a_node_is_ready_for_pods_once_flanneld_knows_its_subnet(tmp_path: Path) -> None:
    hook = flanneld()["lifecycle"]["postStart"]["exec"]["command"]
    mounts = {one["mountPath"] for one in flanneld()["volumeMounts"]}
    assert {"/run/flannel", "/etc/cni/net.d", "/etc/kube-flannel/"} <= mounts
    env_file, conf_file = tmp_path / "run/flannel/subnet.env", tmp_path / "etc/cni/net.d/10-flannel.conflist"
    for folder in ("run/flannel", "etc/kube-flannel", "etc/cni/net.d", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/kube-flannel/cni-conf.json").write_text("{}")
    naps = tmp_path / "naps"
    (tmp_path / "bin/sleep").write_text(
        f"#!/bin/sh\n[ ! -e {conf_file} ] || exit 9\necho >>{naps}\n[ $(wc -l <{naps}) != 3 ] || echo x >{env_file}\n"
    )
    (tmp_path / "bin/sleep").chmod(0o755)
    script = re.sub(r"(?<= )/(?=run|etc)", f"{tmp_path}/", hook[2])
    env_ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    subprocess.run([*hook[:2], script], env=env_, check=True)
    assert naps.read_text() == "\n" * 3
    assert conf_file.read_text() == "{}"
    assert conf_file.stat().st_mode & 0o777 == 0o600
    conf_file.chmod(0o644)
    subprocess.run([*hook[:2], script], env=env_, check=True)
    assert conf_file.stat().st_mode & 0o777 == 0o600, "also where an earlier one left it open"
    assert [path.name for path in conf_file.parent.iterdir()] == ["10-flannel.conflist"]


def test_the_api_is_reached_as_the_node_reaches_it() -> None:
    own = env(flanneld("controlPlaneEndpoint: {port: 7443}"))
    assert (own["KUBERNETES_SERVICE_HOST"], own["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "7443")
    external = "controlPlaneEndpoint: {loadBalancer: external, address: 10.0.0.100, domain: ''}"
    assert env(flanneld(external))["KUBERNETES_SERVICE_HOST"] == "10.0.0.100"


def test_a_changed_setting_starts_the_pods_anew() -> None:
    def digest(more: str) -> str:
        note: str = objects(more)["DaemonSet"]["spec"]["template"]["metadata"]["annotations"]["kubexm.io/config"]
        return note

    assert digest("") != digest("network: {flannel: {directRouting: true}}")
    assert digest("") == digest("dns: {coredns: {replicas: 3}}")


def test_it_tolerates_everything_and_follows_the_mode_of_kube_proxy() -> None:
    assert objects()["DaemonSet"]["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert conf("kubernetes: {kubeProxy: {mode: nftables}}")["EnableNFTables"] is True


def test_it_is_applied_the_moment_the_api_answers(tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster(), tmp_path), Flannel)
    node = graph.nodes["flannel.apply.manifests"]
    assert (node.hosts, node.via) == (("cluster",), ("cp1", "cp2", "cp3"))
    assert node.needs == (API_READY,)
    assert node.after == ("api.all.ready",)
    assert isinstance(node.step, ManifestsApplied)


def test_a_control_plane_that_was_brought_up_before_is_asked(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path, {"cp2": {"marker": marked("etcd", "controlPlane")}})
    assert api_graph(context, Flannel).nodes["flannel.apply.manifests"].via == ("cp2",)
