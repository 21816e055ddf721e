"""Which hosts a lab has, from what was asked for."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from kubexm.errors import UsageError
from kubexm.lab.shape import Wanted, first_record, grown_record
from kubexm.lab.state import LabRecord
from kubexm.lab.topology import Topology, decide


@pytest.mark.parametrize(
    ("topology", "hosts", "expected"),
    [
        (None, None, (3, 2)),
        (None, 1, (1, 0)),
        (None, 2, (1, 1)),
        (None, 3, (1, 2)),
        (None, 4, (3, 1)),
        (None, 20, (3, 17)),
        ("single", None, (1, 0)),
        ("single", 1, (1, 0)),
        ("ha", None, (3, 2)),
        ("ha", 3, (3, 0)),
        ("ha", 7, (3, 4)),
        ("1+2", None, (1, 2)),
        ("5+0", 5, (5, 0)),
    ],
)
def test_topology_and_number_of_hosts(topology: str | None, hosts: int | None, expected: tuple[int, int]) -> None:
    assert decide(topology, hosts) == Topology(control_planes=expected[0], workers=expected[1])


@pytest.mark.parametrize(
    ("topology", "hosts", "message"),
    [
        ("3x2", None, "'3x2' is not a topology."),
        ("0+3", None, "'0+3' is not a topology."),
        ("+2", None, "'+2' is not a topology."),
        ("3+2", 4, "The topology '3+2' has 5 hosts, but --hosts says 4."),
        ("ha", 2, "The topology 'ha' has 3 hosts, but --hosts says 2."),
        ("single", 2, "The topology 'single' has 1 hosts, but --hosts says 2."),
        (None, 0, "A lab cannot have 0 hosts."),
        (None, 201, "A lab cannot have 201 hosts."),
        ("100+101", None, "A lab cannot have 201 hosts."),
    ],
)
def test_bad_topologies_say_what_is_wrong_and_what_to_do(topology: str | None, hosts: int | None, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        decide(topology, hosts)
    assert caught.value.message == message
    assert caught.value.hint


def test_a_new_lab_gives_each_host_a_number_a_flavour_and_a_machine_id() -> None:
    record = _record(hosts=3, flavours={"n2": "nopython"})
    assert [(host.name, host.number, host.flavour) for host in record.hosts] == [
        ("n1", 1, "debian12"),
        ("n2", 2, "nopython"),
        ("n3", 3, "debian12"),
    ]
    assert len({host.machine_id for host in record.hosts}) == 3
    assert all(len(host.machine_id) == 32 for host in record.hosts)


def test_the_same_again_changes_nothing() -> None:
    record = _record(hosts=3, flavours={"n2": "nopython"})
    for wanted in (Wanted(), Wanted(hosts=3), Wanted(topology="1+2"), Wanted(flavours={"n2": "nopython"})):
        assert grown_record(record, wanted) == record


def test_more_hosts_are_added_as_workers_and_the_old_ones_kept() -> None:
    record = _record(hosts=3)
    grown = grown_record(record, Wanted(hosts=5, flavours={"n5": "defects"}))
    assert grown.hosts[:3] == record.hosts
    assert [(host.name, host.flavour) for host in grown.hosts[3:]] == [("n4", "debian12"), ("n5", "defects")]
    assert grown.control_planes == record.control_planes


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(hosts=2), "The lab 'lab' has 3 hosts (1+2); only workers can be added to it."),
        (Wanted(topology="3+2"), "The lab 'lab' has 3 hosts (1+2); only workers can be added to it."),
        (Wanted(disk=2**30), "The disks of the lab 'lab' have 21474836480 bytes each."),
        (Wanted(flavours={"n1": "nopython"}), "n1 is a debian12 host and stays one."),
        (Wanted(flavours={"n9": "nopython"}), "--flavour names 'n9', which is not a host of this lab."),
        (Wanted(flavours={"n1": "nopythn"}), "There is no host flavour 'nopythn'."),
    ],
)
def test_what_a_lab_cannot_become(wanted: Wanted, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        grown_record(_record(hosts=3), wanted)
    assert caught.value.message == message
    assert caught.value.hint


def test_a_misspelt_flavour_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError) as caught:
        _record(flavours={"n1": "nopythn"})
    assert "Did you mean 'nopython'?" in caught.value.hint


def test_a_disk_too_small_for_a_host_is_refused() -> None:
    with pytest.raises(UsageError, match="too small"):
        _record(disk=2**20)


def _record(*, hosts: int | None = None, flavours: dict[str, str] | None = None, disk: int | None = None) -> LabRecord:
    wanted = Wanted(hosts=hosts, flavours=flavours or {}, disk=disk)
    return first_record("lab", wanted, prefix="kx0001", subnet=IPv4Network("10.210.0.0/24"))
