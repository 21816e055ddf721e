"""What counts as running, by the real shell script against a systemd that is only a file of properties."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.connector.base import Command, CommandResult
from kubexm.errors import CommandError
from kubexm.runner import Facts, Services

# Properties live in $FAKE/props; starting gives a new invocation and start time, enabling changes UnitFileState.
SYSTEMCTL = r"""#!/bin/sh
verb=$1
echo "$*" >>"$FAKE/calls"
. "$FAKE/props"
set_to() { sed -i "s/^$1=.*/$1=$2/" "$FAKE/props"; }
case $verb in
  show) sed "s/'//g; s/^UnitFileState=enabled$/UnitFileState=${REMEMBERED:-enabled}/" "$FAKE/props" ;;
  is-enabled) echo "$UnitFileState" ;;
  daemon-reload) set_to NeedDaemonReload no; if [ "$LoadState" = not-found ]; then set_to LoadState loaded; fi ;;
  enable|disable)
    set_to UnitFileState "${verb}d"
    if [ "$VERSION" -ge 257 ]; then set_to NeedDaemonReload yes; fi ;;
  stop) set_to ActiveState inactive; set_to SubState dead ;;
  restart|start|reload-or-restart)
    if [ -e "$FAKE/broken" ]; then
      set_to ActiveState failed; set_to Result exit-code; set_to ExecMainStatus 2
      exit 1
    fi
    n=$(($(cat "$FAKE/count") + 1))
    echo "$n" >"$FAKE/count"
    set_to ActiveState active; set_to SubState running; set_to InvocationID "inv$n"
    set_to ExecMainStartTimestamp "'$(date -u '+%a %Y-%m-%d %H:%M:%S UTC')'" ;;
