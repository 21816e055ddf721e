from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.apis.v1alpha1.networks import (
    families,
    is_domain,
    overlap,
    parse_addresses,
    parse_cidrs,
    parse_endpoint,
)

networks = st.builds(
    lambda number, prefix: IPv4Network((number >> (32 - prefix) << (32 - prefix), prefix)),
    st.integers(0, 2**32 - 1),
    st.integers(1, 32),
)


@given(networks, networks)
def test_networks_overlap_exactly_if_one_holds_the_others_first_address(one: IPv4Network, other: IPv4Network) -> None:
    assert overlap(one, other) == (one.network_address in other or other.network_address in one)
    assert overlap(one, other) == overlap(other, one)


def test_networks_of_different_families_never_overlap() -> None:
    assert not overlap(ip_network("0.0.0.0/0"), ip_network("::/0"))


def test_dual_stack_is_a_pair() -> None:
    pair = parse_cidrs("10.244.0.0/16, fd00:244::/56")
    assert [str(net) for net in pair] == ["10.244.0.0/16", "fd00:244::/56"]
    assert families(pair) == {4, 6}
    assert parse_addresses("10.0.0.4,fd00::4") == (ip_address("10.0.0.4"), ip_address("fd00::4"))


@pytest.mark.parametrize("text", ["10.0.0.0/8,10.1.0.0/16", "10.0.0.0/8,fd00::/56,fd01::/56"])
def test_at_most_one_of_each_family(text: str) -> None:
    with pytest.raises(ValueError, match="an IPv4 and an IPv6 one"):
        parse_cidrs(text)


@pytest.mark.parametrize("value", ["10.244.0.0", "10.244/16", "x", "", "10.0.0.0/33", 10, None])
def test_what_is_no_network_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="network"):
        parse_cidrs(value)


def test_bits_outside_the_prefix_name_the_network_that_is_meant() -> None:
    with pytest.raises(ValueError, match="bits set") as caught:
        parse_cidrs("10.244.1.0/16")
    assert caught.value.context["hint"] == "did you mean `10.244.0.0/16`?"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["example.com", "a", "a-b.c", "EXAMPLE.com", "1host.example"])
def test_names(text: str) -> None:
    assert is_domain(text)


@pytest.mark.parametrize("text", ["10.0.0.300", "-a", "a-", "a..b", "", "a b", "x" * 64, "fd00::1"])
def test_what_is_no_name(text: str) -> None:
    assert not is_domain(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("docker.io", ("docker.io", None)),
        ("registry:5000", ("registry", 5000)),
        ("10.0.0.53:53", ("10.0.0.53", 53)),
        ("fd00::53", ("fd00::53", None)),
        ("[fd00::53]:53", ("fd00::53", 53)),
        ("host:99999", None),
        ("https://x", None),
        ("[host]:53", None),
        ("", None),
    ],
)
def test_endpoints(text: str, meant: tuple[str, int | None] | None) -> None:
    assert parse_endpoint(text) == meant
