"""A run's timeline shown: as a page of its own, in the format of trace viewers, and as text. Reads, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from kubexm.plan.render.names import id_parts
from kubexm.plan.render.text import columns
from kubexm.plan.timeline import Span, Timeline

__all__ = ["timeline_to_html", "timeline_to_text", "timeline_to_trace"]

_MOST = 20_000
"""More bars than this no browser draws quickly: the shortest are left out then, and the page says so."""
_WIDTH, _NAME, _ROW, _GAP, _AXIS = 1400, 170, 15, 8, 24
_LETTER = 5.5
_STYLE = """
  :root { color-scheme: light dark; --page: #fbfbfd; --ink: #1c2430; --soft: #5b6475; --lane: #f1f3f7; --line: #dfe3ea;
    --succeeded: #7cc796; --satisfied: #cfdad3; --failed: #e0796f; --blocked: #e6bf77; --critical: #1f5fd0; }
  @media (prefers-color-scheme: dark) { :root { --page: #12161d; --ink: #eef1f6; --soft: #aab3c2; --lane: #1a2029;
    --line: #2a3340; --succeeded: #2f7d4f; --satisfied: #33443b; --failed: #a8443b; --blocked: #8a6a2a;
    --critical: #7fb0ff; } }
  body { margin: 24px; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
  h1 { font-size: 20px; margin: 0 0 4px; } p { color: var(--soft); margin: 2px 0 14px; }
  svg text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: var(--soft); }
  svg text.name { font-size: 9px; fill: var(--ink); pointer-events: none; } h2 { font-size: 16px; margin: 18px 0 0; }
  .lane { fill: var(--lane); } .tick { stroke: var(--line); }
  .bar { rx: 2; } .succeeded { fill: var(--succeeded); } .satisfied, .excluded { fill: var(--satisfied); }
  .failed, .interrupted { fill: var(--failed); } .blocked, .cancelled { fill: var(--blocked); }
  .critical { stroke: var(--critical); stroke-width: 2; }
  .bar:hover { opacity: .7; } .scroll { overflow-x: auto; }
  table { border-collapse: collapse; margin-top: 18px; } td, th { padding: 3px 14px 3px 0; text-align: left; }
  th { color: var(--soft); font-weight: 500; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
"""


def timeline_to_html(timeline: Timeline, *, title: str = "") -> str:
    """A page that needs nothing but itself: a bar for each (node, host), the critical path framed and listed."""
    shown = sorted(timeline.spans, key=lambda span: -span.seconds)[:_MOST]
    left_out = len(timeline.spans) - len(shown)
    critical = {(span.node, span.host) for span in timeline.chain}
    note = f" The {left_out:,} shortest are left out of the picture." if left_out else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title or timeline.name)}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{escape(title or timeline.name)}</h1>\n<p>{escape(_headline(timeline))}{note}</p>\n"
        f'<div class="scroll">{_svg(timeline, shown, critical)}</div>\n'
        f"<h2>Critical path: {len(timeline.chain):,} steps</h2>\n{_table(timeline)}</body></html>\n"
    )


def timeline_to_trace(timeline: Timeline) -> dict[str, Any]:
    """The trace event format that browsers' trace viewers open: a process for each host, a thread for each lane."""
    critical = {(span.node, span.host) for span in timeline.chain}
    events: list[dict[str, Any]] = []
    for number, (host, spans) in enumerate(_by_host(timeline.spans), start=1):
        events.append({"ph": "M", "name": "process_name", "pid": number, "args": {"name": host}})
        for lane, row in enumerate(_lanes(spans), start=1):
            events += [
                {
                    "ph": "X",
                    "name": span.node,
                    "cat": id_parts(span.node)[0],
                    "pid": number,
                    "tid": lane,
                    "ts": round((span.started - timeline.started) * 1e6),
                    "dur": round(span.seconds * 1e6),
                    "args": {
                        "state": span.state,
                        "busy": round(span.busy, 3),
                        "critical": (span.node, span.host) in critical,
                    },
                }
                for span in row
            ]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": _figures(timeline)}


def timeline_to_text(timeline: Timeline) -> str:
    """The critical path as a table, and the figures."""
    head = ("at", "waited", "took", "step", "host")
    rows = [
        (f"{at:.1f} s", f"{gap:.2f} s", f"{span.seconds:.2f} s", span.node, span.host)
        for at, gap, span in _steps(timeline)
    ]
    return "\n".join([*columns([head, *rows]), "", _headline(timeline)])


def _figures(timeline: Timeline) -> dict[str, Any]:
    return {
        "makespan": round(timeline.makespan, 3),
        "longestPath": round(timeline.longest, 3),
        "addedByKubexm": round(timeline.added, 3),
        "waitedInSteps": round(timeline.waited, 3),
        "roundTrips": dict(timeline.round_trips),
    }


def _headline(timeline: Timeline) -> str:
    ratio = f" ({timeline.makespan / timeline.longest:.2f} times)" if timeline.longest else ""
    return (
        f"{len(timeline.spans):,} steps in {timeline.makespan:.1f} s; the longest path through the plan is "
        f"{timeline.longest:.1f} s{ratio}. On the critical path kubexm added {timeline.added:.1f} s between steps; "
        f"steps waited {timeline.waited:.1f} s with no command running."
    )


def _steps(timeline: Timeline) -> Iterable[tuple[float, float, Span]]:
    """(when it began, how long nothing on the path went on before it, the span) along the critical path."""
    before = timeline.started
    for span in timeline.chain:
        yield span.started - timeline.started, max(0.0, span.started - before), span
        before = span.ended


def _by_host(spans: Iterable[Span]) -> list[tuple[str, list[Span]]]:
    hosts: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.started, span.ended, span.node)):
        hosts.setdefault(span.host, []).append(span)
    return sorted(hosts.items())


def _lanes(spans: Iterable[Span]) -> list[list[Span]]:
    """Spans in rows so that none overlap, as few rows as there are at once."""
    rows: list[list[Span]] = []
    for span in spans:
        row = next((row for row in rows if row[-1].ended <= span.started), None)
        if row is None:
            rows.append([span])
        else:
            row.append(span)
    return rows


def _svg(timeline: Timeline, shown: Sequence[Span], critical: set[tuple[str, str]]) -> str:
    scale = (_WIDTH - _NAME) / max(timeline.makespan, 0.001)
    parts: list[str] = []
    top = _AXIS
    for host, spans in _by_host(shown):
        rows = _lanes(spans)
        height = len(rows) * _ROW + 4
        parts.append(f'<rect class="lane" x="0" y="{top}" width="{_WIDTH}" height="{height}"/>')
        parts.append(f'<text x="6" y="{top + 14}">{escape(host)}</text>')
        for number, row in enumerate(rows):
            parts += [_bar(span, timeline.started, scale, top + 2 + number * _ROW, critical) for span in row]
        top += height + _GAP
    axis = [
        f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{_AXIS - 6}" y2="{top}"/>'
        f'<text x="{x + 3:.1f}" y="{_AXIS - 8}">{second:g} s</text>'
        for second in _ticks(timeline.makespan)
        for x in (_NAME + second * scale,)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" role="img">'
        + "".join(axis + parts)
        + "</svg>"
    )


def _bar(span: Span, start: float, scale: float, y: float, critical: set[tuple[str, str]]) -> str:
    kind = span.state + (" critical" if (span.node, span.host) in critical else "")
    tip = f"{span.node} on {span.host}: {span.state}, {span.seconds:.2f} s (from {span.started - start:.2f} s)"
    x, width = _NAME + (span.started - start) * scale, max(span.seconds * scale, 1.5)
    return (
        f'<rect class="bar {escape(kind)}" x="{x:.1f}" y="{y}" '
        f'width="{width:.1f}" height="{_ROW - 3}"><title>{escape(tip)}</title></rect>'
        + _label(span, x, y, width, (span.node, span.host) in critical)
    )


def _label(span: Span, x: float, y: float, width: float, critical: bool) -> str:
    """The name in its bar, whole or its own part; beside the bar if it decides how long the run took."""
    room, own = int((width - 6) / _LETTER), ".".join(part for part in id_parts(span.node)[1:] if part)
    if room >= len(span.node) or room >= len(own):
        name, at = (span.node if room >= len(span.node) else own), x + 3
    elif critical:
        name, at = own, x + width + 3
    elif room >= 4:
        name, at = own[: room - 1] + "…", x + 3
    else:
        return ""
    return f'<text class="name" x="{at:.1f}" y="{y + _ROW - 6:.1f}">{escape(name)}</text>'


def _ticks(seconds: float) -> list[float]:
    step = next((step for step in (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600) if seconds / step <= 14), 3600)
    return [number * step for number in range(int(seconds / step) + 1)]


def _table(timeline: Timeline) -> str:
    rows = "".join(
        f'<tr><td class="n">{at:.1f} s</td><td class="n">{gap:.2f} s</td><td class="n">{span.seconds:.2f} s</td>'
        f"<td>{escape(span.node)}</td><td>{escape(span.host)}</td></tr>"
        for at, gap, span in _steps(timeline)
    )
    head = "<tr><th>at</th><th>waited</th><th>took</th><th>step on the critical path</th><th>host</th></tr>"
    return f"<table>{head}{rows}</table>"
