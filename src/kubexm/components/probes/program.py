"""The program that measures, `kubexm-probe`: its source, which is part of this package, and where a built one is.

It comes with bundles. Where a bundle has none, a machine with a Go compiler builds it once, offline: it uses Go's
standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from kubexm.assets import Bundle, FileEntry
from kubexm.assets.cache import default_cache
from kubexm.errors import AssetError

__all__ = ["FORMAT", "PROGRAM", "built_program", "program_entry", "program_version", "sources"]

PROGRAM = "kubexm-probe"
FORMAT = 1
"""Of the program's configuration and record; one with another format is not used."""
_BUILD_TIMEOUT = 600.0
_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOOS": "linux",
    "GOFLAGS": "-mod=mod -trimpath -buildvcs=false",
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}


@cache
def sources() -> tuple[tuple[str, bytes], ...]:
    """The files it is built from, by name."""
    directory = resources.files(__package__) / "program"
    names = sorted(entry.name for entry in directory.iterdir())
    wanted = [name for name in names if name == "go.mod" or (name.endswith(".go") and not name.endswith("_test.go"))]
    return tuple((name, (directory / name).read_bytes()) for name in wanted)


@cache
def program_version() -> str:
    """Format and content: another source is another version."""
    digest = hashlib.sha256()
    for name, content in sources():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return f"v{FORMAT}-{digest.hexdigest()[:12]}"


def program_entry(bundle: Bundle, arch: str) -> FileEntry | None:
    """The program in a bundle, if it has it for this architecture in the format of this kubexm."""
    if bundle.manifest.arch != arch:
        return None
    found = (entry for entry in bundle.manifest.files if entry.name == PROGRAM)
    return next((entry for entry in found if entry.version.startswith(f"v{FORMAT}-")), None)


def built_program(arch: str, *, cache_dir: Path | None = None, build: bool = True) -> Path:
    """The program built on this machine: earlier, or now. AssetError if that may not or cannot be."""
    place = (cache_dir or default_cache()) / "programs" / f"{PROGRAM}-{program_version()}-linux-{arch}"
    if place.exists():
        return place
    go = shutil.which("go") if build else None
    if go is None:
        reason = "there is no Go compiler here to build it" if build else "it was not built here before"
        raise AssetError(
            f"no bundle at hand holds {PROGRAM} for {arch}, and {reason}",
            hint="name a bundle that holds it under spec.assets.sources, or install Go 1.24 or newer on this machine",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{PROGRAM}.") as directory:
        for name, content in sources():
            (Path(directory) / name).write_bytes(content)
        result = subprocess.run(
            [go, "build", "-ldflags", "-s -w -buildid=", "-o", "program", "."],
            cwd=directory,
            env={**os.environ, **_ENVIRONMENT, "GOARCH": arch},
            capture_output=True,
            timeout=_BUILD_TIMEOUT,
            check=False,
        )
        if result.returncode:
            message = result.stderr.decode(errors="replace").strip()
            raise AssetError(f"{PROGRAM} cannot be built:\n{message}", hint="it needs Go 1.24 or newer (`go version`)")
        (Path(directory) / "program").rename(place)
    return place
