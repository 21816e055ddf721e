"""Schedules, backups, and what etcd prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kubexm.components.etcd import backup
from kubexm.components.etcd.client import has_quorum, parse_members, quorum, telling
from kubexm.components.etcd.schedule import on_calendar
from tests.unit.components.etcd.test_arguments import etcd

LIST = {
    "header": {"cluster_id": 14765410957201216590, "member_id": 14590032085621120027, "raft_term": 2},
    "members": [
        {"ID": 10374955796920631040, "peerURLs": ["https://10.0.0.12:2380"], "isLearner": True},
        {
            "ID": 14590032085621120027,
            "name": "cp1",
            "peerURLs": ["https://10.0.0.11:2380"],
            "clientURLs": ["https://10.0.0.11:2379"],
        },
    ],
}


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 3 * * *", ["*-*-* 03:00:00"]),
        ("*/15 2-4 * * *", ["*-*-* 02,03,04:00,15,30,45:00"]),
        ("0 0 * * 0", ["Sun *-*-* 00:00:00"]),
        ("30 1 * * 7,1-2", ["Mon,Tue,Sun *-*-* 01:30:00"]),
        ("5/20 0 1 */6 *", ["*-01,07-01 00:05,25,45:00"]),
        ("0 4 1,15 * 5", ["*-*-01,15 04:00:00", "Fri *-*-* 04:00:00"]),  # cron: either of them
        ("0 4 */10 * 5", ["Fri *-*-01,11,21,31 04:00:00"]),  # cron: with a star, both of them
    ],
)
def test_cron_as_systemd_has_it(cron: str, expected: list[str]) -> None:
    assert list(on_calendar(cron)) == expected
    if shutil.which("systemd-analyze"):
        for event in expected:
            subprocess.run(["systemd-analyze", "calendar", event], check=True, capture_output=True)


def test_every_hour_and_every_weekday_of_cron_is_understood() -> None:
    assert on_calendar("* * * * *") == ("*-*-* *:*:00",)
    assert on_calendar("0 0 * * 0-7") == ("Mon,Tue,Wed,Thu,Fri,Sat,Sun *-*-* 00:00:00",)


def test_members_as_etcdctl_lists_them() -> None:
    found = parse_members(json.dumps(LIST))
    assert found is not None
    assert found.cluster == 14765410957201216590
    assert [member.name for member in found.voters] == ["cp1"]
    joining = found.with_peer_url("https://10.0.0.12:2380")
    assert joining is not None
    assert joining.learner
    assert joining.hex_id == "8ffb3f5413d57f00"


@pytest.mark.parametrize("text", ["", "Error: context deadline exceeded", "{}", "[]", '{"members": 1}'])
def test_what_is_no_list_is_none(text: str) -> None:
    assert parse_members(text) is None


def test_quorum() -> None:
    assert [quorum(count) for count in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert has_quorum(3, 2)
    assert not has_quorum(4, 2)


def test_log_lines_are_made_readable() -> None:
    fatal = json.dumps({"level": "fatal", "ts": "t", "caller": "c", "msg": "discovery failed", "error": "no disk"})
    info = json.dumps({"level": "info", "ts": "t", "caller": "c", "msg": "starting"})
    assert telling(f"{info}\n{fatal}\n{fatal}\n\n{info}\nUsage:\n") == ["fatal: discovery failed: no disk"]
    assert telling(f"{info}\nplain\n") == ["info: starting", "plain"]


def test_a_backup_keeps_the_newest_and_leaves_everything_else(tmp_path: Path) -> None:
    """The script itself, with stand-ins for etcd's programs."""
    directory, programs = tmp_path / "my backups", tmp_path / "bin"
    directory.mkdir()
    programs.mkdir()
    for name in ("etcdctl", "etcdutl"):
        program = programs / name
        program.write_text(
            f"#!/bin/sh\nfor w; do l=$w; done\n{'echo data >$l' if name == 'etcdctl' else 'test -s $l'}\n"
        )
        program.chmod(0o755)
    for day in range(1, 6):
        (directory / f"etcd-2026010{day}T030000Z.db").write_text("old")
    for other in ("notes.txt", "etcd-by-hand.db", ".etcd-20250101T000000Z.db.part"):
        (directory / other).write_text("x")
    text = backup.script(etcd(f'backup: {{schedule: "0 3 * * *", keep: 3, directory: "{directory}"}}'))
    text = text.replace("/usr/local/bin", str(programs))
    subprocess.run(["sh", "-c", text], check=True, env={"PATH": os.environ["PATH"]})
    left = sorted(path.name for path in directory.iterdir())
    kept = [name for name in left if name.startswith("etcd-2")]
    assert kept[:2] == ["etcd-20260104T030000Z.db", "etcd-20260105T030000Z.db"]
    assert len(kept) == 3
    assert (directory / kept[2]).read_text() == "data\n"
    assert (directory / kept[2]).stat().st_mode & 0o777 == 0o600
    assert sorted(set(left) - set(kept)) == ["etcd-by-hand.db", "notes.txt"], "a part of an earlier attempt is gone"


def test_a_backup_that_fails_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "etcd-20260101T030000Z.db").write_text("old")
    text = backup.script(etcd(f'backup: {{schedule: "0 3 * * *", keep: 1, directory: "{tmp_path}"}}'))
    failed = subprocess.run(["sh", "-c", text.replace("/usr/local/bin", "/nowhere")], check=False, capture_output=True)
    assert failed.returncode != 0
    assert [path.name for path in tmp_path.iterdir()] == ["etcd-20260101T030000Z.db"]


def test_the_timer_follows_the_schedule() -> None:
    text = backup.timer(etcd('backup: {schedule: "0 4 1 * 5"}'))
    assert "OnCalendar=*-*-01 04:00:00\nOnCalendar=Fri *-*-* 04:00:00\n" in text
