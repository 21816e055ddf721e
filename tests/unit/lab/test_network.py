"""Subnets that collide with nothing, and names that fit."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network

import pytest

from kubexm.errors import LabError
from kubexm.lab.network import MOST_HOSTS, LabNetwork, choose_subnet, read_networks, unused_prefix

_ADDRESSES = json.dumps(
    [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "prefixlen": 8}]},
        {"ifname": "eth0", "addr_info": [{"local": "10.210.0.5", "prefixlen": 23}]},
        {},
    ]
)
_ROUTES = json.dumps(
    [
        {"dst": "default", "gateway": "192.168.7.1"},
        {"dst": "10.210.2.0/24", "dev": "tun0"},
        {"type": "local", "dst": "10.210.3.9", "table": "local"},
        {"type": "blackhole", "dst": "10.210.4.0/24"},
        {"dst": "0.0.0.0/1"},
    ]
)
_RESOLVER = "# mine\nnameserver 10.210.5.53\nnameserver fd00::1\nnameserver\nsearch example.test\n"


def test_everything_this_machine_uses_is_seen() -> None:
    found = set(read_networks(_ADDRESSES, _ROUTES, _RESOLVER))
    assert found == {
        IPv4Network("127.0.0.0/8"),
        IPv4Network("10.210.0.0/23"),
        IPv4Network("192.168.7.1/32"),
        IPv4Network("10.210.2.0/24"),
        IPv4Network("10.210.3.9/32"),
        IPv4Network("10.210.4.0/24"),
        IPv4Network("0.0.0.0/1"),
        IPv4Network("10.210.5.53/32"),
    }


def test_nothing_in_particular_is_fine() -> None:
    assert list(read_networks("", "", "")) == []


def test_the_first_subnet_that_collides_with_nothing_is_chosen() -> None:
    taken = [network for network in read_networks(_ADDRESSES, _ROUTES, _RESOLVER) if network.prefixlen > 1]
    assert choose_subnet(taken) == IPv4Network("10.210.6.0/24")
    assert choose_subnet([]) == IPv4Network("10.210.0.0/24")


def test_another_pool_is_used_when_one_is_taken_as_a_whole() -> None:
    assert choose_subnet([IPv4Network("10.0.0.0/8")]) == IPv4Network("172.29.0.0/24")
    assert choose_subnet([IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12")]) == IPv4Network("192.168.0.0/24")


def test_no_subnet_left_is_said() -> None:
    with pytest.raises(LabError, match="Every private subnet"):
        choose_subnet([IPv4Network("0.0.0.0/1"), IPv4Network("128.0.0.0/1")])


def test_a_lab_does_not_collide_with_what_clusters_use_by_default() -> None:
    for cluster in ("10.244.0.0/16", "10.96.0.0/12"):
        assert not choose_subnet([]).overlaps(IPv4Network(cluster))


def test_addresses_and_names() -> None:
    network = LabNetwork(prefix="kx12ab", subnet=IPv4Network("10.210.7.0/24"))
    assert network.machine_address == IPv4Address("10.210.7.1")
    assert str(network.address(1)) == "10.210.7.11/24"
    assert network.gateway == IPv4Address("10.210.7.254")
    addresses = {network.address(number).ip for number in range(1, MOST_HOSTS + 1)}
    assert len(addresses) == MOST_HOSTS
    assert not addresses & {network.machine_address, network.gateway, network.subnet.broadcast_address}


def test_interface_names_fit_the_kernel() -> None:
    network = LabNetwork(prefix=unused_prefix(), subnet=IPv4Network("10.210.7.0/24"))
    assert len(network.link(f"n{MOST_HOSTS}")) <= 15
    assert len(network.bridge) <= 15
