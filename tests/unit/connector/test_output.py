"""Output: handed on whole, kept by head and tail."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.connector import output
from kubexm.connector.output import CappedOutput


@given(pieces=st.lists(st.binary(max_size=30), max_size=30))
def test_head_and_tail_are_kept(pieces: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "HEAD", 40)
        patch.setattr(output, "TAIL", 25)
        seen: list[bytes] = []
        capped = CappedOutput(seen.append)
        for piece in pieces:
            capped.write(piece)
        whole = b"".join(pieces)
        assert b"".join(seen) == whole
        assert capped.size == len(whole)
        if len(whole) <= 65:
            assert not capped.truncated
            assert capped.value() == whole
        else:
            assert capped.truncated
            gap = f"\n… {len(whole) - 65} bytes left out …\n".encode()
            assert capped.value() == whole[:40] + gap + whole[-25:]


def test_a_failing_sink_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    def sink(data: bytes) -> None:
        nonlocal calls
        calls += 1
        raise OSError("disk full")

    capped = CappedOutput(sink)
    with caplog.at_level(logging.WARNING):
        capped.write(b"a")
        capped.write(b"b")
    assert (capped.value(), calls) == (b"ab", 1)
    assert "no longer passed on" in caplog.text
