from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address

import pytest

from kubexm.apis.v1alpha1 import EnvSecret, FileSecret, PromptSecret
from kubexm.apis.v1alpha1.labels import Taint
from tests.unit.config.files import HA, MINIMAL, cluster


def test_hosts_come_in_the_order_of_the_file_with_their_roles() -> None:
    hosts = cluster(base=HA).hosts
    assert [host.name for host in hosts] == ["cp1", "cp2", "cp3", "w01", "w02", "w03"]
    assert [host.address for host in hosts][:4] == ["10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.21"]
    assert hosts[0].roles == {"etcd", "controlPlane"}
    assert hosts[3].roles == {"worker"}
    assert hosts[3].entry == 1


def test_a_single_host_may_have_every_role() -> None:
    (host,) = cluster(base=MINIMAL).hosts
    assert host.roles == {"etcd", "controlPlane", "worker"}
    assert host.has_role("worker", "registry")
    assert not host.has_role("registry")


def test_defaults_without_a_word_about_them() -> None:
    (host,) = cluster(base=MINIMAL).hosts
    assert (host.type, host.port, host.credentials.user) == ("ssh", 22, "root")
    assert host.credentials.agent, "with no other way in, the agent is asked"
    assert host.connection_timeout == timedelta(seconds=10)
    assert host.known_hosts_file == "~/.ssh/known_hosts"
    assert host.internal_addresses == (ip_address("192.0.2.10"),)
    assert host.bastion == ()


def test_settings_of_a_host_win_over_those_of_all() -> None:
    made = cluster(
        {
            "global": {
                "user": "ops",
                "port": 2200,
                "password": "env:A",
                "sudoPassword": "prompt",
                "connectionTimeout": "5s",
            },
            "hosts": [
                {"name": "a", "address": "10.0.0.1"},
                {
                    "name": "b",
                    "address": "10.0.0.2",
                    "user": "root",
                    "port": 22,
                    "password": "env:B",
                    "sudoPassword": "file:x",
                },
                {
                    "name": "c",
                    "address": "10.0.0.3",
                    "connectionTimeout": "1m",
                    "taints": ["a:NoExecute"],
                    "labels": {"x": "y"},
                },
            ],
        }
    )
    a, b, c = made.hosts
    assert (a.credentials.user, a.port, a.credentials.password) == ("ops", 2200, EnvSecret("A"))
    assert (a.sudo_password, a.connection_timeout) == (PromptSecret(), timedelta(seconds=5))
    assert (b.credentials.user, b.port, b.credentials.password, b.sudo_password) == (
        "root",
        22,
        EnvSecret("B"),
        FileSecret("x"),
    )
    assert c.connection_timeout == timedelta(minutes=1)
    assert c.taints == (Taint("a", "", "NoExecute"),)
    assert c.labels == {"x": "y"}


def test_the_settings_of_a_key_go_together() -> None:
    made = cluster(
        {
            "global": {"privateKeyPath": "~/.ssh/id", "privateKeyPassphrase": "prompt", "certificatePath": "./cert"},
            "hosts": [
                {"name": "a", "address": "10.0.0.1"},
                {"name": "b", "address": "10.0.0.2", "privateKey": "env:KEY"},
                {"name": "c", "address": "10.0.0.3", "privateKeyPath": "./other", "agent": True},
            ],
        }
    )
    a, b, c = (host.credentials for host in made.hosts)
    assert (a.private_key_path, a.private_key_passphrase, a.certificate_path) == ("~/.ssh/id", PromptSecret(), "./cert")
    assert (b.private_key, b.private_key_path, b.private_key_passphrase, b.certificate_path) == (
        EnvSecret("KEY"),
        None,
        None,
        None,
    )
    assert (c.private_key_path, c.private_key_passphrase, c.agent) == ("./other", None, True)
    assert not a.agent


def test_bastions_get_the_key_but_never_the_password_of_the_hosts() -> None:
    made = cluster(
        {
            "global": {
                "user": "ops",
                "port": 2200,
                "password": "env:HOSTS",
                "privateKeyPath": "~/.ssh/id",
                "bastion": [
                    {"address": "203.0.113.7", "user": "jump"},
                    {"address": "jump2", "port": 2222, "password": "env:J"},
                ],
            },
            "hosts": [
                {"name": "a", "address": "10.0.0.1"},
                {"name": "b", "address": "10.0.0.2", "bastion": []},
                {"name": "c", "address": "10.0.0.3", "bastion": [{"address": "203.0.113.9"}]},
            ],
        }
    )
    a, b, c = made.hosts
    first, second = a.bastion
    assert (first.address, first.port, first.credentials.user) == ("203.0.113.7", 22, "jump")
    assert (first.credentials.password, first.credentials.private_key_path) == (None, "~/.ssh/id")
    assert (second.port, second.credentials.user, second.credentials.password) == (2222, "ops", EnvSecret("J"))
    assert b.bastion == ()
    assert [jump.address for jump in c.bastion] == ["203.0.113.9"]


def test_internal_addresses() -> None:
    made = cluster(
        {
            "hosts": [
                {"name": "a[1:2]", "address": "10.0.0.[1:2]", "internalAddress": "10.1.0.[1:2],fd00::[1:2]"},
                {"name": "b", "address": "host.example.com"},
                {"name": "c", "type": "local"},
                {"name": "d", "type": "local", "internalAddress": "10.0.0.9"},
            ]
        }
    )
    found = [[str(address) for address in host.internal_addresses] for host in made.hosts]
    assert found == [["10.1.0.1", "fd00::1"], ["10.1.0.2", "fd00::2"], [], [], ["10.0.0.9"]]
    assert made.host("c").address == "127.0.0.1"


def test_groups_in_groups_and_groups_of_ones_own() -> None:
    made = cluster(
        {
            "roleGroups": {
                "etcd": ["group:controlPlane"],
                "controlPlane": ["cp[1:3]"],
                "worker": ["group:ssd", "w03", "group:controlPlane", "w01"],
                "ssd": ["w[01:02]"],
            }
        }
    )
    assert made.groups["etcd"] == ("cp1", "cp2", "cp3")
    assert made.groups["worker"] == ("w01", "w02", "w03", "cp1", "cp2", "cp3"), "in order, each once"
    assert made.host("w01").roles == {"worker", "ssd"}
    assert [host.name for host in made.role("worker")] == ["cp1", "cp2", "cp3", "w01", "w02", "w03"]


def test_groups_that_contain_each_other_come_to_an_end() -> None:
    made = cluster({"roleGroups": {"worker": ["w01", "group:a"], "a": ["group:b", "w02"], "b": ["group:a", "w03"]}})
    assert made.groups["worker"] == ("w01", "w03", "w02")


def test_many_groups_in_groups_are_no_trouble() -> None:
    groups: dict[str, object] = {f"g{number}": [f"group:g{number + 1}", f"group:h{number + 1}"] for number in range(60)}
    groups |= {f"h{number}": [f"group:g{number + 1}", f"group:h{number + 1}"] for number in range(60)}
    made = cluster({"roleGroups": {**groups, "g60": ["w01"], "h60": ["w02"], "worker": ["group:g0"]}})
    assert set(made.groups["worker"]) == {"w01", "w02"}


@pytest.mark.parametrize("name", ["cluster", "demo"])
def test_the_cluster_name_in_kubeconfigs(name: str) -> None:
    change = {"kubernetes": {"clusterName": name}} if name != "demo" else {}
    assert cluster(change).cluster_name == name
