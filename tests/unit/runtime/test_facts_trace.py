"""What planning read of the facts is noted, that and nothing else, and compared with later facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from kubexm.runner import Facts
from kubexm.runner.facts.model import ClusterMarker, Memory, Network, Route
from kubexm.runtime import FactRead, FactsTrace

FACTS = Facts.assumed(hostname="n1")
MARKED = replace(FACTS, marker=ClusterMarker(uid="u1", name="prod"))


def noted(trace: FactsTrace) -> dict[str, object]:
    return {f"{read.host}: {read}": read.value for read in trace.reads()}


def test_only_what_was_asked_for_is_noted_and_once_each() -> None:
    trace = FactsTrace()
    facts = trace.view("n1", FACTS)
    assert (facts.os.family, facts.cpu.count, facts.os.family) == ("debian", FACTS.cpu.count, "debian")
    assert noted(trace) == {"n1: os.family": "debian", "n1: cpu.count": FACTS.cpu.count}
    assert not FactsTrace().reads()


def test_questions_are_noted_with_their_arguments_however_they_are_written() -> None:
    trace = FactsTrace()
    facts = trace.view("n1", FACTS)
    assert facts.kernel.has("nf-conntrack") is FACTS.kernel.has("nf_conntrack")
    assert facts.has_command(name="no-such-thing") is False
    found = facts.filesystem_of(PurePosixPath("/var/lib/etcd"))
    assert found == FACTS.filesystem_of("/var/lib/etcd")
    assert [str(read) for read in trace.reads()] == [
        "kernel.has('nf-conntrack')",
        "has_command('no-such-thing')",
        "filesystem_of('/var/lib/etcd')",
    ]
    assert all(read.again(FACTS) == read.value for read in trace.reads())


def test_that_something_is_there_or_not_is_a_fact_too() -> None:
    trace = FactsTrace()
    assert trace.view("n1", FACTS).marker is None
    (read,) = trace.reads()
    assert str(read) == "marker is there"
    assert (read.again(FACTS), read.again(MARKED)) == (False, True)
    trace = FactsTrace()
    assert trace.view("n1", MARKED).marker is not None
    (read,) = trace.reads()
    assert (read.again(FACTS), read.again(MARKED)) == (False, True)


def test_a_part_that_has_gone_since_is_a_difference_and_no_crash() -> None:
    routed = replace(FACTS, network=Network(route4=Route(interface="eth0")))
    trace = FactsTrace()
    route = trace.view("n1", routed).network.route4
    assert route is not None
    assert route.interface == "eth0"
    bare = replace(FACTS, network=Network())
    assert [read.again(bare) for read in trace.reads()] == [False, None]


def test_comparing_a_whole_part_notes_all_of_it() -> None:
    trace = FactsTrace()
    view = trace.view("n1", FACTS)
    assert view.memory == FACTS.memory
    assert view.memory == trace.view("n2", FACTS).memory
    assert view.memory != Memory(total=1, available=1)
    assert {str(read) for read in trace.reads()} == {"memory"}
    assert all(read.again(replace(FACTS, memory=Memory(total=1, available=1))) != read.value for read in trace.reads())


def test_comparing_all_facts_at_once_is_refused() -> None:
    view = FactsTrace().view("n1", FACTS)
    with pytest.raises(AssertionError, match="single facts"):
        assert view == FACTS


def test_two_hosts_are_noted_apart() -> None:
    trace = FactsTrace()
    arches = {trace.view(host, replace(FACTS, arch=arch)).arch for host, arch in (("n1", "amd64"), ("n2", "arm64"))}
    assert arches == {"amd64", "arm64"}
    assert trace.reads() == (FactRead("n1", "arch", None, "amd64"), FactRead("n2", "arch", None, "arm64"))
