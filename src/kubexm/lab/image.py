"""The disk images hosts start from: one for each system, thin layers over it for flavours. Must not know hosts.

An image is built in a directory of its own and renamed when it is whole, so one that is there is complete. A build
runs with mounts and processes of its own that end with it, so one that was killed leaves only a directory, which the
next build, or `lab down`, removes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kubexm.errors import LabError
from kubexm.lab.commands import Progress, contained, quiet, run, stream
from kubexm.lab.disk import overlay_path
from kubexm.lab.flavours import Flavour, GuestFile
from kubexm.lab.guest import IMAGE_FILES, PACKAGES, PREPARE, write_files
from kubexm.lab.locks import locked, try_locked
from kubexm.lab.mirror import Mirror, machine_mirror, proxies
from kubexm.lab.places import private_directory
from kubexm.lab.systems import System

__all__ = ["ImageStore"]

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8", "HOME": "/root"}
_UNSAFE_IO = "/etc/dpkg/dpkg.cfg.d/unsafe-io"

# Run inside the mount namespace of a build: $1 is the tree, $2 the script to run in it, $3 what a layer is made of.
_IN_TREE = """\
set -eu
mount -t proc proc "$1/proc"
exec chroot "$1" sh -euc "$2"
"""
_IN_LAYER = """\
set -eu
mount -t overlay kubexm-lab -o "$3" "$1"
""" + _IN_TREE.removeprefix("set -eu\n")


class ImageStore:
    """The images under one cache directory, built when they are first asked for."""

    def __init__(self, cache: Path, *, mirror: str = "", progress: Progress = quiet, detail: Progress = quiet) -> None:
        self._folder = cache / "lab"
        self._mirror = mirror
        self._progress = progress
        self._detail = detail

    def layers(self, system: System, flavour: Flavour) -> tuple[Path, ...]:
        """The directories a host of this system and flavour is made of, topmost first."""
        base = self._base(system)
        return (base,) if flavour.is_plain else (self._layer(flavour, base), base)

    def sweep(self) -> None:
        """Remove what builds that were killed left behind; builds that are going on are not touched."""
        for left in self._folder.glob("tmp-*"):
            with try_locked(self._lock(_key_of(left))) as held:
                if held:
                    shutil.rmtree(left)

    def _base(self, system: System) -> Path:
        architecture = _architecture()
        key = _digest(architecture, system.suite, *PACKAGES, PREPARE, *_contents(IMAGE_FILES))
        with self._building(f"{system.name}-{key}") as (final, work):
            if work is not None:
                self._debootstrap(system, work, architecture, final)
        return final / "tree"

    def _debootstrap(self, system: System, work: Path, architecture: str, final: Path) -> None:
        mirror = Mirror(url=self._mirror) if self._mirror else machine_mirror(system.suite)
        downloads = private_directory(self._folder / "packages")
        tree = work / "tree"
        # A build that is cut short is thrown away, so its packages need not be durable one by one.
        write_files(tree, {_UNSAFE_IO: GuestFile(content="force-unsafe-io\n")})
        log = final.with_suffix(".log")
        self._progress(f"Building the hosts' {system.title} image; this happens once")
        command = [
            "debootstrap",
            "--variant=minbase",
            "--force-check-gpg",
            f"--arch={architecture}",
            f"--include={','.join(PACKAGES)}",
            f"--cache-dir={downloads}",
            *([f"--keyring={mirror.keyring}"] if mirror and mirror.keyring else []),
            system.suite,
            str(tree),
            *([mirror.url] if mirror else []),  # with none debootstrap uses its own
        ]
        try:
            environment = _ENVIRONMENT | (proxies(mirror.url) if mirror else {})
            stream(contained(*command), on_line=self._show, log=log, env=environment)
        except LabError as error:
            where = mirror.url if mirror else "debootstrap's default mirror"
            raise LabError(
                f"{system.title} could not be installed from {where}: {error.message}",
                hint=f"All of its output is in {log}. Another mirror: `kubexm lab up --mirror URL`.",
            ) from error
        (tree / _UNSAFE_IO.lstrip("/")).unlink()
        write_files(tree, IMAGE_FILES)
        run(*contained("sh", "-c", _IN_TREE, "sh", tree, PREPARE), env=_ENVIRONMENT, timeout=300)

    def _layer(self, flavour: Flavour, base: Path) -> Path:
        key = _digest(base.parent.name, flavour.script, *_contents(flavour.files))
        with self._building(f"{flavour.name}-{key}") as (final, work):
            if work is not None:
                self._progress(f"Building the {flavour.name} flavour")
                for name in ("upper", "work", "merged"):
                    (work / name).mkdir(mode=0o755)
                upper, below = overlay_path(work / "upper"), overlay_path(work / "work")
                options = f"lowerdir={overlay_path(base)},upperdir={upper},workdir={below}"
                in_layer = ("sh", "-c", _IN_LAYER, "sh", work / "merged", flavour.script or ":", options)
                log = final.with_suffix(".log")
                try:
                    stream(contained(*in_layer), on_line=self._detail, log=log, env=_ENVIRONMENT)
                except LabError as error:
                    raise LabError(
                        f"The {flavour.name} flavour could not be built: {error.message}",
                        hint=f"All of its output is in {log}.",
                    ) from error
                write_files(work / "upper", flavour.files)
                for name in ("work", "merged"):
                    shutil.rmtree(work / name)
        return final / "upper"

    @contextmanager
    def _building(self, key: str) -> Iterator[tuple[Path, Path | None]]:
        """Give the image's place, and a directory to build it in if it is not there yet."""
        final = self._folder / key
        if final.is_dir():
            yield final, None
            return
        private_directory(self._folder)
        with locked(self._lock(key)):
            if final.is_dir():  # somebody else built it while we waited
                yield final, None
                return
            for left in self._folder.glob(f"tmp-{key}.*"):
                shutil.rmtree(left)
            work = Path(tempfile.mkdtemp(prefix=f"tmp-{key}.", dir=self._folder))
            try:
                yield final, work
                (work / "image.json").write_text(json.dumps({"key": key}) + "\n", encoding="utf-8")
                # The rename must not become durable before what it makes visible.
                run("sync", "--file-system", work, timeout=600)
                work.rename(final)
            except BaseException:
                shutil.rmtree(work, ignore_errors=True)
                raise

    def _lock(self, key: str) -> Path:
        return self._folder / f"{key}.lock"

    def _show(self, line: str) -> None:
        if line.startswith("I: "):
            self._detail(line.removeprefix("I: "))


def _architecture() -> str:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise LabError(f"The lab has no image for {machine} machines.", hint="It runs on x86_64 and aarch64.")
    return _ARCHITECTURES[machine]


def _contents(files: Mapping[str, GuestFile]) -> Iterator[str]:
    for path, file in sorted(files.items()):
        yield f"{path} {file.mode:o} {file.content}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _key_of(left: Path) -> str:
    return left.name.removeprefix("tmp-").rpartition(".")[0]
