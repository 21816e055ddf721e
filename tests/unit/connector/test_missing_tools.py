"""Hosts whose programs lack options that kubexm uses, as BusyBox's do, are refused by name with what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, LocalConnector
from kubexm.connector.shell import _host_half
from kubexm.errors import ConnectError

SHELLS = [shell for shell in ("dash", "bash", "mksh", "yash") if shutil.which(shell)]
MARK = "00ff00ff00ff00ff"


def stand_ins(directory: Path, *names: str) -> dict[str, str]:
    """An environment in which these are links to one program that knows no option but -c, as BusyBox's programs are."""
    directory.mkdir()
    box = directory / "box"
    box.write_text('#!/bin/sh\ncase $1 in -c) ;; -*) echo "unrecognized option $1" >&2; exit 1 ;; esac\n')
    box.chmod(0o755)
    for name in names:
        (directory / name).symlink_to(box)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("tools", [(), ("setsid",), ("timeout", "tail"), ("setsid", "timeout", "tail")])
def test_programs_that_lack_options_are_named(shell: str, tools: tuple[str, ...], tmp_path: Path) -> None:
    environment = stand_ins(tmp_path / "programs", *tools)
    text = f"k_mark={MARK} k_dir={tmp_path}/store\n".encode() + _host_half()
    done = subprocess.run([shell], input=text, env=environment, capture_output=True, check=False, timeout=30)
    assert done.stdout.decode().split()[6] == ("".join(f",{tool}" for tool in tools) or "-")
    assert done.stderr == b""


@pytest.mark.parametrize("shell", SHELLS)
def test_links_to_programs_that_have_the_options_will_do(shell: str, tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    for tool in ("setsid", "timeout", "tail"):
        (tmp_path / "programs" / tool).symlink_to(shutil.which(tool) or tool)
    environment = {**os.environ, "PATH": f"{tmp_path}/programs:{os.environ['PATH']}"}
    text = f"k_mark={MARK} k_dir={tmp_path}/store\n".encode() + _host_half()
    done = subprocess.run([shell], input=text, env=environment, capture_output=True, check=False, timeout=30)
    assert done.stdout.decode().split()[6] == "-"


@pytest.mark.skipif(shutil.which("busybox") is None, reason="there is no busybox")
def test_the_shell_of_busybox_says_what_its_programs_lack(tmp_path: Path) -> None:
    text = f"k_mark={MARK} k_dir={tmp_path}/store\n".encode() + _host_half()
    done = subprocess.run(["busybox", "sh"], input=text, capture_output=True, check=False, timeout=30)
    hello = done.stdout.decode().split()
    assert hello[1] == "hello"
    where = subprocess.run(["busybox", "sh", "-c", "command -v setsid"], capture_output=True, text=True, check=True)
    prefers_its_own = not where.stdout.startswith("/")  # decided when it is built
    assert ("setsid" in hello[6]) is prefers_its_own


async def test_a_host_with_busyboxs_programs_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = stand_ins(tmp_path / "programs", "setsid", "timeout")
    monkeypatch.setenv("PATH", environment["PATH"])
    connectors = [
        LocalConnector(name, sudo=False, store=PurePosixPath(tmp_path / "store")) for name in ("alpine1", "alpine2")
    ]
    for connector in connectors:
        with pytest.raises(ConnectError) as caught:
            await connector.execute(Command(script="true", changes=True))
        assert caught.value.host == connector.host
        assert caught.value.message == "the host's setsid, timeout cannot do what kubexm needs, or is not there"
        assert "install util-linux and coreutils on the host" in caught.value.hint
        await connector.close()
