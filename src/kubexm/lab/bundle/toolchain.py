"""The tools a build needs: which are here, in which version, and how to get those that are not.

Knows nothing of single artefacts. Tool versions become part of artefacts' keys.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kubexm.errors import LabError

__all__ = ["ARCHES", "MINIMUM_GO", "Missing", "Toolchain", "machine_arch", "multiarch"]

MINIMUM_GO = (1, 26)
"""What the newest of the modules asks for."""

ARCHES: Mapping[str, tuple[str, str]] = {
    "x86_64": ("amd64", "x86_64-linux-gnu"),
    "aarch64": ("arm64", "aarch64-linux-gnu"),
}
"""Machines a bundle can be built on: their name in Kubernetes and Debian, and Debian's library directory."""


def machine_arch() -> str:
    """This machine's architecture as Kubernetes names it: the only one a bundle is built for."""
    try:
        return ARCHES[platform.machine()][0]
    except KeyError:
        raise LabError(
            f"a lab bundle cannot be built on {platform.machine()}",
            hint=f"It can on {' and '.join(ARCHES)}; take a bundle from there, or `kubexm bundle create`.",
        ) from None


def multiarch(arch: str) -> str:
    """Debian's name for the directory of this architecture's libraries."""
    return next(triplet for name, triplet in ARCHES.values() if name == arch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A tool that is not here: what is wrong, and which Debian packages would bring it (none if none would)."""

    tool: str
    reason: str
    packages: tuple[str, ...] = ()
    remedy: str = ""


class Toolchain:
    """This machine's tools, each looked for once."""

    def __init__(self) -> None:
        self._found: dict[str, str | Missing] = {}

    def versions(self, tools: Iterable[str]) -> dict[str, str]:
        """The versions of these tools, all of which are here."""
        found = {}
        for tool in tools:
            result = self.look(tool)
            if isinstance(result, Missing):
                raise LabError(f"{tool} is missing: {result.reason}", hint=result.remedy)
            found[tool] = result
        return found

    def missing(self, tools: Iterable[str]) -> list[Missing]:
        """Which of these tools are not here."""
        results = [self.look(tool) for tool in dict.fromkeys(tools)]
        return [result for result in results if isinstance(result, Missing)]

    def look(self, tool: str) -> str | Missing:
        """The tool's version, or why it cannot be used."""
        if tool not in self._found:
            self._found[tool] = getattr(self, f"_{tool.replace('-', '_')}")()
        return self._found[tool]

    def forget(self) -> None:
        """Looks again: something was installed."""
        self._found.clear()
        self.__dict__.pop("has_apt", None)

    @cached_property
    def has_apt(self) -> bool:
        """Whether packages can be installed here with apt."""
        return shutil.which("apt-get") is not None

    def _go(self) -> str | Missing:
        wanted = ".".join(map(str, MINIMUM_GO))
        remedy = f"Install Go {wanted} or newer and put it on PATH."
        if shutil.which("go") is None:
            return Missing(tool="go", reason="no Go compiler", packages=self._go_package(), remedy=remedy)
        text = _output(["go", "env", "GOVERSION", "GOSUMDB"])
        version, _, sumdb = text.partition("\n")
        match = re.match(r"go(\d+)\.(\d+)", version)
        if match is None or (int(match[1]), int(match[2])) < MINIMUM_GO:
            reason = f"{version or 'this Go compiler'} is too old"
            return Missing(tool="go", reason=reason, packages=self._go_package(), remedy=remedy)
        if sumdb.strip() == "off":
            return Missing(
                tool="go",
                reason="GOSUMDB is off, so nothing it downloads would be verified",
                remedy="Unset GOSUMDB (`go env -u GOSUMDB`): only verified modules are built.",
            )
        return version.strip()

    def _go_package(self) -> tuple[str, ...]:
        if not self.has_apt:
            return ()
        match = re.search(r"Candidate: (?:\d+:)?(\d+)\.(\d+)", _output(["apt-cache", "policy", "golang-go"]))
        new_enough = match is not None and (int(match[1]), int(match[2])) >= MINIMUM_GO
        return ("golang-go",) if new_enough else ()

    def _gcc(self) -> str | Missing:
        packages = ("gcc", "libc6-dev")
        remedy = "Install a C compiler and the C library's headers (on Debian: gcc libc6-dev)."
        if shutil.which("gcc") is None:
            return Missing(tool="gcc", reason="no C compiler", packages=packages, remedy=remedy)
        libc = Path(_output(["gcc", "-print-file-name=libc.a"]).strip())
        if not libc.is_absolute():
            return Missing(tool="gcc", reason="no static C library (libc.a)", packages=packages, remedy=remedy)
        return f"{_output(['gcc', '--version']).splitlines()[0]}, libc.a {_digest(libc)}"

    def _libseccomp(self) -> str | Missing:
        archive = Path(_output(["gcc", "-print-file-name=libseccomp.a"]).strip())
        if not archive.is_absolute():
            return Missing(
                tool="libseccomp",
                reason="no libseccomp to link into runc, without which no pod starts",
                packages=("libseccomp-dev", "pkg-config"),
                remedy="Install libseccomp's headers and static library (on Debian: libseccomp-dev).",
            )
        if shutil.which("pkg-config") is None:
            return Missing(
                tool="libseccomp",
                reason="no pkg-config to find libseccomp with",
                packages=("pkg-config",),
                remedy="Install pkg-config.",
            )
        return f"libseccomp.a {_digest(archive)}"

    def _debian(self) -> str | Missing:
        lacking = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb") if shutil.which(tool) is None]
        if lacking:
            return Missing(
                tool="debian",
                reason=f"no {' and no '.join(lacking)}: Debian's packages cannot be fetched and unpacked",
                remedy="Build on Debian or Ubuntu, or copy the cache directory from a machine that has built this.",
            )
        return "apt"

    def _zstd(self) -> str:
        import zstandard

        return ".".join(map(str, zstandard.ZSTD_VERSION))

    def _gzip(self) -> str:
        return zlib.ZLIB_RUNTIME_VERSION

    def install(self, missing: Iterable[Missing]) -> None:
        """Installs what apt has of these; LabError if that cannot be done."""
        packages = sorted({package for item in missing for package in item.packages})
        if not packages:
            return
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        argv = [*sudo, "apt-get", "install", "-y", "--no-install-recommends", *packages]
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        # a machine that was never updated knows no packages; one whose update fails may know enough
        subprocess.run([*sudo, "apt-get", "update"], env=env, capture_output=True, check=False)
        result = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if result.returncode:
            last = (result.stderr.strip() or result.stdout.strip()).splitlines()[-1:]
            raise LabError(
                f"`{' '.join(argv)}` exited with {result.returncode}: {' '.join(last)}",
                hint="Run it by hand, as root, then run this again.",
            )
        self.forget()


def _output(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
