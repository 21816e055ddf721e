"""What every connector to a real host keeps, over SSH as root, over SSH with sudo, and locally."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
from pathlib import PurePosixPath

import pytest

from kubexm.connector import Command, ReceiptState, Stream, Upload
from kubexm.errors import CommandTimeout, FencedError, OutcomeUnknown, UsageError
from kubexm.redact import Secret

from .conftest import Way

EVERY_BYTE = bytes(range(256))


def name() -> str:
    return f"t{secrets.token_hex(6)}"


async def test_status_and_streams_are_kept_apart(way: Way) -> None:
    result = await way.connector.execute(Command(script="echo out; echo err >&2; exit 3"))
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)
    assert result.started <= result.ended
    assert result.host == way.connector.host


CONTAINED = [
    ("exit 7", 7),
    ("cd /; umask 077; export PATH=/nowhere; false", 1),
    ("if", 2),
    ("echo 'never closed", 2),
    ("cat", 0),
    ("set -eu; unset HOME; false; exit 9", 1),
    ("sh -c 'kill -9 $$'", 137),
    ("exec true", 0),
    ("# only a comment", 0),
    ("", 0),
    ("nosuchcommand-at-all", 127),
    ("set -- a b; shift; trap 'exit 4' EXIT", 4),
    ("k_own=/nowhere; k_mark=x; k_say() { :; }; exit 9", 9),
]


@pytest.mark.parametrize("changes", [False, True])
async def test_a_command_is_contained(way: Way, *, changes: bool) -> None:
    for script, exit_code in CONTAINED:
        result = await way.connector.execute(Command(script=script, changes=changes))
        assert (script, result.exit_code) == (script, exit_code)
        assert await way.shell("echo still $(umask) ${HOME:+home}; command -v ls >/dev/null") == "still 0022 home"


EXACT = [
    b"",
    b"\n",
    b"\n\n\n",
    b"no newline",
    EVERY_BYTE,
    EVERY_BYTE * 4000,
    b"\nhello 0 /run x\n\nr 0 0 -\n",
    "grün ✓\n".encode() * 100,
    b"x" * 2047 + b"\n",
    b"\r\n\\n%s$HOME`id`",
]


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("long", [False, True])
async def test_output_is_exact(way: Way, *, changes: bool, long: bool) -> None:
    for content in EXACT:
        result = await way.connector.execute(Command(script="cat", stdin=content, changes=changes, long=long))
        assert result.exit_code == 0
        assert result.stdout == content


async def test_errors_are_exact_too(way: Way) -> None:
    result = await way.connector.execute(Command(script="cat >&2; echo out", stdin=EVERY_BYTE * 100))
    assert (result.stdout, result.stderr) == (b"out\n", EVERY_BYTE * 100)


@pytest.mark.parametrize("changes", [False, True])
async def test_stdin_of_any_size(way: Way, *, changes: bool) -> None:
    for content in (b"short", EVERY_BYTE * 2, os.urandom(300_000)):
        result = await way.connector.execute(Command(script="cat", stdin=content, changes=changes))
        assert result.stdout == content
    assert "stdin-" not in await way.shell('ls "$k_dir"')


async def test_much_output_is_streamed_and_capped(way: Way) -> None:
    seen = 0

    def sink(stream: Stream, data: bytes) -> None:
        nonlocal seen
        seen += len(data)

    size = 100_000_000
    result = await way.connector.execute(
        Command(script=f"echo first; head -c {size} /dev/zero; echo last", long=True, timeout=120, sink=sink)
    )
    assert seen == size + len("first\nlast\n")
    assert result.truncated
    assert len(result.stdout) < 3_000_000
    assert result.stdout.startswith(b"first\n")
    assert result.stdout.endswith(b"last\n")


async def test_more_than_a_host_should_buffer_is_read_again_as_a_stream(way: Way) -> None:
    seen: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def sink(stream: Stream, data: bytes) -> None:
        seen[stream] += len(data)

    script = "head -c 9000000 /dev/zero | tr '\\0' x; echo done >&2"
    result = await way.connector.execute(Command(script=script, timeout=60))
    assert result.exit_code == 0
    assert (result.stdout[:1], result.stdout[-1:], result.stderr) == (b"x", b"x", b"done\n")
    await way.connector.execute(Command(script=script, timeout=60, sink=sink))
    assert seen == {"stdout": 9_000_000, "stderr": 5}


@pytest.mark.parametrize("changes", [False, True])
async def test_a_child_left_behind_neither_hangs_nor_leaks(way: Way, *, changes: bool) -> None:
    marker = way.directory / "go"
    script = f"echo mine; (while ! [ -e {marker} ]; do sleep 0.05; done; echo LATE; echo LATE >&2; echo x >{marker}2) &"
    result = await way.connector.execute(Command(script=script, changes=changes))
    assert result.stdout == b"mine\n"
    waited = await way.connector.execute(
        Command(script=f"echo x >{marker}; while ! [ -e {marker}2 ]; do sleep 0.05; done; echo yours")
    )
    assert (waited.stdout, waited.stderr) == (b"yours\n", b"")


@pytest.mark.parametrize("changes", [False, True])
async def test_a_child_that_keeps_a_streamed_pipe_open(way: Way, *, changes: bool) -> None:
    pieces: list[bytes] = []
    command = Command(
        script="echo mine; sleep 30 & echo $!",
        long=True,
        changes=changes,
        sink=lambda stream, data: pieces.append(data),
        timeout=20,
    )
    result = await way.connector.execute(command)
    first, child = result.text.split()
    assert first == "mine"
    assert b"".join(pieces) == result.stdout
    await way.shell(f"kill {child}")


async def test_reads_of_one_tick_are_one_message_each_with_its_own_reply(way: Way) -> None:
    await way.shell(":")
    scripts = [f'echo {n} "$k_mark" "$k_message"; echo e{n} >&2; exit {n}' for n in range(20)]
    results = await asyncio.gather(*(way.connector.execute(Command(script=script)) for script in scripts))
    assert [result.exit_code for result in results] == list(range(20))
    assert [result.stderr for result in results] == [b"e%d\n" % n for n in range(20)]
    assert [result.text.split()[0] for result in results] == [str(n) for n in range(20)]
    assert len({tuple(result.text.split()[1:]) for result in results}) == 1
    alone = await way.shell('echo "$k_mark" "$k_message"')
    assert alone.split() != results[0].text.split()[1:]


async def test_replies_of_every_kind_stay_with_their_reads(way: Way) -> None:
    """What is long or binary goes another way than short text; no mixture of them may confuse whose output it is."""
    outputs = [b"", b"short\n", b"no end", b"a\0b", b"x" * 5000]
    kinds = [(out, err) for out in outputs for err in outputs]
    for rotation in range(0, len(kinds), 4):
        batch = kinds[rotation:] + kinds[:rotation]
        scripts = [
            "; ".join(
                f"printf %s {base64.b64encode(data).decode()} | base64 -d >&{fd}" for fd, data in ((1, out), (2, err))
            )
            for out, err in batch
        ]
        results = await asyncio.gather(*(way.connector.execute(Command(script=script)) for script in scripts))
        assert [(result.stdout, result.stderr) for result in results] == batch


async def test_large_files_arrive_in_the_order_they_were_asked_for(way: Way) -> None:
    """Two at a time: side by side all of them would arrive last, whoever waits for them."""
    done: list[int] = []

    async def send(number: int) -> None:
        content = bytes([number]) * (3 * 1024 * 1024)
        await way.connector.upload(Upload(source=content, path=PurePosixPath(way.directory / f"large-{number}")))
        done.append(number)

    await asyncio.gather(*(send(number) for number in range(8)))
    assert all(abs(place - number) <= 2 for place, number in enumerate(done)), done


async def test_one_answer_does_for_all_who_ask_the_same_in_one_moment(way: Way) -> None:
    trace = way.directory / "asked"
    ask = Command(script=f"echo x >>{trace}; wc -l <{trace}", display="count")
    other = Command(script=f"{ask.script}", display="count by another name")
    first, *rest = await asyncio.gather(*map(way.connector.execute, (ask, ask, other)))
    assert [each.text.strip() for each in (first, *rest)] == ["1", "1", "1"]
    assert rest[-1].command == "count by another name"
    assert (await way.connector.execute(ask)).text.strip() == "2", "a later question is asked anew"
    given_up, kept = (asyncio.ensure_future(way.connector.execute(ask)) for _ in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    assert int((await kept).text) > 2, "nobody goes without an answer because another gave up"
    changed = await asyncio.gather(*(way.connector.execute(Command(script=ask.script, changes=True)) for _ in range(2)))
    assert len({each.text for each in changed}) == 2


async def test_changes_are_never_coalesced(way: Way) -> None:
    log = way.directory / "log"
    script = f"echo start >>{log}; sleep 0.05; echo end >>{log}; read -r line </proc/self/stat; echo ${{line%% *}}"
    results = await asyncio.gather(*(way.connector.execute(Command(script=script, changes=True)) for _ in range(6)))
    assert len({result.text for result in results}) == 6


async def test_a_change_shares_its_group_with_nobody(way: Way) -> None:
    """What an earlier change left behind outlives a later one that is ended with its whole group."""
    group = "ps -o pgid= -p $$"
    first = await way.shell_of_a_change(f"sleep 96 </dev/null >/dev/null 2>&1 & echo $!; {group}")
    left, *groups = first.split()
    groups += (await way.shell_of_a_change(group)).split()
    with pytest.raises(CommandTimeout) as caught:
        await way.connector.execute(Command(script=f"{group}; sleep 97", changes=True, timeout=1.5))
    groups += caught.value.stdout.split()
    assert groups[0] not in groups[1:]
    assert await way.shell(f"kill {left} && echo it lives") == "it lives"
    groups += (await way.shell_of_a_change(group)).split()
    assert groups[3] not in groups[:3], "a group that was ended is not used again"


async def test_a_slow_command_holds_up_nothing(way: Way) -> None:
    marker = way.directory / "go"
    slow = asyncio.ensure_future(
        way.connector.execute(Command(script=f"while ! [ -e {marker} ]; do sleep 0.05; done", changes=True, timeout=30))
    )
    await asyncio.sleep(0)
    assert await way.shell("echo quick") == "quick"
    assert not slow.done()
    await way.shell(f"echo x >{marker}")
    assert (await slow).ok


async def test_large_command_text(way: Way) -> None:
    text = "x" * 300_000
    for changes in (False, True):
        result = await way.connector.execute(Command(script=f"printf %s {text} | wc -c", changes=changes))
        assert result.text == "300000"


async def test_environment_reaches_the_command_and_nobody_else(way: Way) -> None:
    secret = secrets.token_hex(12)
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"
    for changes in (False, True):
        result = await way.connector.execute(
            Command(
                script=f'echo "$TOKEN|$QUOTED"; {look}',
                env={"TOKEN": Secret(secret), "QUOTED": "it's $HOME"},
                changes=changes,
            )
        )
        first, _, others = result.text.partition("\n")
        assert first == f"{secret}|it's $HOME"
        assert secret not in others
    assert await way.shell('echo "${TOKEN-unset}"') == "unset"


async def test_names_of_variables_are_checked(way: Way) -> None:
    with pytest.raises(UsageError, match="no name for an environment variable"):
        await way.connector.execute(Command(script=":", env={"A;id": "x"}))


async def test_nul_in_a_script_is_refused(way: Way) -> None:
    with pytest.raises(UsageError, match="NUL"):
        await way.connector.execute(Command(script="echo \0"))


async def test_sudo_is_asked_for_or_not(way: Way) -> None:
    user = "ops" if way.connector.host == "ops" else "root"
    assert await way.shell("id -un") == "root"
    result = await way.connector.execute(Command(script="id -un", sudo=False))
    assert result.text == user
    changed = await way.connector.execute(Command(script="id -un", sudo=False, changes=True))
    assert changed.text == user


async def test_boot_id(way: Way) -> None:
    assert await way.connector.boot_id() == await way.shell("cat /proc/sys/kernel/random/boot_id")


# changes


async def test_a_change_leaves_a_receipt(way: Way) -> None:
    receipt = name()
    await way.connector.execute(Command(script="echo a; echo b >&2; exit 4", changes=True, receipt=f"{receipt}.1"))
    (found,) = await way.connector.settle(f"{receipt}.", wait=0)
    assert found.name == f"{receipt}.1"
    assert found.state is ReceiptState.EXITED
    assert (found.exit_code, found.stdout, found.stderr) == (4, b"a\n", b"b\n")
    assert await way.connector.settle(name(), wait=0) == ()


async def test_one_name_runs_once(way: Way) -> None:
    receipt, log = name(), way.directory / "log"
    command = Command(script=f"echo run >>{log}; echo out; exit 5", changes=True, receipt=receipt)
    first = await way.connector.execute(command)
    seen: list[bytes] = []
    again = await way.connector.execute(
        Command(script=command.script, changes=True, receipt=receipt, sink=lambda stream, data: seen.append(data))
    )
    assert (first.exit_code, again.exit_code, again.stdout) == (5, 5, b"out\n")
    assert seen == [b"out\n"]
    assert await way.shell(f"cat {log}") == "run"
    with pytest.raises(UsageError, match="belongs to another command"):
        await way.connector.execute(Command(script="echo else", changes=True, receipt=receipt))


async def test_names_of_receipts_are_checked(way: Way) -> None:
    with pytest.raises(UsageError, match="no name for a receipt"):
        await way.connector.execute(Command(script=":", changes=True, receipt="../x"))


async def test_settling_waits_for_what_still_runs(way: Way) -> None:
    receipt, marker = name(), way.directory / "go"
    running = asyncio.ensure_future(
        way.connector.execute(
            Command(
                script=f"echo begun >{marker}1; while ! [ -e {marker} ]; do sleep 0.05; done; echo done",
                changes=True,
                receipt=receipt,
            )
        )
    )
    await way.shell(f"while ! [ -e {marker}1 ]; do sleep 0.05; done")
    settling = asyncio.ensure_future(way.connector.settle(receipt, wait=30))
    await way.shell(f"echo x >{marker}")
    (found,) = await settling
    assert (found.state, found.exit_code, found.stdout) == (ReceiptState.EXITED, 0, b"done\n")
    assert (await running).stdout == b"done\n"


async def test_settling_ends_what_runs_too_long(way: Way) -> None:
    receipt, marker = name(), way.directory / "go"
    script = f"echo $$ >{marker}; trap '' TERM; while :; do sleep 0.1; done"
    running = asyncio.ensure_future(way.connector.execute(Command(script=script, changes=True, receipt=receipt)))
    await way.shell(f"while ! [ -s {marker} ]; do sleep 0.05; done")
    (found,) = await way.connector.settle(receipt, wait=0)
    assert (found.state, found.exit_code) == (ReceiptState.ENDED, 137)
    with pytest.raises(OutcomeUnknown, match="kubexm ended it before it was done"):
        await running
    # It may be a zombie for a moment: on this machine whoever is process 1 takes its time.
    await way.shell(f"while kill -0 $(cat {marker}) 2>/dev/null; do sleep 0.05; done")


@pytest.mark.parametrize("long", [False, True])
async def test_a_receipt_tells_a_failed_command_from_one_that_kubexm_ended(way: Way, *, long: bool) -> None:
    receipt, marker = name(), way.directory / "begun"
    failed = Command(script="exit 143", changes=True, receipt=f"{receipt}.1", long=long, sink=_ignore)
    assert (await way.connector.execute(failed)).exit_code == 143
    script = f"trap 'exit 3' TERM; echo x >{marker}; while :; do sleep 0.05; done"
    ended = Command(script=script, changes=True, receipt=f"{receipt}.2", long=long, sink=_ignore)
    running = asyncio.ensure_future(way.connector.execute(ended))
    await way.shell(f"while ! [ -s {marker} ]; do sleep 0.05; done")
    running.cancel()  # as in a run that is stopped
    with pytest.raises(asyncio.CancelledError):
        await running
    found = await way.connector.settle(f"{receipt}.", wait=30)
    assert [each.state for each in found] == [ReceiptState.EXITED, ReceiptState.ENDED]
    assert found[0].exit_code == 143


def _ignore(stream: Stream, data: bytes) -> None:
    """Makes a long command one whose output is followed."""


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("changes", [False, True])
async def test_past_its_deadline_the_whole_group_is_ended(way: Way, *, changes: bool, long: bool) -> None:
    pids = way.directory / "pids"
    script = (
        f"echo output; echo $$ >{pids}; sleep 97 & echo $! >>{pids}; "
        f"timeout 98 sh -c 'echo $$ >>{pids}; sleep 99'; echo never"
    )
    with pytest.raises(CommandTimeout, match="passed its deadline") as caught:
        await way.connector.execute(Command(script=script, changes=changes, long=long, timeout=0.4))
    assert "never" not in caught.value.stdout
    assert "output" in caught.value.stdout
    alive = f"for p in $(cat {pids}); do ! kill -0 $p 2>/dev/null || echo $p; done"
    for _ in range(50):
        if not (left := await way.shell(alive)):
            break
        await asyncio.sleep(0.05)
    assert left == ""


async def test_a_hung_read_fails_alone(way: Way) -> None:
    commands = [Command(script=f"echo {n}", timeout=5) for n in range(5)]
    commands.insert(2, Command(script="sleep 60", timeout=0.5))
    results = await asyncio.gather(*(way.connector.execute(c) for c in commands), return_exceptions=True)
    assert isinstance(results.pop(2), CommandTimeout)
    assert [getattr(result, "text", result) for result in results] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("changes", [False, True])
async def test_cancelling_ends_the_whole_group(way: Way, *, changes: bool) -> None:
    pids = way.directory / "pids"
    script = f"echo $$ >{pids}; sleep 97 & echo $! >>{pids}; echo end >>{pids}; wait"
    task = asyncio.ensure_future(way.connector.execute(Command(script=script, changes=changes, long=True)))
    await way.shell(f"while ! grep -q end {pids} 2>/dev/null; do sleep 0.05; done")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    alive = f"for p in $(grep -v end {pids}); do ! kill -0 $p 2>/dev/null || echo $p; done"
    for _ in range(50):
        if not (left := await way.shell(alive)):
            break
        await asyncio.sleep(0.05)
    assert left == ""


async def test_cancelling_before_it_is_sent(way: Way) -> None:
    log = way.directory / "log"
    task = asyncio.ensure_future(way.connector.execute(Command(script=f"echo ran >{log}", changes=True)))
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await way.shell(f"[ -e {log} ] && echo there || echo not") == "not"


async def test_live_output_of_a_long_change(way: Way) -> None:
    marker = way.directory / "go"
    pieces: list[tuple[str, bytes]] = []

    def sink(stream: Stream, data: bytes) -> None:
        pieces.append((stream, data))

    script = f"printf first; while ! [ -e {marker} ]; do sleep 0.05; done; echo oops >&2; printf last"
    running = asyncio.ensure_future(
        way.connector.execute(Command(script=script, changes=True, long=True, sink=sink, timeout=30))
    )
    while not pieces:
        await asyncio.sleep(0.01)
    assert pieces == [("stdout", b"first")]
    await way.shell(f"echo x >{marker}")
    result = await running
    assert (result.stdout, result.stderr) == (b"firstlast", b"oops\n")
    assert b"".join(data for stream, data in pieces if stream == "stderr") == b"oops\n"


# the fence


async def test_an_older_token_is_refused(way: Way) -> None:
    lease, log = way.directory / "lease", way.directory / "log"
    way.connector.fence(lease, 7)
    assert (await way.connector.execute(Command(script=f"echo a >>{log}", changes=True))).ok  # no lease there yet
    for content, refused in (("7 me\n", False), ("6", False), ("", False), ("8 you\n", True), ("10", True)):
        await way.shell(f"printf %s '{content}' >{lease}")
        command = Command(script=f"echo b >>{log}", changes=True)
        if refused:
            with pytest.raises(FencedError, match="newer run"):
                await way.connector.execute(command)
        else:
            assert (await way.connector.execute(command)).ok
    assert await way.shell(f"cat {log}") == "a\nb\nb\nb"
    with pytest.raises(FencedError):
        await way.connector.execute(Command(script=":", changes=True, sudo=False))
    way.connector.fence(PurePosixPath(lease), None)
    assert (await way.connector.execute(Command(script=":", changes=True))).ok
