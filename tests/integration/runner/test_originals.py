"""What was there before kubexm came is kept, and comes back."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.runner import Directories, Facts, Files, Originals, Outcome, Restored

W = PurePosixPath("/scratch")
RUN = PurePosixPath("/var/lib/kubexm/runs/run-1")


@pytest.fixture
def files(sandbox: Any, facts: Facts) -> Files:
    return Files(sandbox, facts)


@pytest.fixture
def originals(sandbox: Any, facts: Facts) -> Originals:
    return Originals(sandbox, facts)


def tree(sandbox: Any) -> str:
    """Everything under /scratch: names, modes, owners, targets and contents."""
    return str(
        sandbox.sh(
            "cd /scratch && find . -printf '%p %y %m %u %l\\n' | sort && find . -type f -exec sha256sum {} + | sort"
        )
    )


def outcomes(restored: tuple[Restored, ...]) -> dict[str, Outcome]:
    return {r.name: r.outcome for r in restored}


async def test_all_comes_back_as_it_was(sandbox: Any, files: Files, originals: Originals, facts: Facts) -> None:
    sandbox.sh(
        "cd /scratch && printf 'a\\n\\000b' >file && chmod 640 file && chown daemon file && ln -s file link"
        " && mkdir -m 700 dir && echo gone >doomed && echo '%odd' >'per%cent name'"
    )
    before = tree(sandbox)
    await files.write(W / "file", "ours")
    await files.write(W / "file", "ours again", mode=0o600)
    await files.link(W / "link", "/elsewhere")
    await Directories(sandbox, facts).ensure(W / "dir", mode=0o755, owner="daemon")
    await files.remove(W / "doomed")
    await files.write(W / "new/deep/down/file", "new")
    await files.write(W / "per%cent name", "ours")
    await files.line(W / "added", "x")
    kept = {(o.name, o.state.split()[0]) for o in await originals.list()}
    assert kept == {
        ("/scratch/file", "file"),
        ("/scratch/link", "link"),
        ("/scratch/dir", "dir"),
        ("/scratch/doomed", "file"),
        ("/scratch/new", "absent"),
        ("/scratch/new/deep", "absent"),
        ("/scratch/new/deep/down", "absent"),
        ("/scratch/new/deep/down/file", "absent"),
        ("/scratch/per%cent name", "file"),
        ("/scratch/added", "absent"),
    }
    assert tree(sandbox) != before
    assert set(outcomes(await originals.restore()).values()) == {Outcome.RESTORED}
    assert tree(sandbox) == before
    assert await originals.list() == ()


async def test_what_the_user_changed_since_is_left_and_said(sandbox: Any, files: Files, originals: Originals) -> None:
    sandbox.sh("cd /scratch && echo old >edited && echo old >removed && echo old >ours")
    for name in ("edited", "removed", "ours"):
        await files.write(W / name, "kubexm")
    await files.write(W / "dir/made", "kubexm")
    sandbox.sh("cd /scratch && echo user >edited && rm removed && echo user >dir/users")
    found = outcomes(await originals.restore())
    assert found == {
        "/scratch/edited": Outcome.KEPT,
        "/scratch/removed": Outcome.KEPT,
        "/scratch/ours": Outcome.RESTORED,
        "/scratch/dir": Outcome.KEPT,
        "/scratch/dir/made": Outcome.RESTORED,
    }
    assert sandbox.sh("cd /scratch && cat edited ours && ls dir").split() == ["user", "old", "users"]


async def test_an_original_is_never_overwritten_and_reverting_by_hand_counts(
    sandbox: Any, files: Files, originals: Originals
) -> None:
    sandbox.sh("echo first >/scratch/x")
    await files.write(W / "x", "one")
    await files.write(W / "x", "two")
    sandbox.sh("echo first >/scratch/x")
    assert outcomes(await originals.restore()) == {"/scratch/x": Outcome.UNCHANGED}


async def test_a_directory_that_kubexm_removed_comes_back_with_its_file(
    sandbox: Any, files: Files, originals: Originals
) -> None:
    sandbox.sh("mkdir -m 750 /scratch/d && echo x >/scratch/d/f")
    before = tree(sandbox)
    await files.remove(W / "d/f")
    await files.remove(W / "d")
    await originals.restore()
    assert tree(sandbox) == before


async def test_a_run_s_own_snapshot_goes_back_to_the_start_of_the_run(
    sandbox: Any, files: Files, originals: Originals
) -> None:
    sandbox.sh("echo user >/scratch/x")
    await files.write(W / "x", "run 0")
    await files.write(W / "x", "run 1", snapshot=RUN)
    await files.write(W / "y", "run 1", snapshot=RUN)
    assert (await originals.restore_path(W / "x", under=RUN)).outcome is Outcome.RESTORED
    assert (await originals.restore_path(W / "y", under=RUN)).outcome is Outcome.RESTORED
    assert await files.text(W / "x") == "run 0"
    assert not await files.exists(W / "y")
    assert (await originals.restore_path(W / "z", under=RUN)).outcome is Outcome.UNCHANGED
    await originals.restore()
    assert await files.text(W / "x") == "user\n"


async def test_snapshots_can_be_taken_apart_from_a_change(sandbox: Any, files: Files, originals: Originals) -> None:
    sandbox.sh("echo a >/scratch/a")
    await originals.snapshot(W / "a", W / "b", under=RUN)
    assert {o.name: o.was_absent for o in await originals.list(under=RUN)} == {"/scratch/a": False, "/scratch/b": True}
    assert await originals.list() == ()
    await originals.forget(under=RUN)
    assert await originals.list(under=RUN) == ()


async def test_uploads_keep_originals_too(sandbox: Any, files: Files, originals: Originals, tmp_path: Path) -> None:
    sandbox.sh("echo old >/scratch/big")
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3_000_000)
    await files.upload(source, W / "big", mode=0o755, owner="daemon")
    assert await files.matches(W / "big", content=b"x" * 3_000_000)
    assert outcomes(await originals.restore()) == {"/scratch/big": Outcome.RESTORED}
    assert await files.text(W / "big") == "old\n"


async def test_nothing_is_kept_when_told_so(files: Files, originals: Originals) -> None:
    await files.write(W / "x", "x", keep=False)
    assert await originals.list() == ()


async def test_originals_are_nobody_else_s_business(sandbox: Any, files: Files) -> None:
    sandbox.sh("echo secret >/scratch/x && chmod 600 /scratch/x")
    await files.write(W / "x", "x")
    assert sandbox.sh("stat -c %a /var/lib/kubexm/originals").strip() == "700"


async def test_what_is_to_be_left_stays_and_can_be_put_back_later(
    sandbox: Any, files: Files, originals: Originals
) -> None:
    before = tree(sandbox)
    await files.write(W / "runtime/config", "ours")
    await files.write(W / "other/config", "ours")
    restored = outcomes(await originals.restore(kinds=["file"], leave=[str(W / "runtime")]))
    assert set(restored) == {"/scratch/other", "/scratch/other/config"}
    assert sandbox.sh("cat /scratch/runtime/config") == "ours"
    await originals.restore(kinds=["file"])
    assert tree(sandbox) == before
