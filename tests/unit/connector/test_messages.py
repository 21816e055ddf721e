"""What is sent to a host's shell: quoted, and nothing where it could be seen."""

from __future__ import annotations

import subprocess
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.connector import Command, shell
from kubexm.connector.messages import ChangeMessage, Fence, ReadBatch, Slot, exports, script_digest
from kubexm.errors import UsageError
from kubexm.redact import Secret

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50)


@given(words=st.lists(TEXT, min_size=1, max_size=5))
def test_words_arrive_as_they_are(words: list[str]) -> None:
    line = "printf '%s\\0' " + shell(*words)
    done = subprocess.run(["/bin/sh"], input=line.encode(), capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


def test_exports_quote_and_reveal_only_here() -> None:
    text = exports({"A": "it's", "TOKEN": Secret("s3cr3t")})
    done = subprocess.run(["/bin/sh"], input=f"{text}; env".encode(), capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert "A=it's" in lines
    assert "TOKEN=s3cr3t" in lines
    assert exports({}) == ""


@pytest.mark.parametrize("name", ["", "1A", "A B", "A;id", "A=b", "Ä"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UsageError):
        exports({name: "x"})


async def test_a_batch_numbers_its_reads() -> None:
    text = ReadBatch([Slot(Command(script=f"echo {n}", timeout=4.5)) for n in range(3)]).text().decode()
    assert text == ("k_read 0 5 '' 'echo 0' .\nk_read 1 5 '' 'echo 1' .\nk_read 2 5 '' 'echo 2' .\nk_flush\n")


async def test_stdin_travels_as_text_where_it_is_text() -> None:
    assert b"k_input 'it'\"'\"'s'\n" in ReadBatch([Slot(Command(script=":", stdin=b"it's"))]).text()
    assert b"k_input64 /wA=\n" in ReadBatch([Slot(Command(script=":", stdin=b"\xff\0"))]).text()
    assert b"k_input" not in ReadBatch([Slot(Command(script=":", stdin=b""))]).text()


async def test_a_change_names_receipt_and_fence() -> None:
    command = Command(script="do it", changes=True, timeout=9)
    message = ChangeMessage(Slot(command), "run.1", Fence(PurePosixPath("/l"), 7), follow=True)
    assert message.text().decode().splitlines()[0] == (
        f"k_change run.1 10 {script_digest(command)} /l 7 follow '' 'do it' ."
    )
    assert message.long is False


async def test_undecodable_file_names_survive() -> None:
    name = b"/x/\xff".decode(errors="surrogateescape")
    assert b"/x/\xff" in ReadBatch([Slot(Command(script=shell("cat", name)))]).text()
