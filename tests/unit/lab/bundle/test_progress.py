"""What people see of a build."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kubexm.lab.bundle.live import LiveProgress
from kubexm.lab.bundle.progress import PlainProgress, SilentProgress, duration


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (95, "1 m 35 s"), (3725, "62 m 05 s")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plain_lines_say_which_and_how_many_and_show_life_now_and_then() -> None:
    now = [0.0]
    lines: list[str] = []
    plain = PlainProgress(lines.append, clock=lambda: now[0], every=30)
    plain.planned(2, 47)
    plain.started("etcd", 1, 2)
    for at in (10, 29, 31, 45, 62):
        now[0] = at
        plain.doing("etcd", f"compiling at {at}")
    now[0] = 70
    plain.finished("etcd", 70, made=True)
    plain.started("runc", 2, 2)
    plain.finished("runc", 5, made=False)
    plain.note("that was it")
    assert lines == [
        "2 of 47 artefacts are to be made, 45 are there",
        "[1/2] etcd: making it (0.0 s so far)",
        "[1/2] etcd: compiling at 31 (31 s so far)",
        "[1/2] etcd: compiling at 62 (1 m 02 s so far)",
        "[1/2] etcd: done in 1 m 10 s",
        "[2/2] runc: making it (1 m 10 s so far)",
        "[2/2] runc: is there already",
        "that was it",
    ]


def test_a_warm_run_is_quiet() -> None:
    lines: list[str] = []
    PlainProgress(lines.append).planned(0, 47)
    assert lines == []


def test_live_output_leaves_a_line_for_each_that_is_done() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with LiveProgress(console) as live:
        live.planned(2, 3)
        live.started("etcd[x]", 1, 2)
        live.doing("etcd[x]", "compiling " + "x" * 500)
        live.finished("etcd[x]", 12, made=True)
        live.started("runc", 2, 2)
        live.finished("runc", 1, made=False)
        live.note("a [note]")
    text = out.getvalue()
    assert "✓ etcd[x] 12 s" in text
    assert "✓ runc is there already" in text
    assert "a [note]" in text
    assert "3/3" in text


def test_silence() -> None:
    silent = SilentProgress()
    silent.planned(1, 1)
    silent.started("a", 1, 1)
    silent.doing("a", "b")
    silent.finished("a", 1, made=True)
    silent.note("x")
