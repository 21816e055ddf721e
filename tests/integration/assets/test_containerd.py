"""Images out of a bundle into a real containerd: its own `ctr` imports them, under their names, shared layers once."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubexm.assets import Bundle, ImageArchive
from kubexm.lab.bundle import BundleBuild

Ctr = Callable[..., str]


@pytest.fixture
def ctr(tmp_path: Path) -> Iterator[Ctr]:
    """A containerd of one's own, and its client."""
    if os.geteuid() != 0:
        pytest.skip("containerd needs root")
    build = BundleBuild()
    entry = next(entry for name, entry in build.state().items() if name.startswith("containerd-"))
    if entry is None:
        pytest.skip("containerd was not built before (`kubexm lab bundle` builds it)")
    programs = entry.directory
    socket, log = tmp_path / "containerd.sock", tmp_path / "containerd.log"
    config = tmp_path / "config.toml"
    cri = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"]
    config.write_text(
        f'version = 3\nroot = "{tmp_path / "root"}"\nstate = "{tmp_path / "state"}"\n'
        f"disabled_plugins = {cri}\n"
        f'[grpc]\naddress = "{socket}"\n[ttrpc]\naddress = "{socket}.ttrpc"\n'
    )
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(programs / "containerd"), "--config", str(config)], stdout=out, stderr=subprocess.STDOUT
        )

    def run(*arguments: object) -> str:
        argv = [str(programs / "ctr"), "--address", str(socket), *(str(argument) for argument in arguments)]
        result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == 0, f"{result.stderr}\n{log.read_text()[-2000:]}"
        return result.stdout

    try:
        deadline = time.monotonic() + 60
        while not socket.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield run
    finally:
        process.terminate()
        process.wait()


def test_ctr_imports_an_image_archive(ctr: Ctr, big_bundle: Path, tmp_path: Path) -> None:
    with Bundle.open(big_bundle) as bundle:
        archive = ImageArchive(bundle, bundle.manifest.images)
        archive.write(tmp_path / "images.tar")
        ctr("-n", "k8s.io", "images", "import", "--no-unpack", tmp_path / "images.tar")
        listed = {
            line.split()[0]: line.split()[2] for line in ctr("-n", "k8s.io", "images", "ls").splitlines()[1:] if line
        }
        assert listed == {image.reference: image.digest for image in bundle.manifest.images}
        stored = {line.split()[0] for line in ctr("-n", "k8s.io", "content", "ls").splitlines()[1:] if line}
        assert {digest for image in bundle.manifest.images for digest in image.blobs} <= stored
        ctr("-n", "k8s.io", "images", "check")
