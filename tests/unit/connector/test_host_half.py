"""The host's half runs in every POSIX shell there is here, and never runs a line that was cut off."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kubexm.connector.shell import _host_half

SHELLS = [shell for shell in ("dash", "bash", "busybox", "mksh", "yash") if shutil.which(shell)]
MARK = "00ff00ff00ff00ff"


def run(shell: str, store: Path, lines: str) -> str:
    words = ["busybox", "sh"] if shell == "busybox" else [shell, "--posix"] if shell == "bash" else [shell]
    text = f"k_mark={MARK} k_dir={store}\n".encode() + _host_half() + lines.encode()
    done = subprocess.run(words, input=text, capture_output=True, check=False, timeout=30)
    hello, _, rest = done.stdout.decode().lstrip("\n").partition("\n")
    assert hello.startswith(f"{MARK} hello "), done
    assert done.stderr == b""
    return rest


@pytest.mark.parametrize("shell", SHELLS)
def test_reads_and_changes(shell: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    out = run(
        shell,
        store,
        "k_read 0 30 '' 'echo one' .\nk_read 1 30 'export A=b' 'echo $A; echo err >&2; exit 4' .\nk_flush\n"
        f"k_change c1 30 d '' '' '' '' 'echo done >>{tmp_path}/log; exit 5' .\nk_flush\n"
        f"k_change c1 30 d '' '' '' '' 'echo done >>{tmp_path}/log; exit 5' .\nk_flush\n"
        "k_receipts c\n",
    )
    assert f"one\n\n{MARK} r 0 0 -\nb\n\n{MARK} r 1 4 e\nerr\n\n{MARK} e 1\n" in out
    assert f"\n{MARK} r 0 5 -\n" in out
    assert f"\n{MARK} x known\n" in out
    assert (tmp_path / "log").read_text() == "done\n"
    words = out.splitlines()[-1].split()
    assert words[:3] == ["c1", "5", "gone"]
    assert words[-1] == "d"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_line_cut_anywhere_does_nothing(shell: str, tmp_path: Path) -> None:
    line = f"k_change c1 30 d '' '' '' 'export X=1' 'echo $X >>{tmp_path}/log' ."
    for size in range(1, len(line) - 1, 7):
        text = f"k_mark={MARK} k_dir={tmp_path}/store\n".encode() + _host_half() + line[:size].encode()
        words = [shell, "sh"] if shell == "busybox" else [shell]
        subprocess.run(words, input=text, capture_output=True, check=False, timeout=30)
        assert not (tmp_path / "log").exists(), line[:size]


@pytest.mark.parametrize("shell", SHELLS)
def test_scratch_is_tidied(shell: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    reads = "".join(f"k_read 0 30 '' 'echo {n}' .\nk_flush\n" for n in range(120))
    changes = "".join(f"k_change made-x-{n} 30 d '' '' '' '' 'echo {n}' .\nk_flush\n" for n in range(3))
    run(shell, store, reads + changes)
    left = sorted(path.name for path in store.iterdir())
    assert left == ["id", "made-x-2.begin", "made-x-2.e", "made-x-2.o", "made-x-2.rc"]
    assert (store.stat().st_mode & 0o777) == 0o700


@pytest.mark.parametrize("shell", SHELLS)
def test_a_directory_of_somebody_else_is_not_used(shell: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    text = f"k_mark={MARK} k_dir={tmp_path}/link\n".encode() + _host_half()
    words = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(words, input=text, capture_output=True, check=False, timeout=30)
    assert done.stdout.decode().split()[4] == "-"
