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
        ("n1", 1, "plain"),
        ("n2", 2, "nopython"),
        ("n3", 3, "plain"),
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
    assert [(host.name, host.flavour) for host in grown.hosts[3:]] == [("n4", "plain"), ("n5", "defects")]
    assert grown.control_planes == record.control_planes


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(hosts=2), "The lab 'lab' has 3 hosts (1+2); only workers can be added to it."),
        (Wanted(topology="3+2"), "The lab 'lab' has 3 hosts (1+2); only workers can be added to it."),
        (Wanted(disk=2**30), "The disks of the lab 'lab' have 21474836480 bytes each."),
        (Wanted(flavours={"n1": "nopython"}), "n1 is a plain host and stays one."),
        (Wanted(flavours={"n9": "nopython"}), "--flavour names 'n9', which is not a host of this lab."),
        (Wanted(flavours={"n1": "nopythn"}), "There is no host flavour 'nopythn'."),
        (Wanted(system="debian13"), "n1 runs debian12 and stays on it."),
        (Wanted(systems={"n2": "debian11"}), "n2 runs debian12 and stays on it."),
        (Wanted(systems={"n9": "debian11"}), "--system names 'n9', which is not a host of this lab."),
        (Wanted(hosts=4, systems={"n4": "debian14"}), "Lab hosts cannot run 'debian14'."),
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


def test_hosts_run_one_system_or_each_its_own() -> None:
    assert _systems(_record(hosts=2)) == ["debian12", "debian12"]
    assert _systems(_record(hosts=2, system="debian13")) == ["debian13", "debian13"]
    assert _systems(_record(hosts=3, system="debian13", systems={"n2": "debian11"})) == [
        "debian13",
        "debian11",
        "debian13",
    ]


def test_hosts_that_are_added_run_what_the_others_run_unless_told() -> None:
    same = _record(hosts=2, system="debian13")
    assert _systems(grown_record(same, Wanted(hosts=3))) == ["debian13"] * 3
    assert grown_record(same, Wanted(system="debian13")) == same
    mixed = grown_record(same, Wanted(hosts=3, systems={"n3": "debian11"}))
    assert _systems(mixed) == ["debian13", "debian13", "debian11"]
    assert _systems(grown_record(mixed, Wanted(hosts=4)))[3] == "debian12"


def test_a_misspelt_system_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError) as caught:
        _record(system="debain13")
    assert "Did you mean 'debian13'?" in caught.value.hint


def test_a_disk_too_small_for_a_host_is_refused() -> None:
    with pytest.raises(UsageError, match="too small"):
        _record(disk=2**20)


def _systems(record: LabRecord) -> list[str]:
    return [host.system for host in record.hosts]


def _record(
    *,
    hosts: int | None = None,
    system: str | None = None,
    systems: dict[str, str] | None = None,
    flavours: dict[str, str] | None = None,
    disk: int | None = None,
) -> LabRecord:
    wanted = Wanted(hosts=hosts, system=system, systems=systems or {}, flavours=flavours or {}, disk=disk)
    return first_record("lab", wanted, prefix="kx0001", subnet=IPv4Network("10.210.0.0/24"))
