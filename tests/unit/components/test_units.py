"""Units: what systemd makes of the words in them is what was meant."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kubexm.components.units import service_unit, unit_path, unit_word


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("--a=b", "--a=b"),
        ("--controllers=*,-x", "--controllers=*,-x"),
        ("--a=50%", "--a=50%%"),
        ("--a=$HOME", "--a=$$HOME"),
        ("--a=two words", '"--a=two words"'),
        ('--a="x"', r'"--a=\"x\""'),
        ("--a=b\\c", r'"--a=b\\c"'),
        ("--a=x;y", '"--a=x;y"'),
        ("--a=one\ntwo", r'"--a=one\ntwo"'),
        ("--a='", '"--a=\'"'),
    ],
)
def test_words(text: str, written: str) -> None:
    assert unit_word(text) == written


def test_a_unit_reads_one_argument_to_a_line() -> None:
    text = service_unit("A thing", ["/bin/a", "--b=c"], after=["x.service"], notifies=True, settings=["Nice=1"])
    assert "ExecStart=/bin/a \\\n  --b=c\n" in text
    assert "After=network-online.target x.service\n" in text
    assert "Type=notify\n" in text
    assert "LimitNOFILE=1048576\nNice=1\n\n[Install]" in text
    assert "Type=exec\n" in service_unit("A thing", ["/bin/a"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_finds_no_fault_with_it(tmp_path: Path) -> None:
    unit = tmp_path / "thing.service"
    unit.write_text(service_unit("A thing", ["/bin/true", '--odd=a "b" $c %d \\e'], notifies=True))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert "thing.service" not in done.stderr, done.stderr


def test_where_it_goes() -> None:
    assert str(unit_path("kubelet")) == "/etc/systemd/system/kubelet.service"
