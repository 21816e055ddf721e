"""What the control plane is told: golden for every version, and what each setting of cluster.yaml changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane import (
    Arguments,
    admin_binding,
    api_server,
    cluster_info,
    controller_manager,
    joining_objects,
    scheduler,
    settings_files,
)
from kubexm.components.documents import yaml_stream
from kubexm.redact import SecretRef

GOLDEN = Path(__file__).parent / "golden"
OURS = "NodeRestriction,DenyServiceExternalIPs"


def cluster(version: str = "v1.34.4", kubernetes: str = "", more: str = "") -> Cluster:
    return config.loads(
        f"""\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: test}}
spec:
  hosts: [{{name: n1, address: 10.0.0.1, internalAddress: "10.0.0.1,fd00::1"}}]
  roleGroups: {{etcd: [n1], controlPlane: [n1], worker: [n1]}}
  kubernetes:
    version: {version}
{kubernetes}
{more}
""",
        name="test.yaml",
    ).cluster


@pytest.mark.parametrize(
    ("args", "enabled"),
    [
        ("v: 2", None),
        (
            "enable-admission-plugins: 'AlwaysPullImages,EventRateLimit'",
            f"{OURS},AlwaysPullImages,EventRateLimit",
        ),
        ("enable-admission-plugins: [EventRateLimit, NodeRestriction]", f"{OURS},EventRateLimit"),
        ("enable-admission-plugins: ''", None),
        ("disable-admission-plugins: PodSecurity", None),
        ("disable-admission-plugins: 'PodSecurity, NodeRestriction'", "DenyServiceExternalIPs"),
        ("disable-admission-plugins: 'DenyServiceExternalIPs, NodeRestriction'", ""),
        ("disable-admission-plugins: DenyServiceExternalIPs", "NodeRestriction"),
        ("{enable-admission-plugins: A, disable-admission-plugins: NodeRestriction}", "DenyServiceExternalIPs,A"),
    ],
)
def test_nodes_are_kept_to_themselves_unless_the_user_says_so_by_name(args: str, enabled: str | None) -> None:
    extra = args if args.startswith("{") else f"{{{args}}}"
    found = api_server(cluster(kubernetes=f"    apiServer: {{extraArgs: {extra}}}"))
    name = "enable-admission-plugins"
    assert found.whole()[name] == ((OURS,) if enabled is None else (enabled,))
    assert found.beyond_kubeadm().get(name) == found.whole()[name], "kubeadm itself enables the first only"


def test_gates_of_one_program_stand_beside_those_of_all_and_win() -> None:
    of = cluster(
        kubernetes="""\
    featureGates: {NodeSwap: true, SidecarContainers: false}
    apiServer: {extraArgs: {feature-gates: "SidecarContainers=true,Mine=true"}}
    scheduler: {extraArgs: {v: 2}}"""
    )
    assert api_server(of).whole()["feature-gates"] == ("NodeSwap=true,SidecarContainers=true,Mine=true",)
    assert scheduler(of).whole()["feature-gates"] == ("NodeSwap=true,SidecarContainers=false",)


def arguments(of: Cluster) -> dict[str, Arguments]:
    return {
        "kube-apiserver": api_server(of, advertise="10.0.0.1", etcd=["https://10.0.0.1:2379"]),
        "kube-controller-manager": controller_manager(of),
        "kube-scheduler": scheduler(of),
    }


def text_of(of: Cluster) -> str:
    parts = []
    for program, found in arguments(of).items():
        parts.append(f"# {program}, all\n" + "\n".join(found.words()) + "\n")
        told = "\n".join(f"{name}={','.join(values)}" for name, values in found.beyond_kubeadm().items())
        parts.append(f"# {program}, what kubeadm is told\n{told}\n")
    for file in settings_files(of):
        content = f"secret {file.content.name}\n" if isinstance(file.content, SecretRef) else file.content
        parts.append(f"# {file.path} {file.mode:o} {file.program}\n{content}")
    return "\n".join(parts)


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new text"


def setting(of: Cluster, name: str) -> Any:
    (file,) = [file for file in settings_files(of) if file.name == name]
    return YAML(typ="safe", pure=True).load(file.content)


@pytest.mark.parametrize(
    "version", ["v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.1", "v1.36.0", "v1.37.1"]
)
def test_golden(version: str) -> None:
    golden(f"{version.rpartition('.')[0]}.txt", text_of(cluster(version)))


def test_golden_with_everything_set() -> None:
    kubernetes = """\
    clusterName: prod
    dnsDomain: k8s.example.com
    serviceNodePorts: 31000-31999
    featureGates: {NodeSwap: false, InPlacePodVerticalScaling: true}
    apiServer: {anonymousAccess: none, extraArgs: {audit-log-maxage: 7, v: 4, enable-admission-plugins: "A,B"}}
    controllerManager: {extraArgs: {node-monitor-period: 2s}}
    scheduler:
      extraArgs: {v: 3}
      config: {profiles: [{schedulerName: packing}], leaderElection: {leaseDuration: 30s}}
    audit: {maxAge: 1, maxBackups: 2, maxSize: 3, logPath: /data/audit.log, policy: {rules: [{level: Request}]}}
    podSecurity: {enforce: baseline, warn: restricted, audit: restricted, exemptNamespaces: [kube-system, storage]}"""
    more = """\
  network: {podCIDR: "10.244.0.0/16,fd00:244::/56", serviceCIDR: "10.96.0.0/16,fd00:96::/108", nodeMaskV4: 25}
  controlPlaneEndpoint: {port: 7443}
  certs: {duration: 720h}"""
    golden("everything.txt", text_of(cluster(kubernetes=kubernetes, more=more)))


def test_golden_objects() -> None:
    found = [admin_binding(), *joining_objects(), *cluster_info("https://lb.kubexm.local:6443", "Q0E=")]
    golden("objects.yaml", yaml_stream(found))


def test_kubeadm_is_told_only_what_it_does_not_set_itself() -> None:
    for found in arguments(cluster()).values():
        assert not found.own.keys() & found.added.keys()
        assert not found.own.keys() & found.beyond_kubeadm().keys()
        assert found.own.keys() | found.added.keys() == found.whole().keys()


def test_the_users_arguments_win_and_may_repeat() -> None:
    of = cluster(kubernetes='    apiServer: {extraArgs: {profiling: true, tls-sni-cert-key: ["a,b", "c,d"]}}')
    found = arguments(of)["kube-apiserver"]
    assert found.whole()["profiling"] == ("true",)
    assert [word for word in found.words() if "sni" in word] == ["--tls-sni-cert-key=a,b", "--tls-sni-cert-key=c,d"]
    assert found.beyond_kubeadm()["profiling"] == ("true",)


def test_an_argument_of_kubeadms_own_that_the_user_sets_is_handed_on() -> None:
    of = cluster(kubernetes="    apiServer: {extraArgs: {allow-privileged: false}}")
    assert arguments(of)["kube-apiserver"].beyond_kubeadm()["allow-privileged"] == ("false",)


def test_authorization_by_file_takes_the_place_of_modes() -> None:
    of = cluster(kubernetes="    apiServer: {extraArgs: {authorization-config: /x.yaml}}")
    assert "authorization-mode" not in arguments(of)["kube-apiserver"].whole()


@pytest.mark.parametrize(
    ("version", "api_server_settings", "expected"),
    [
        ("v1.31.14", "", {}),
        ("v1.33.13", "", {"authentication-config": ("/etc/kubernetes/config/authentication.yaml",)}),
        ("v1.33.13", "anonymousAccess: all", {}),
        ("v1.33.13", "anonymousAccess: none", {"anonymous-auth": ("false",)}),
        ("v1.31.14", "anonymousAccess: none", {"anonymous-auth": ("false",)}),
        ("v1.33.13", "extraArgs: {anonymous-auth: true}", {"anonymous-auth": ("true",)}),
        ("v1.33.13", "extraArgs: {oidc-issuer-url: https://a.example.com}", {}),
    ],
)
def test_anonymous_access(version: str, api_server_settings: str, expected: dict[str, tuple[str, ...]]) -> None:
    of = cluster(version, f"    apiServer: {{{api_server_settings}}}")
    found = arguments(of)["kube-apiserver"].whole()
    assert {name: found[name] for name in ("authentication-config", "anonymous-auth") if name in found} == expected
    written = any(file.name == "authentication" for file in settings_files(of))
    assert written == ("authentication-config" in expected)


@pytest.mark.parametrize(("version", "api"), [("v1.32.13", "v1beta1"), ("v1.33.13", "v1beta1"), ("v1.34.4", "v1")])
def test_only_health_paths_are_open_to_anonymous_callers(version: str, api: str) -> None:
    found = setting(cluster(version), "authentication")
    assert found["apiVersion"] == f"apiserver.config.k8s.io/{api}"
    assert [item["path"] for item in found["anonymous"]["conditions"]] == ["/livez", "/readyz", "/healthz"]


def test_without_auditing_nothing_of_it_is_left() -> None:
    of = cluster(kubernetes="    audit: {enabled: false}")
    assert not [name for name in arguments(of)["kube-apiserver"].whole() if "audit" in name]
    assert "audit" not in {file.name for file in settings_files(of)}


def test_the_encryption_file_is_named_whether_or_not_secrets_are_encrypted() -> None:
    of = cluster(kubernetes="    secretsEncryption: {enabled: false}")
    assert "encryption-provider-config" in arguments(of)["kube-apiserver"].whole()
    (file,) = [file for file in settings_files(of) if file.name == "encryption"]
    assert (file.content, file.mode) == (SecretRef("encryption-config"), 0o600)


ADMIN = ("kubernetes-admin", "system:masters")
NODE = ("system:node:w1", "system:nodes")
CONTROLLER = ("system:serviceaccount:kube-system:endpoint-controller", "system:serviceaccounts:kube-system")
WORKLOAD = ("system:serviceaccount:shop:web", "system:serviceaccounts:shop")
CORE = ("system:kube-controller-manager", "system:authenticated")


def level(policy: dict[str, Any], who: tuple[str, str], verb: str, resource: str = "", group: str = "") -> str:
    """What the API server decides for a request, by the first rule that matches; a resource that is a path is none."""
    user, of = who
    for rule in policy["rules"]:
        paths = rule.get("nonResourceURLs", [])
        named = any(
            item["group"] == group and ("resources" not in item or resource in item["resources"])
            for item in rule.get("resources", [])
        )
        if resource.startswith("/"):
            fits = any(resource == path or (path[-1] == "*" and resource.startswith(path[:-1])) for path in paths)
            fits |= not paths and "resources" not in rule
        else:
            fits = not paths and ("resources" not in rule or named)
        if (
            fits
            and user in rule.get("users", [user])
            and of in rule.get("userGroups", [of])
            and verb in rule.get("verbs", [verb])
        ):
            return str(rule["level"])
    return "None"


@pytest.mark.parametrize("who", [ADMIN, WORKLOAD], ids=["admin", "workload"])
@pytest.mark.parametrize(
    ("verb", "resource", "group"),
    [
        ("get", "pods/exec", ""),
        ("create", "pods/exec", ""),
        ("get", "pods/attach", ""),
        ("create", "pods/portforward", ""),
        ("get", "pods/log", ""),
        ("get", "pods/proxy", ""),
        ("get", "services/proxy", ""),
        ("get", "nodes/proxy", ""),
        ("patch", "pods/ephemeralcontainers", ""),
        ("get", "secrets", ""),
        ("list", "secrets", ""),
        ("watch", "secrets", ""),
        ("get", "configmaps", ""),
        ("create", "serviceaccounts/token", ""),
        ("create", "tokenreviews", "authentication.k8s.io"),
        ("delete", "pods", ""),
        ("update", "deployments", "apps"),
    ],
)
def test_the_default_audit_policy_records(who: tuple[str, str], verb: str, resource: str, group: str) -> None:
    assert level(setting(cluster(), "audit"), who, verb, resource, group) == "Metadata"


@pytest.mark.parametrize(
    ("who", "verb", "resource", "group"),
    [
        (ADMIN, "get", "pods", ""),
        (WORKLOAD, "watch", "services", ""),
        (ADMIN, "get", "/readyz", ""),
        (ADMIN, "get", "/livez/etcd", ""),
        (NODE, "watch", "secrets", ""),
        (NODE, "list", "configmaps", ""),
        (NODE, "update", "leases", "coordination.k8s.io"),
        (NODE, "patch", "nodes/status", ""),
        (NODE, "patch", "pods/status", ""),
        (NODE, "create", "events", ""),
        (CORE, "update", "leases", "coordination.k8s.io"),
        (CORE, "list", "secrets", ""),
        (CONTROLLER, "watch", "secrets", ""),
        (CONTROLLER, "patch", "events", "events.k8s.io"),
    ],
)
def test_the_default_audit_policy_leaves_out(who: tuple[str, str], verb: str, resource: str, group: str) -> None:
    assert level(setting(cluster(), "audit"), who, verb, resource, group) == "None"


@pytest.mark.parametrize(
    ("who", "verb", "resource"),
    [
        (NODE, "get", "secrets"),
        (CONTROLLER, "get", "secrets"),
        (CONTROLLER, "list", "secrets"),
        (NODE, "delete", "pods"),
    ],
)
def test_what_the_cluster_itself_does_seldom_is_recorded(who: tuple[str, str], verb: str, resource: str) -> None:
    assert level(setting(cluster(), "audit"), who, verb, resource) == "Metadata"


def test_the_default_audit_policy_has_no_bodies() -> None:
    policy = setting(cluster(), "audit")
    assert {rule["level"] for rule in policy["rules"]} == {"None", "Metadata"}
    assert policy["rules"][-1] == {"level": "Metadata"}


def test_tokens_of_service_accounts_do_not_outlive_what_was_asked_for() -> None:
    found = arguments(cluster())["kube-apiserver"].whole()
    assert found["service-account-extend-token-expiration"] == ("false",)
    assert found["service-account-max-token-expiration"] == ("8760h",)
    longer = cluster(kubernetes="    apiServer: {extraArgs: {service-account-max-token-expiration: 87600h}}")
    assert arguments(longer)["kube-apiserver"].whole()["service-account-max-token-expiration"] == ("87600h",)


def test_node_masks_of_an_ipv6_cluster() -> None:
    of = cluster(more='  network: {podCIDR: "fd00:244::/56", serviceCIDR: "fd00:96::/108"}')
    found = controller_manager(of).whole()
    assert [(name, value) for name, value in found.items() if "mask" in name] == [("node-cidr-mask-size", ("64",))]
