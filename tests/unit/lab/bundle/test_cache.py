"""The cache: entries appear whole, once, and are not taken when somebody touched them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.errors import AssetError, LabError
from kubexm.lab.bundle.artefacts import Entry, Workplace
from kubexm.lab.bundle.cache import BuildCache
from kubexm.lab.bundle.commands import Commands
from tests.unit.lab.bundle.samples import Note


def provide(cache: BuildCache, note: Note, **needs: Entry) -> tuple[Entry, bool]:
    tools = dict.fromkeys(note.tools, "1")
    return cache.provide(
        note, note.key(tools, needs), needs=needs, tools=tools, commands=Commands(), say=lambda _: None
    )


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "cache")


def test_it_is_made_once(cache: BuildCache) -> None:
    made = []
    note = Note(name="a", text="hello", on_make=lambda _: made.append(1))
    first, was_made = provide(cache, note)
    again, was_made_again = provide(cache, note)
    assert (was_made, was_made_again, len(made)) == (True, False, 1)
    assert first == again
    assert first.path("note").read_text() == "hello"
    assert not list(cache.root.glob("work/*"))


def test_a_failure_leaves_nothing(cache: BuildCache) -> None:
    def fail(place: Workplace) -> None:
        (place.out / "half").write_text("half")
        raise LabError("no")

    note = Note(name="a", text="hello")
    with pytest.raises(LabError, match="no"):
        provide(cache, replace(note, on_make=fail))
    assert not list(cache.entries.glob("*"))
    assert not list(cache.root.glob("work/*"))
    assert provide(cache, note)[1]


def test_no_space_left_says_so(cache: BuildCache) -> None:
    def full(_: Workplace) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(AssetError, match="no space left"):
        provide(cache, Note(name="a", text="hello", on_make=full))


def test_making_nothing_is_an_error(cache: BuildCache) -> None:
    class Nothing(Note):
        def make(self, place: Workplace) -> None:
            pass

    with pytest.raises(LabError, match="gave nothing"):
        provide(cache, Nothing(name="a", text=""))


def test_links_are_no_artefact(cache: BuildCache) -> None:
    def link(place: Workplace) -> None:
        (place.out / "link").symlink_to("/etc/passwd")

    with pytest.raises(LabError, match="plain file"):
        provide(cache, Note(name="a", text="", on_make=link))


@pytest.mark.parametrize("damage", ["content", "size", "gone", "entry"])
def test_what_was_touched_is_made_again(cache: BuildCache, damage: str) -> None:
    note = Note(name="a", text="hello")
    entry, _ = provide(cache, note)
    file = entry.path("note")
    if damage == "content":
        file.write_text("HELLO")
    elif damage == "size":
        file.write_text("hello and more")
    elif damage == "gone":
        file.unlink()
    else:
        (entry.directory.parent / "entry.json").write_text("{")
    assert cache.find(note, entry.key) is None
    again, made = provide(cache, note)
    assert made
    assert again.path("note").read_text() == "hello"


def test_two_at_once_make_it_once(cache: BuildCache) -> None:
    inside, go_on = threading.Event(), threading.Event()
    waited = threading.Event()

    def slow(_: Workplace) -> None:
        inside.set()
        assert go_on.wait(30)

    results: list[tuple[Entry, bool]] = []
    slow_note = Note(name="a", text="hello", on_make=slow)
    first = threading.Thread(target=lambda: results.append(provide(cache, slow_note)))
    first.start()
    assert inside.wait(30)

    def second() -> None:
        note = Note(name="a", text="hello", on_make=lambda _: pytest.fail("made twice"))
        key = note.key({}, {})
        results.append(
            cache.provide(note, key, needs={}, tools={}, commands=Commands(), say=lambda _: None, on_wait=waited.set)
        )

    other = threading.Thread(target=second)
    other.start()
    assert waited.wait(30)
    go_on.set()
    first.join(30)
    other.join(30)
    assert sorted(made for _, made in results) == [False, True]
    assert results[0][0] == results[1][0]


def test_a_build_killed_with_9_leaves_what_was_finished_and_can_go_on(cache: BuildCache) -> None:
    script = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from kubexm.lab.bundle.cache import BuildCache
        from tests.unit.lab.bundle.samples import Note
        from tests.unit.lab.bundle.test_cache import provide

        def die(place):
            (place.out / "half").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

        cache = BuildCache(Path({str(cache.root)!r}))
        provide(cache, Note(name="done", text="done"))
        provide(cache, Note(name="dying", text="x", on_make=die))
        """
    )
    root = Path(__file__).parents[4]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    assert subprocess.run([sys.executable, "-c", script], env=env, check=False).returncode == -9
    assert list(cache.root.glob("work/*")), "the killed build must have been under way"
    assert not provide(cache, Note(name="done", text="done"))[1]
    entry, made = provide(cache, Note(name="dying", text="x"))
    assert made
    assert [file.path for file in entry.files] == ["note"]
    assert not list(cache.root.glob("work/*"))


def test_what_other_tools_made_is_found_by_its_recipe(cache: BuildCache) -> None:
    note = Note(name="a", text="hello", uses=("go",))
    for version in ("1", "2"):
        key = note.key({"go": version}, {})
        cache.provide(note, key, needs={}, tools={"go": version}, commands=Commands(), say=lambda _: None)
    found = cache.find_any(note)
    assert found is not None
    assert found.tools == (("go", "2"),)
    assert cache.find_any(replace(note, text="other")) is None


def test_pruning_keeps_what_it_is_told_to(cache: BuildCache) -> None:
    keep, _ = provide(cache, Note(name="keep", text="hello"))
    provide(cache, Note(name="drop", text="hello"))
    for name in ("kept", "old"):
        (cache.bundles / name).mkdir(parents=True)
        (cache.bundles / f"{name}.seal.json").write_text("{}")
    (cache.go / "build").mkdir(parents=True)
    (cache.go / "build" / "x").write_bytes(bytes(100_000))
    assert cache.prune({"keep": keep}, bundles={"kept"}) >= 100_000
    assert [path.name for path in cache.entries.iterdir()] == [keep.directory.parent.name]
    assert sorted(path.name for path in cache.bundles.iterdir()) == ["kept", "kept.seal.json"]
    assert not cache.go.exists()


def test_nobody_prunes_under_a_running_build(cache: BuildCache) -> None:
    provide(cache, Note(name="a", text="hello"))
    with cache.in_use(), pytest.raises(LabError, match="a build is using the cache"):
        cache.prune({}, bundles=set())
    assert list(cache.entries.iterdir())
