"""Where the time of a run went: the chain that decided it, the longest path, and what nobody's edge explains."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from kubexm.plan import ExecutionGraph, Span, Timeline, timeline_of
from kubexm.plan.render import timeline_to_html, timeline_to_text, timeline_to_trace
from tests.unit.plan.paper import fragment, node

HOSTS = "ab"


def graph() -> ExecutionGraph:
    parts = fragment(
        node("get", HOSTS),
        node("start", HOSTS, after_same_host=["get"]),
        node("ready", "a", after=["start"]),
        node("aside", "b"),
    )
    return ExecutionGraph.build("try", parts, known_hosts=HOSTS)


def span(name: str, host: str, started: float, ended: float, **more: float) -> Span:
    return Span(node=f"m.t.{name}", host=host, state="succeeded", started=100 + started, ended=100 + ended, **more)


def sample() -> Timeline:
    return timeline_of(
        graph(),
        [
            span("get", "a", 0, 1, busy=0.5),
            span("get", "b", 0, 4, busy=4),
            span("start", "a", 1, 2, busy=1),
            span("start", "b", 5, 7, busy=2),
            span("ready", "a", 7, 8, busy=0.5),
            span("aside", "b", 0, 6, busy=6),
        ],
    )


def test_the_chain_goes_back_to_whom_each_waited_for_longest() -> None:
    assert [(one.node, one.host) for one in sample().chain] == [
        ("m.t.get", "b"),
        ("m.t.start", "b"),
        ("m.t.ready", "a"),
    ]


def test_the_longest_path_leaves_out_waiting_that_no_edge_explains() -> None:
    timeline = sample()
    assert timeline.makespan == pytest.approx(8)
    assert timeline.longest == pytest.approx(4 + 2 + 1)


def test_waiting_for_a_cluster_is_not_counted_as_time_that_kubexm_added() -> None:
    timeline = sample()
    assert timeline.added == pytest.approx(8 - (4 + 2 + 1)), "only what is between steps"
    assert timeline.waited == pytest.approx(0.5)


def test_a_unit_that_ran_again_counts_once() -> None:
    timeline = timeline_of(graph(), [span("aside", "b", 0, 6), span("aside", "b", 10, 11)])
    assert [one.seconds for one in timeline.spans] == [pytest.approx(1)]
    assert timeline.makespan == pytest.approx(1)


def test_a_run_in_which_nothing_began_has_an_empty_timeline() -> None:
    timeline = timeline_of(graph(), [])
    assert (timeline.makespan, timeline.longest, timeline.chain) == (0.0, 0.0, ())
    assert "0 steps" in timeline_to_text(timeline)
    assert "<svg" in timeline_to_html(timeline)


def test_what_belongs_to_another_graph_is_left_out() -> None:
    assert timeline_of(graph(), [span("other", "a", 0, 1)]).spans == ()


def test_the_page_needs_nothing_else_and_frames_the_critical_path() -> None:
    class Reader(HTMLParser):
        bars: list[str]
        outside: list[str]

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found = dict(attrs)
            if "bar" in (found.get("class") or ""):
                self.bars.append(found.get("class") or "")
            self.outside += [value or "" for name, value in attrs if name in ("src", "href")]

    reader = Reader()
    reader.bars, reader.outside = [], []
    reader.feed(timeline_to_html(sample(), title="<run>"))
    assert len(reader.bars) == 6
    assert sum("critical" in bar for bar in reader.bars) == 3
    assert reader.outside == []
    assert "<run>" not in timeline_to_html(sample(), title="<run>")


def test_the_page_names_bars_and_lists_the_critical_path() -> None:
    timeline = sample()
    page = timeline_to_html(timeline)
    named = re.findall(r'<text class="name"[^>]*>([^<]+)</text>', page)
    assert {span.node for span in timeline.chain} <= set(named) | {f"work.do.{name}" for name in named}
    assert f"Critical path: {len(timeline.chain)} steps" in page


def test_the_trace_has_a_process_for_each_host_and_never_overlaps_within_a_thread() -> None:
    trace = json.loads(json.dumps(timeline_to_trace(sample())))
    names = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert sorted(names.values()) == ["a", "b"]
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == 6
    threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in spans:
        threads.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for pieces in threads.values():
        pieces.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(pieces))
    figures = {"makespan": 8.0, "longestPath": 7.0, "addedByKubexm": 1.0, "waitedInSteps": 0.5, "roundTrips": {}}
    assert trace["otherData"] == figures


def test_the_text_lists_the_critical_path_with_its_gaps() -> None:
    lines = timeline_to_text(sample()).splitlines()
    assert lines[2].split() == ["5.0", "s", "1.00", "s", "2.00", "s", "m.t.start", "b"]
    assert "1.14 times" in lines[-1]
