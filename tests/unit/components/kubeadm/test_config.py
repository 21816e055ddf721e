"""What kubeadm is told: golden for every version and for each place of etcd, and what cluster.yaml changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubexm.components.host_files import HostFile
from kubexm.components.kubeadm.config import configuration, repeated_arguments
from kubexm.components.kubeadm.patches import components, patch_files
from kubexm.components.kubeadm.pods import controller_probes, pods_of
from kubexm.runtime import TaskContext
from tests.unit.components.around import SINGLE, cluster, context_of

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = ["v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.1", "v1.36.0", "v1.37.1"]
FULL = """\
network:
  podCIDR: "10.244.0.0/16,fd00:244::/56"
  serviceCIDR: "10.96.0.0/16,fd00:96::/108"
controlPlaneEndpoint: {domain: api.example.com, port: 8443}
certs: {duration: 720h}
registry: {private: "reg.example.com:5000/k8s"}
kubernetes:
  version: v1.34.4
  clusterName: green
  dnsDomain: example.internal
  serviceNodePorts: 30100-30200
  featureGates: {InPlacePodVerticalScaling: true}
  audit: {logPath: /srv/audit/api.log}
  secretsEncryption: {enabled: false}
  apiServer:
    anonymousAccess: none
    extraArgs: {v: 4, service-account-issuer: ["https://a.example.com", "https://b.example.com"]}
    patch: {spec: {containers: [{name: kube-apiserver, resources: {requests: {cpu: 100m}}}]}}
  controllerManager: {extraArgs: {secure-port: 11257}}
  scheduler: {config: {parallelism: 8}}
