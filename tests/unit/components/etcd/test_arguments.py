"""etcd's unit for every version it may be of, held in golden files; what users may say and what not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubexm import config
from kubexm.apis.v1alpha1.etcd import Etcd
from kubexm.components.etcd.arguments import arguments
from kubexm.components.etcd.unit import founding, joining, sealed, sealed_for, service
from kubexm.errors import PlanError
from tests.unit.components.around import cluster

GOLDEN = Path(__file__).parent / "golden"


def etcd(text: str = "") -> Etcd:
    return config.loads(cluster(f"etcd: {{{text}}}"), name="test.yaml").cluster.spec.etcd


def told(text: str = "", version: str = "v3.6.5") -> dict[str, tuple[str, ...]]:
    return arguments(etcd(text), version=version, name="cp1", address="10.0.0.11")


@pytest.mark.parametrize("version", ["v3.5.12", "v3.5.24", "v3.6.5", "v3.7.0"])
def test_golden_unit(version: str) -> None:
    text = service(told(version=version), cluster="prod", data_dir="/var/lib/etcd")
    path = GOLDEN / f"etcd-{version}.service"
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new unit"


def test_tuning_reaches_etcd_in_its_own_units() -> None:
    found = told(
        "tuning: {heartbeatInterval: 100ms, electionTimeout: 1s, snapshotCount: 5000, quotaBackend: 2Gi, "
        "autoCompactionRetention: 90m}, clientPort: 12379, peerPort: 12380, metricsPort: 12381"
    )
    wanted = {
        "heartbeat-interval": "100",
        "election-timeout": "1000",
        "snapshot-count": "5000",
        "quota-backend-bytes": str(2 * 2**30),
        "auto-compaction-retention": "90m",
        "listen-client-urls": "https://10.0.0.11:12379,https://127.0.0.1:12379",
        "advertise-client-urls": "https://10.0.0.11:12379",
        "listen-peer-urls": "https://10.0.0.11:12380",
        "listen-metrics-urls": "http://127.0.0.1:12381",
    }
    assert {name: found[name] for name in wanted} == {name: (value,) for name, value in wanted.items()}


def test_an_ipv6_member_is_in_brackets() -> None:
    found = arguments(etcd(), version="v3.6.5", name="cp1", address="fd00::11")
    assert found["listen-peer-urls"] == ("https://[fd00::11]:2380",)


def test_nothing_is_plain_and_nobody_is_anonymous() -> None:
    for version in ("v3.5.12", "v3.6.5"):
        found = told(version=version)
        assert found["client-cert-auth"] == found["peer-client-cert-auth"] == ("true",)
        urls = [url for name in found if name.endswith("-urls") for url in ",".join(found[name]).split(",")]
        assert [url for url in urls if not url.startswith("https://")] == ["http://127.0.0.1:2381"], "metrics alone"


def test_what_the_user_says_wins() -> None:
    found = told('extraArgs: {max-request-bytes: 3000000, heartbeat-interval: 300, cors: ["https://a", "https://b"]}')
    assert found["max-request-bytes"] == ("3000000",)
    assert found["heartbeat-interval"] == ("300",)
    unit = service(found, cluster="prod", data_dir="/var/lib/etcd")
    assert "--cors=https://a \\\n    --cors=https://b" in unit


def test_gates_of_the_user_stand_beside_ours() -> None:
    found = told('extraArgs: {feature-gates: "LeaseCheckpoint=true,InitialCorruptCheck=false"}')
    assert found["feature-gates"] == (
        "CompactHashCheck=true,InitialCorruptCheck=false,LeaseCheckpoint=true,StopGRPCServiceOnDefrag=true",
    )


def test_gates_are_left_to_an_etcd_that_has_none_to_complain_of() -> None:
    assert told("extraArgs: {feature-gates: A=true}", "v3.5.24")["feature-gates"] == ("A=true",)


@pytest.mark.parametrize("name", ["name", "data-dir", "initial-cluster-state", "discovery", "cert-file", "config-file"])
def test_what_is_not_the_users_to_say_is_refused(name: str) -> None:
    asked = etcd().model_copy(update={"extra_args": {name: ("x",)}})
    with pytest.raises(PlanError, match=f"`{name}` cannot be set there") as caught:
        arguments(asked, version="v3.6.5", name="cp1", address="10.0.0.11")
    assert caught.value.hint


def test_odd_values_stay_one_word() -> None:
    unit = service(told("extraArgs: {log-outputs: 'a b%$\"'}"), cluster="prod", data_dir="/srv/etcd data")
    assert r'"--log-outputs=a b%%$$\""' in unit
    assert 'ReadWritePaths="/srv/etcd data"' in unit


@pytest.mark.parametrize(("directory", "hidden"), [("/home/etcd/data", "ProtectHome"), ("/var/tmp/etcd", "PrivateTmp")])
def test_data_is_never_hidden_from_etcd(directory: str, hidden: str) -> None:
    assert hidden in service(told(), cluster="prod", data_dir="/var/lib/etcd")
    assert hidden not in service(told(), cluster="prod", data_dir=directory)


def test_what_an_empty_member_is_told() -> None:
    peers = [("a", "https://10.0.0.1:2380"), ("b", "https://10.0.0.2:2380")]
    lines = [line for line in founding(peers, token="u1").splitlines() if not line.startswith("#")]
    assert lines == [
        "ETCD_INITIAL_CLUSTER=a=https://10.0.0.1:2380,b=https://10.0.0.2:2380",
        "ETCD_INITIAL_CLUSTER_STATE=new",
        "ETCD_INITIAL_CLUSTER_TOKEN=u1",
    ]
    assert "STATE=existing" in joining(peers)
    assert "STATE=existing" in sealed(7)
    assert "ETCD_INITIAL_CLUSTER=" not in sealed(7), "who lost its data finds nobody to form a cluster with"
    assert sealed_for(sealed(2**63 + 5)) == 2**63 + 5
    assert sealed_for(joining(peers)) is None


@pytest.mark.parametrize("version", ["v3.5.24", "v3.6.5", "v3.7.0"])
def test_no_suite_without_forward_secrecy_and_authenticated_encryption(version: str) -> None:
    suites = arguments(Etcd(), version=version, name="cp1", address="10.0.0.11")["cipher-suites"][0].split(",")
    assert suites
    assert all(suite.startswith("TLS_ECDHE_") and ("_GCM_" in suite or "_POLY1305_" in suite) for suite in suites)
    newest = Etcd.model_validate({"extraArgs": {"tls-min-version": "TLS1.3"}})
    assert "cipher-suites" not in arguments(newest, version=version, name="cp1", address="10.0.0.11"), "etcd refuses it"
