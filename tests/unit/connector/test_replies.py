"""Whatever a command prints, and however the network cuts it, arrives byte for byte at the right command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from kubexm.connector.base import Command, Stream
from kubexm.connector.messages import ChangeMessage, Message, ReadBatch, Slot, StreamMessage, UploadMessage
from kubexm.connector.replies import KnownReceipt, LeaseNewer, Replies, ScratchFull

WORD = "0123456789abcdef"
MARK = f"\n{WORD} ".encode()

# Output likes to look like a marker. It never is one: the word is random and told to nobody.
OUTPUT = (
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [b"\n", b"\n\n", MARK[:5], MARK[:-1], WORD.encode(), b"\n" + WORD.encode()[:-1] + b"x ", b"r 0 0 -"]
            ),
        ),
        max_size=8,
    )
    .map(b"".join)
    .filter(lambda output: MARK not in output)
)


class Ear:
    """A shell's ears."""

    def __init__(self) -> None:
        self.hellos: list[list[str]] = []
        self.finished: list[Message] = []
        self.gone: list[UploadMessage] = []
        self.replies = Replies("n1", WORD, hello=self.hellos.append, finished=self.finished.append, go=self.gone.append)
        self.replies.listening = True


def mark(*words: object) -> bytes:
    return MARK + " ".join(map(str, words)).encode() + b"\n"


def feed(replies: Replies, stream: Stream, data: bytes, cuts: Sequence[int]) -> None:
    start = 0
    for cut in [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]:
        if data[start:cut]:
            replies.feed(stream, data[start:cut])
        start = cut


@settings(deadline=None, max_examples=200)
@given(
    outputs=st.lists(st.tuples(OUTPUT, OUTPUT, st.integers(0, 255)), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_a_batch_is_taken_apart(outputs: list[tuple[bytes, bytes, int]], cuts: list[int]) -> None:
    async def check() -> None:
        ear = Ear()
        slots = [Slot(Command(script=":")) for _ in outputs]
        message = ReadBatch(slots)
        ear.replies.begin(message)
        data = b""
        for index, (out, err, code) in enumerate(outputs):
            data += out + mark("r", index, code, "e" if err else "-")
            data += err + mark("e", index) if err else b""
        feed(ear.replies, "stdout", data, cuts)
        assert ear.finished == [message]
        for slot, (out, err, code) in zip(slots, outputs, strict=True):
            result = slot.done.result()
            assert (result.stdout, result.stderr, result.exit_code) == (out, err, code)

    asyncio.run(check())


@settings(deadline=None, max_examples=200)
@given(
    out=OUTPUT,
    err=OUTPUT,
    cuts=st.lists(st.integers(0, 10_000), max_size=30),
    errors_first=st.booleans(),
)
def test_a_stream_is_passed_on_at_once(out: bytes, err: bytes, cuts: list[int], *, errors_first: bool) -> None:
    async def check() -> None:
        ear = Ear()
        seen: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

        def sink(stream: Stream, data: bytes) -> None:
            seen[stream] += data

        slot = Slot(Command(script=":", sink=sink))
        message = StreamMessage(slot)
        ear.replies.begin(message)
        parts: list[tuple[Stream, bytes]] = [("stdout", out + mark("r", 0, 3, "f")), ("stderr", err + mark("f", 0))]
        for number, (stream, data) in enumerate(reversed(parts) if errors_first else parts):
            assert bool(ear.finished) is False, number
            feed(ear.replies, stream, data, cuts)
        assert ear.finished == [message]
        assert seen == {"stdout": out, "stderr": err}
        assert slot.done.result().exit_code == 3

    asyncio.run(check())


async def test_whoever_follows_a_change_sees_each_line_when_it_is_printed() -> None:
    ear, seen = Ear(), b""

    def sink(stream: Stream, data: bytes) -> None:
        nonlocal seen
        seen += data

    slot = Slot(Command(script=":", changes=True, long=True, sink=sink))
    ear.replies.begin(ChangeMessage(slot, "r1", None, follow=True))
    ear.replies.feed("stdout", b"one\n")
    assert seen == b"one\n"
    ear.replies.feed("stdout", b"\ntwo\n")
    assert seen == b"one\n\ntwo\n"
    ear.replies.feed("stdout", mark("r", 0, 0, "f"))
    ear.replies.feed("stderr", mark("f", 0))
    assert slot.done.result().stdout == seen == b"one\n\ntwo\n"


async def test_what_a_login_shell_says_is_noise() -> None:
    ear = Ear()
    ear.replies.listening = False
    slot = Slot(Command(script=":"))
    ear.replies.begin(ReadBatch([slot]))
    ear.replies.feed("stdout", b"welcome" + mark("hello", 0, "/run/kubexm", "id", "boot", "1 (sh) S 1 1"))
    assert bytes(ear.replies.noise) == b"welcome"
    assert ear.hellos[0][:3] == ["hello", "0", "/run/kubexm"]
    ear.replies.listening = True
    ear.replies.feed("stdout", b"mine" + mark("r", 0, 0, "-"))
    assert (await slot.done).stdout == b"mine"


async def test_noise_is_bounded() -> None:
    ear = Ear()
    for _ in range(100):
        ear.replies.feed("stderr", b"x" * 1000)
    assert len(ear.replies.noise) == 16 * 1024


async def test_refusals_are_told_apart() -> None:
    cases: list[tuple[bytes, type[Exception]]] = [
        (mark("x", "known"), KnownReceipt),
        (mark("x", "fenced", 9), LeaseNewer),
        (mark("s", 0), ScratchFull),
    ]
    for data, kind in cases:
        ear = Ear()
        slot = Slot(Command(script=":", changes=True))
        ear.replies.begin(ChangeMessage(slot, "r", None, follow=False))
        ear.replies.feed("stdout", data)
        assert isinstance(slot.done.exception(), kind)
        assert len(ear.finished) == 1


async def test_a_reply_nobody_waits_for_any_more() -> None:
    ear = Ear()
    slots = [Slot(Command(script=":")), Slot(Command(script=":"))]
    ear.replies.begin(ReadBatch(slots))
    slots[0].done.cancel()
    ear.replies.feed("stdout", mark("r", 0, 0, "-") + b"two" + mark("r", 1, 0, "-"))
    assert (await slots[1].done).stdout == b"two"
    assert ear.finished
    ear.replies.feed("stdout", mark("r", 0, 0, "-") + mark("unknown") + MARK + b"\n")  # ignored


async def test_upload_is_told_to_go() -> None:
    ear = Ear()
    message = UploadMessage(Slot(Command(script="")), receipt="", part="/p", offset=0, size=1, place=["/x"])
    ear.replies.begin(message)
    ear.replies.feed("stdout", mark("g"))
    assert ear.gone == [message]