"""


def task_of(text: str, tmp_path: Path) -> TaskContext:
    return context_of(text, tmp_path).pipeline_context().for_module().for_task()


def documents(ctx: TaskContext, host: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    found = list(YAML(typ="safe").load_all(configuration(ctx, ctx.hosts()[host])))
    return found[0], found[1]


def text_of(ctx: TaskContext) -> str:
    patches = "\n".join(f"# {file.path}\n{file.content}" for file in patch_files(ctx))
    return f"{configuration(ctx, ctx.hosts()[0])}\n{patches}"


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new configuration"


@pytest.mark.parametrize("version", VERSIONS)
def test_golden(version: str, tmp_path: Path) -> None:
    ctx = task_of(cluster(f"kubernetes: {{version: {version}}}", hosts=SINGLE), tmp_path)
    golden(f"kubeadm-{version.rpartition('.')[0]}.txt", text_of(ctx))


@pytest.mark.parametrize("version", ["v1.30.14", "v1.34.4"])
def test_golden_stacked(version: str, tmp_path: Path) -> None:
    ctx = task_of(cluster(f"kubernetes: {{version: {version}}}\netcd: {{type: kubeadm}}"), tmp_path)
    golden(f"stacked-{version.rpartition('.')[0]}.txt", text_of(ctx))


def test_golden_with_everything(tmp_path: Path) -> None:
    text = cluster(FULL).replace(
        '"10.0.0.[11:13]"', '"10.0.0.[11:13]", internalAddress: "10.1.0.[11:13],fd00::[11:13]"'
    )
    text = text.replace('"10.0.0.[21:22]"', '"10.0.0.[21:22]", internalAddress: "10.1.0.[21:22],fd00::[21:22]"')
    golden("everything.txt", text_of(task_of(text, tmp_path)))


def test_each_control_plane_has_its_own_address_and_name_and_nothing_else_of_its_own(tmp_path: Path) -> None:
    ctx = task_of(cluster(), tmp_path)
    (first, shared), (second, same) = documents(ctx, 0), documents(ctx, 1)
    assert first["localAPIEndpoint"] == {"advertiseAddress": "10.0.0.11", "bindPort": 6443}
    assert second["localAPIEndpoint"] == {"advertiseAddress": "10.0.0.12", "bindPort": 6443}
    assert (first["nodeRegistration"]["name"], second["nodeRegistration"]["name"]) == ("cp1", "cp2")
    assert shared == same


def test_etcd_of_the_user(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("ca.crt", "c.crt", "c.key")}
    for path in files.values():
        path.write_text("x")
    paths = f"caFile: {files['ca.crt']}, certFile: {files['c.crt']}, keyFile: {files['c.key']}"
    more = f"etcd: {{type: external, external: {{endpoints: ['https://10.5.0.1:2379'], {paths}}}}}"
    ctx = task_of(cluster(more).replace('    etcd: ["cp[1:3]"]\n', "    etcd: []\n"), tmp_path / "work")
    assert documents(ctx)[1]["etcd"] == {
        "external": {
            "endpoints": ["https://10.5.0.1:2379"],
            "caFile": "/etc/kubernetes/pki/etcd/ca.crt",
            "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
            "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
        }
    }


def test_a_stacked_etcd_on_other_ports_listens_there(tmp_path: Path) -> None:
    ctx = task_of(cluster("etcd: {type: kubeadm, clientPort: 3379, peerPort: 3380}"), tmp_path)
    args = {one["name"]: one["value"] for one in documents(ctx)[1]["etcd"]["local"]["extraArgs"]}
    assert args["advertise-client-urls"] == "https://10.0.0.11:3379"
    assert args["listen-peer-urls"] == "https://10.0.0.11:3380"
    usual = task_of(cluster("etcd: {type: kubeadm}"), tmp_path / "usual")
    assert "listen-peer-urls" not in {one["name"] for one in documents(usual)[1]["etcd"]["local"]["extraArgs"]}


def test_arguments_that_repeat_reach_the_kubeadm_of_1_30_as_patches(tmp_path: Path) -> None:
    more = "kubernetes: {version: VERSION, apiServer: {extraArgs: {service-account-issuer: [https://a, https://b]}}}"
    old = task_of(cluster(more.replace("VERSION", "v1.30.14")), tmp_path / "old")
    assert documents(old)[1]["apiServer"]["extraArgs"]["service-account-issuer"] == "https://a"
    assert repeated_arguments(old) == {"kube-apiserver": ["--service-account-issuer=https://b"]}
    (patch,) = [file for file in patch_files(old) if file.path.name == "kube-apiserver0+json.json"]
    assert json.loads(str(patch.content)) == [
        {"op": "add", "path": "/spec/containers/0/command/-", "value": "--service-account-issuer=https://b"}
    ]
    new = task_of(cluster(more.replace("VERSION", "v1.31.14")), tmp_path / "new")
    assert repeated_arguments(new) == {}
    issuers = [one for one in documents(new)[1]["apiServer"]["extraArgs"] if one["name"] == "service-account-issuer"]
    assert [one["value"] for one in issuers] == ["https://a", "https://b"]


def ours(files: tuple[HostFile, ...], component: str) -> dict[str, Any]:
    (found,) = [file for file in files if file.path.name == f"{component}2+strategic.json"]
    loaded: dict[str, Any] = json.loads(str(found.content))
    return loaded


@pytest.mark.parametrize(
    ("api_server", "listens"),
    [
        ("{anonymousAccess: none}", True),
        ("{extraArgs: {anonymous-auth: false}}", True),
        ("{anonymousAccess: health}", False),
        ("{anonymousAccess: all}", False),
        ("{anonymousAccess: none, extraArgs: {anonymous-auth: true}}", False),
    ],
)
def test_probes_do_without_an_answer_where_strangers_get_none(api_server: str, listens: bool, tmp_path: Path) -> None:
    ctx = task_of(cluster(f"kubernetes: {{apiServer: {api_server}}}"), tmp_path)
    found = ours(patch_files(ctx), "kube-apiserver")
    if not listens:
        assert "containers" not in found["spec"]
        return
    (container,) = found["spec"]["containers"]
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert container[probe] == {"httpGet": None, "tcpSocket": {"port": 6443}}


def test_every_pod_carries_a_digest_and_the_same_patches_whatever_the_user_patches(tmp_path: Path) -> None:
    plain = patch_files(task_of(cluster(), tmp_path / "a"))
    more = "kubernetes: {scheduler: {patch: {metadata: {labels: {a: b}}}}}"
    patched = patch_files(task_of(cluster(more), tmp_path / "b"))
    assert [file.path for file in plain] == [file.path for file in patched]
    assert all(file.mode == 0o600 for file in plain)
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert ours(plain, component)["metadata"]["labels"] == {"kubexm.io/digest": "kubexm-digest-goes-here"}
    (changed,) = [one.path.name for one, other in zip(patched, plain, strict=True) if one != other]
    assert changed == "kube-scheduler1+strategic.json"


def test_a_stacked_member_that_lost_its_data_does_not_begin_anew(tmp_path: Path) -> None:
    ctx = task_of(cluster("etcd: {type: kubeadm, dataDir: /srv/etcd}"), tmp_path)
    spec = ours(patch_files(ctx), "etcd")["spec"]
    assert spec["volumes"] == [{"name": "etcd-member", "hostPath": {"path": "/srv/etcd/member", "type": "Directory"}}]
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "etcd-member"


def test_a_setting_is_an_input_of_the_pod_that_reads_it_and_of_no_other(tmp_path: Path) -> None:
    ctx = task_of(cluster(), tmp_path)
    pods = {pod.component: {str(path) for path in pod.inputs} for pod in pods_of(ctx.cluster, *components(ctx.cluster))}
    assert "/etc/kubernetes/config/audit-policy.yaml" in pods["kube-apiserver"]
    assert "/etc/kubernetes/config/encryption.yaml" not in pods["kube-apiserver"], "it is reloaded"
    assert "/etc/kubernetes/pki/apiserver.crt" not in pods["kube-apiserver"], "it is reloaded"
    assert pods["kube-scheduler"] == {"/etc/kubernetes/scheduler.conf", "/etc/kubernetes/config/scheduler.yaml"}
    assert not any("config/" in path for path in pods["kube-controller-manager"])
    volumes = documents(ctx)[1]["scheduler"]["extraVolumes"]
    assert [one["hostPath"] for one in volumes] == ["/etc/kubernetes/config/scheduler.yaml"]


def test_health_is_asked_where_the_user_moved_it(tmp_path: Path) -> None:
    ctx = task_of(cluster("kubernetes: {controllerManager: {extraArgs: {secure-port: 11257}}}"), tmp_path)
    assert [probe.port for probe in controller_probes(ctx.cluster)] == [11257, 10259]
