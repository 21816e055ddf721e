"""kubexm's own program in a bundle: built from the source in this package, with Go's standard library alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kubexm.assets.catalog import FileAsset, Install
from kubexm.components.probes.program import PROGRAM, program_version, sources
from kubexm.lab.bundle.artefacts import Artefact, Workplace

__all__ = ["ProbeProgram", "probe_asset"]


@dataclass(frozen=True, kw_only=True)
class ProbeProgram(Artefact):
    """The program that measures availability."""

    name: str = field(default_factory=lambda: f"{PROGRAM}-{program_version()}")
    files: tuple[tuple[str, bytes], ...] = field(default_factory=sources)
    environment: tuple[tuple[str, str], ...] = (("GOAMD64", "v1"), ("GOARM64", "v8.0"), ("CGO_ENABLED", "0"))

    @property
    def tools(self) -> tuple[str, ...]:
        """The Go compiler."""
        return ("go",)

    @property
    def origin(self) -> str:
        """Where it comes from, for a bundle's manifest."""
        return "kubexm, src/kubexm/components/probes/program"

    def make(self, place: Workplace) -> None:
        """Compiles it, statically; nothing is downloaded."""
        place.say("compiling")
        for name, content in self.files:
            (place.scratch / name).write_bytes(content)
        argv = ["go", "build", "-ldflags", "-s -w -buildid=", "-o", str(place.out / PROGRAM), "."]
        place.commands.run(argv, cwd=place.scratch, env=dict(self.environment), timeout=1200)


def probe_asset(arch: str) -> FileAsset:
    """The program as a file of a bundle. Not in the catalog: nobody publishes it, no cluster needs it."""
    version = program_version()
    return FileAsset(
        name=PROGRAM,
        component=PROGRAM,
        version=version,
        arch=arch,
        path=f"kubexm.io/probe/{version}/linux-{arch}/{PROGRAM}",
        url="",
        sums_path="",
        rootfs="",
        licence="Apache-2.0",
        roles=("controlPlane", "worker"),
        features=(),
        install=Install(to=PurePosixPath("/var/lib/kubexm/probes") / PROGRAM),
    )
