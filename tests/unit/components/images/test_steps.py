"""Images on a host: real scripts in a real shell, with a stand-in for ctr that keeps what it is told."""

from __future__ import annotations

import json
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm import config
from kubexm.assets import Bundle
from kubexm.cache.scoped import Caches
from kubexm.components.containerd import CONTAINERD
from kubexm.components.images.steps import ImagesImported, ImagesPulled, ImagesSent, WantedImage, archive_name
from kubexm.errors import CommandError, StepError
from kubexm.plan.codec import decode, encode
from kubexm.runtime import AssetShelf
from tests.unit.runtime.bundles import KUBERNETES, whole_bundle
from tests.unit.runtime.clusters import HEAD, LOCAL
from tests.unit.step.bench import Bench

CTR = """
case "$*" in
  *"images ls"*) echo 'REF TYPE DIGEST SIZE PLATFORMS LABELS'; cat {store} ;;
  *"images import --local --no-unpack "*)
    for a; do :; done
    [ -e {store}.full ] && {{ echo 'write /x: no space left on device' >&2; exit 1; }}
    tar -xOf "$a" index.json | python3 -c 'import json,sys
for m in json.load(sys.stdin)["manifests"]:
    print(m["annotations"]["io.containerd.image.name"], "t", m["digest"], "1 MiB", "linux/amd64", "-")' >>{store} ;;
  *"images rm "*)
    shift 4
    for a; do
      grep -q "^$a " {store} || exit 1
      grep -v "^$a " {store} >{store}.new
      mv {store}.new {store}
    done ;;
  *) echo "what is $*?" >&2; exit 97 ;;
esac
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_bundle(tmp_path_factory.mktemp("images") / "bundle")


@pytest.fixture
def bench(tmp_path: Path, bundle: Path) -> Bench:
    body = "".join(f"  {line}\n" for line in LOCAL.strip("\n").splitlines())
    cluster = config.loads(f"{HEAD}{body}  kubernetes: {{version: {KUBERNETES}}}\n", name="t.yaml").cluster
    made = Bench.make(tmp_path)
    (tmp_path / "store").write_text("")
    made.program("ctr", CTR.format(store=tmp_path / "store"))
    shelf = AssetShelf(cluster, {"amd64": Bundle.open(bundle)}, cache=tmp_path / "cache")
    return replace(made, context=replace(made.context, assets=shelf))


@pytest.fixture
def containerd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """containerd is there to be asked."""
    place = tmp_path / "c.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        there = replace(CONTAINERD, list_images=CONTAINERD.list_images.replace(CONTAINERD.socket, str(place)))
        monkeypatch.setattr("kubexm.components.images.steps.runtime_named", lambda name: there)
        yield


def wanted(bench: Bench, *names: str) -> tuple[WantedImage, ...]:
    found = (bench.context.assets.image(name, "amd64") for name in names)
    return tuple(WantedImage(name=one.name, reference=one.reference, digest=one.digest) for one in found)


def incoming(bench: Bench) -> list[str]:
    place = bench.root / "state" / "incoming"
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


async def test_images_are_sent_before_there_is_a_containerd(bench: Bench) -> None:
    images = wanted(bench, "pause", "coredns")
    step = ImagesSent(images=images)
    await bench.reach(step)
    assert incoming(bench) == [archive_name(images)]
    with tarfile.open(bench.root / "state" / "incoming" / archive_name(images)) as archive:
        names = archive.getnames()
    assert "index.json" in names
    assert len(names) == len(set(names)), "a layer both images have is sent once"
    assert decode(encode(step), ImagesSent) == step


@pytest.mark.usefixtures("containerd")
async def test_images_are_imported_and_no_archive_stays(bench: Bench) -> None:
    images = wanted(bench, "pause", "coredns", "kube-proxy")
    await bench.reach(ImagesSent(images=images))
    await bench.reach(ImagesImported(images=images))
    assert incoming(bench) == []
    bench.connector.commands.clear()
    assert (await bench.check(ImagesSent(images=images))).satisfied, "nothing is sent again"
    assert (await bench.check(ImagesImported(images=images))).satisfied
    assert len(bench.connector.commands) == 2, "one read each"


@pytest.mark.usefixtures("containerd")
@pytest.mark.parametrize(("state", "satisfied"), [("active", True), ("inactive", False)])
async def test_a_containerd_that_is_slow_to_answer_does_not_look_as_if_it_had_no_images(
    bench: Bench, tmp_path: Path, state: str, satisfied: bool
) -> None:
    images = wanted(bench, "pause", "coredns")
    await bench.reach(ImagesImported(images=images))
    asked = tmp_path / "asked"
    refuses = f'echo x >>{asked}; if [ "$(wc -l <{asked})" -lt 3 ]; then echo "connection refused" >&2; exit 1; fi\n'
    bench.program("ctr", refuses + CTR.format(store=tmp_path / "store"))
    bench.program("systemctl", f"echo {state}")
    bench.program("sleep", "exit 0")
    assert (await bench.check(ImagesSent(images=images))).satisfied is satisfied


@pytest.mark.usefixtures("containerd")
async def test_only_what_is_lacking_is_sent(bench: Bench) -> None:
    some, more = wanted(bench, "pause"), wanted(bench, "pause", "coredns")
    await bench.reach(ImagesImported(images=some))
    await bench.reach(ImagesSent(images=more))
    with tarfile.open(bench.root / "state" / "incoming" / archive_name(more[1:])) as archive:
        stream = archive.extractfile("index.json")
        assert stream is not None
        index = json.load(stream)
    assert len(index["manifests"]) == 1
    await bench.reach(ImagesImported(images=more))


@pytest.mark.usefixtures("containerd")
async def test_another_image_under_the_same_name_is_replaced(bench: Bench) -> None:
    (image,) = wanted(bench, "pause")
    (bench.root / "store").write_text(f"{image.reference} t sha256:{'0' * 64} 1 MiB linux/amd64 -\n")
    assert "1 of 1 images are lacking" in (await bench.check(ImagesImported(images=(image,)))).reason
    assert (await bench.check(ImagesImported(images=(replace(image, digest=""),)))).satisfied, "any will do"
    await bench.reach(ImagesImported(images=(image,)))


@pytest.mark.usefixtures("containerd")
async def test_an_archive_that_a_crash_left_is_cleared(bench: Bench) -> None:
    images = wanted(bench, "pause")
    step = ImagesImported(images=images)
    await bench.reach(step)
    (bench.root / "state" / "incoming" / "images-0123.tar").write_bytes(b"left")
    (bench.root / "state" / "incoming" / ".kubexm-images-0123.tar-abc.part").write_bytes(b"left")
    assert (await bench.check(step)).reason == "an archive of images is left over"
    await bench.run(step)
    assert incoming(bench) == []


@pytest.mark.usefixtures("containerd")
async def test_a_full_disk_is_said_and_the_archive_waits_for_the_next_attempt(bench: Bench) -> None:
    images = wanted(bench, "pause")
    (bench.root / "store.full").touch()
    with pytest.raises(CommandError, match="no space left on device"):
        await bench.run(ImagesImported(images=images))
    assert incoming(bench) == [archive_name(images)]
    (bench.root / "store.full").unlink()
    await bench.reach(ImagesImported(images=images))


async def test_rollback_removes_what_was_sent(bench: Bench) -> None:
    step = ImagesSent(images=wanted(bench, "pause"))
    await bench.reach(step)
    await bench.rollback(step)
    assert incoming(bench) == []


def stored(bench: Bench) -> list[str]:
    return [line.split(" ")[0] for line in (bench.root / "store").read_text().splitlines()]


@pytest.mark.usefixtures("containerd")
async def test_rollback_removes_what_this_run_imported_under_every_name(bench: Bench) -> None:
    there, (added, other) = wanted(bench, "pause"), wanted(bench, "coredns", "kube-proxy")
    await bench.run(ImagesImported(images=there))
    with (bench.root / "store").open("a") as store:
        store.write(f"mine:1 t {other.digest} 1 MiB linux/amd64 -\n")
        store.write(f"{other.reference} t sha256:{'0' * 64} 1 MiB linux/amd64 -\n")
    bench = replace(bench, run_id="run-2", context=replace(bench.context, caches=Caches()))
    step = ImagesImported(images=(*there, added, other))
    await bench.reach(step)
    with (bench.root / "store").open("a") as store:
        store.write(f"sha256:c0ffee t {added.digest} 1 MiB linux/amd64 -\n")
        store.write(f"theirs:1 t sha256:{'1' * 64} 1 MiB linux/amd64 -\n")
    await bench.rollback(step)
    left = [there[0].reference, "mine:1", other.reference, "theirs:1"]
    assert sorted(set(stored(bench))) == sorted(left), "what was there, or came from others, stays"
    await bench.rollback(step)


@pytest.mark.usefixtures("containerd")
async def test_what_no_bundle_has_is_pulled(bench: Bench) -> None:
    step = ImagesPulled(images=(WantedImage(name="pause", reference="r.example.com/pause:3.10.1"),))
    bench.program("crictl", f'for a; do :; done; echo "$a t sha256:1 1 MiB p -" >>{bench.root / "store"}')
    await bench.reach(step)
    await bench.rollback(step)
    assert stored(bench) == []
    bench.program("crictl", "echo 'failed to resolve: 401 Unauthorized' >&2; exit 1")
    other = ImagesPulled(images=(WantedImage(name="x", reference="r.example.com/x:1"),))
    with pytest.raises(StepError, match="401 Unauthorized") as caught:
        await bench.run(other)
    assert "spec.registry" in caught.value.hint


def test_the_archive_is_named_by_what_is_in_it(bench: Bench) -> None:
    images = wanted(bench, "pause", "coredns")
    assert archive_name(images) == archive_name(reversed(images))
    assert archive_name(images) != archive_name(images[:1])