esac
"""
JOURNAL = """#!/bin/sh
case $* in *_SYSTEMD_INVOCATION_ID=inv0*) echo "etcd: error: listen tcp :2379: address already in use" ;; esac
"""


@dataclass
class Fake:
    """A host whose systemd is a file."""

    home: Path

    @property
    def host(self) -> str:
        return "n1"

    def set(self, **values: str) -> None:
        props = dict(line.split("=", 1) for line in (self.home / "props").read_text().splitlines() if "=" in line)
        props.update({key: f"'{value}'" if " " in value else value for key, value in values.items()})
        (self.home / "props").write_text("".join(f"{key}={value}\n" for key, value in props.items()))

    def calls(self, *verbs: str) -> list[str]:
        return [line for line in (self.home / "calls").read_text().splitlines() if line.split()[0] in verbs]

    async def execute(self, command: Command) -> CommandResult:
        env = {**os.environ, "PATH": f"{self.home}:{os.environ['PATH']}", "FAKE": str(self.home)}
        done = subprocess.run(
            ["sh", "-c", command.script], env=env, capture_output=True, input=command.stdin, timeout=60
        )
        return CommandResult(
            host="n1", command=command.display, exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.fixture
def host(tmp_path: Path) -> Fake:
    for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNAL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "count").write_text("0")
    (tmp_path / "calls").write_text("")
    (tmp_path / "props").write_text("")
    for name in ("unit", "dropin", "config"):
        (tmp_path / name).write_text(name)
    fake = Fake(tmp_path)
    fake.set(
        LoadState="loaded", ActiveState="inactive", SubState="dead", UnitFileState="disabled", InvocationID="inv0",
        FragmentPath=str(tmp_path / "unit"), DropInPaths=str(tmp_path / "dropin"), NeedDaemonReload="no", Type="notify",
        ExecMainStartTimestamp="", ActiveEnterTimestamp="", Result="success", ExecMainStatus="0", ExecMainCode="0",
        VERSION="252",
    )  # fmt: skip
    return fake


@pytest.fixture
def services(host: Fake) -> Services:
    return Services(host, Facts.assumed(), state=PurePosixPath(host.home) / "state")


async def test_runs_with_follows_a_start_and_every_input(services: Services, host: Fake) -> None:
    inputs = [PurePosixPath(host.home / "config")]
    assert await services.why_not("etcd", inputs) == "inactive (dead)"
    await services.restart("etcd", inputs)
    assert await services.runs_with("etcd", inputs)
    for name in ("config", "unit", "dropin"):
        (host.home / name).write_text(f"{name} edited")
        assert await services.why_not("etcd", inputs) == "inputs changed"
        await services.restart("etcd", inputs)
        assert await services.runs_with("etcd", inputs)
    assert await services.why_not("etcd", [*inputs, PurePosixPath(host.home / "count")]) == "inputs changed"
    (host.home / "config").unlink()
    assert await services.why_not("etcd", inputs) == f"missing {host.home}/config"
    with pytest.raises(CommandError, match="is started from, is not there"):
        await services.restart("etcd", inputs)


async def test_a_unit_somebody_else_started_is_not_trusted(services: Services, host: Fake) -> None:
    host.set(ActiveState="active", SubState="running", UnitFileState="enabled")
    assert await services.why_not("etcd") == "not started by kubexm"


async def test_disabling_or_a_pending_reload_is_seen(services: Services, host: Fake) -> None:
    await services.restart("etcd")
    host.set(UnitFileState="disabled")
    assert await services.why_not("etcd") == "not enabled"
    (host.home / "unit").write_text("edited")
    host.set(UnitFileState="enabled", NeedDaemonReload="yes")
    assert await services.why_not("etcd") == "unit file changed"
    await services.restart("etcd")
    assert len(host.calls("daemon-reload")) == 1
    assert await services.runs_with("etcd")


async def test_a_unit_that_is_enabled_is_read_again_where_systemd_wants_that(services: Services, host: Fake) -> None:
    host.set(VERSION="257")
    await services.restart("etcd")
    assert [call.split()[0] for call in host.calls("enable", "daemon-reload", "restart")] == [
        "enable",
        "daemon-reload",
        "restart",
    ]
    assert await services.runs_with("etcd")


async def test_files_of_other_units_do_not_make_this_one_start_again(services: Services, host: Fake) -> None:
    await services.restart("etcd")
    host.set(NeedDaemonReload="yes")  # as systemd 257 says of all units when a file of one was written
    assert await services.runs_with("etcd")


async def test_enabling_makes_systemd_read_no_units_again_and_is_seen_all_the_same(
    services: Services, host: Fake
) -> None:
    host.set(REMEMBERED="disabled")  # as systemd shows a unit that it loaded before
    await services.restart("etcd")
    (call,) = host.calls("enable")
    assert "--no-reload" in call
    assert not host.calls("daemon-reload")
    assert await services.runs_with("etcd")


async def test_a_later_start_counts_only_if_no_input_was_touched_after_it(services: Services, host: Fake) -> None:
    await services.restart("etcd")
    old = "Mon 2001-01-01 00:00:00 UTC"
    host.set(InvocationID="other", ExecMainStartTimestamp=old)
    assert await services.why_not("etcd") == "started before its inputs were last touched"
    host.set(ExecMainStartTimestamp="Mon 2096-01-02 00:00:00 UTC")  # as after a reboot
    assert await services.runs_with("etcd")


async def test_which_states_are_up(services: Services, host: Fake) -> None:
    await services.restart("etcd")
    host.set(SubState="exited")
    assert await services.why_not("etcd") == "active (exited)"
    host.set(Type="oneshot")
    assert await services.runs_with("etcd")
    host.set(ActiveState="activating", SubState="auto-restart")
    assert await services.why_not("etcd") == "activating (auto-restart)"
    await services.restart("x.timer")
    host.set(ActiveState="active", SubState="waiting")
    assert await services.runs_with("x.timer")


async def test_large_inputs_count_by_their_identity(services: Services, host: Fake) -> None:
    program = host.home / "program"
    program.write_bytes(b"x" * 2_000_000)
    await services.restart("etcd", [PurePosixPath(program)])
    assert await services.runs_with("etcd", [PurePosixPath(program)])
    replacement = host.home / "next"
    replacement.write_bytes(b"y" * 2_000_000)
    replacement.rename(program)
    assert await services.why_not("etcd", [PurePosixPath(program)]) == "inputs changed"


async def test_directories_are_inputs_with_all_in_them(services: Services, host: Fake) -> None:
    (host.home / "certs.d/registry").mkdir(parents=True)
    (host.home / "certs.d/registry/hosts.toml").write_text("a")
    inputs = [PurePosixPath(host.home / "certs.d")]
    await services.restart("containerd", inputs)
    assert await services.runs_with("containerd", inputs)
    (host.home / "certs.d/other").write_text("b")
    assert await services.why_not("containerd", inputs) == "inputs changed"


async def test_a_unit_that_fails_tells_its_own_last_words(services: Services, host: Fake) -> None:
    (host.home / "broken").touch()
    with pytest.raises(CommandError) as caught:
        await services.restart("etcd")
    assert "etcd.service did not start: failed (dead), result exit-code, exit status 2" in caught.value.message
    assert "address already in use" in caught.value.message
    assert "journalctl -u etcd.service" in caught.value.hint
    assert not await services.runs_with("etcd")
    failure = await services.failure("etcd")
    assert isinstance(failure, CommandError)
    assert "address already in use" in failure.message


async def test_reload_takes_over_inputs_without_a_new_invocation(services: Services, host: Fake) -> None:
    inputs = [PurePosixPath(host.home / "config")]
    await services.restart("haproxy", inputs)
    (host.home / "config").write_text("more backends")
    await services.reload("haproxy", inputs)
    assert await services.runs_with("haproxy", inputs)
    assert host.calls("reload-or-restart") == ["reload-or-restart -- haproxy.service"]


async def test_start_leaves_what_runs_and_does_not_vouch_for_it(services: Services, host: Fake) -> None:
    inputs = [PurePosixPath(host.home / "config")]
    await services.start("etcd", inputs)
    assert await services.runs_with("etcd", inputs)
    (host.home / "config").write_text("edited")
    await services.start("etcd", inputs)
    assert await services.why_not("etcd", inputs) == "inputs changed"
    assert host.calls("start") == ["start -- etcd.service"]


async def test_missing_and_masked_units(services: Services, host: Fake) -> None:
    host.set(LoadState="masked")
    with pytest.raises(CommandError, match="is masked") as caught:
        await services.restart("etcd")
    assert "unmask" in caught.value.hint
    host.set(LoadState="not-found", ActiveState="inactive")
    await services.stop("etcd")
    await services.disable("etcd")
    assert host.calls("stop", "disable") == []


async def test_how_a_unit_was_is_kept_once(services: Services, host: Fake) -> None:
    host.set(UnitFileState="disabled", ActiveState="active", SubState="running")
    await services.restart("docker")
    await services.stop("docker")
    await services.disable("docker")
    entry = host.home / "state/originals/unit/docker.service"
    assert (entry / "state").read_text() == "disabled active\n"
    assert (entry / "wrote").read_text() == "enabled\ndisabled\n"


async def test_status(services: Services, host: Fake) -> None:
    host.set(ActiveState="active", SubState="running", UnitFileState="enabled", MainPID="77", NRestarts="3")
    status = await services.status("etcd")
    assert (status.present, status.is_active, status.is_enabled, status.main_pid, status.restarts) == (
        True,
        True,
        True,
        77,
        3,
    )
