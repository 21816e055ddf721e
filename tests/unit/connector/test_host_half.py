"""The host's half runs in every POSIX shell there is here, and never runs a line that was cut off."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kubexm.connector.shell import _host_half

SHELLS = [shell for shell in ("dash", "bash", "mksh", "yash") if shutil.which(shell)]
"""Not BusyBox's, which prefers its own programs to those on PATH: hosts with those are refused."""
MARK = "00ff00ff00ff00ff"


def run(shell: str, store: Path, lines: str) -> str:
    words = [shell, "--posix"] if shell == "bash" else [shell]
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
        subprocess.run([shell], input=text, capture_output=True, check=False, timeout=30)
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
    done = subprocess.run([shell], input=text, capture_output=True, check=False, timeout=30)
    assert done.stdout.decode().split()[4] == "-"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_newer_token_is_refused_once_the_receipt_is_claimed(shell: str, tmp_path: Path) -> None:
    store, lease = tmp_path / "store", tmp_path / "lease"
    lease.write_text("7 somebody run-7 1\n")

    def change(name: str, fence: str, token: str) -> str:
        return f"k_change {name} 30 d '{fence}' '{token}' '' '' 'echo {name} >>{tmp_path}/log' .\nk_flush\n"

    lines = [
        change("first", "", "5"),  # nothing newer was seen here
        change("older", "", "4"),
        change("again", "", "5"),
        change("newer", "", "6"),
        change("late", "", "5"),
        change("keeper", str(lease), "6"),  # the lease that this host keeps is newer still
        change("none", "", ""),  # whoever has no lease, such as `exec`
    ]
    out = run(shell, store, "".join(lines))
    assert (tmp_path / "log").read_text().split() == ["first", "again", "newer", "none"]
    assert [line.split()[-1] for line in out.splitlines() if " x fenced " in line] == ["5", "6", "7"]
    left = {path.name for path in store.iterdir()}
    assert "older.begin" not in left, "what was refused never began"
    assert {name for name in left if name.startswith("fence")} == {"fence.6"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_claim_comes_before_the_comparison(shell: str, tmp_path: Path) -> None:
    # A run that takes over leaves its token and lists the receipts just before this change claims its own.
    store = tmp_path / "store"
    takes_over = f"k_now() {{ k_up=1 k_uptime=1; printf '' >{store}/fence.9; }}\n"
    out = run(shell, store, takes_over + f"k_change c1 30 d '' 8 '' '' 'echo ran >>{tmp_path}/log' .\nk_flush\n")
    assert not (tmp_path / "log").exists()
    assert f"{MARK} x fenced 9" in out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_that_leaves_its_cluster_keeps_nothing(shell: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    change = "k_change {} 30 d '' 5 '' '' 'echo x' .\nk_flush\n"
    forget = "k_read 0 30 '' 'k_forget {}' .\nk_flush\n"
    run(shell, store, change.format("run-1.1") + forget.format("run-1."))
    assert sorted(path.name for path in store.iterdir()) == ["fence.5", "id"]
    run(shell, store, change.format("run-2.1") + forget.format('""'))
    assert not store.exists()
