"""Programs built from Go modules: one temporary module that requires upstream's, so that its versions decide.

Every module is verified against Go's checksum database; a version it does not know is refused, never let through.
The same recipe and compiler give the same bytes: no paths, no build ids, no version control, dates from the modules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubexm.errors import LabError
from kubexm.lab.bundle.artefacts import Artefact, Workplace
from kubexm.lab.bundle.commands import CommandFailed, Commands

__all__ = ["CProgram", "GoPrograms", "Module", "Program", "go_environment", "module_directory"]

_COMPILE = ("gcc", "-Os", "-Wall", "-static", "-s", "-Wl,--build-id=none")
_STATIC = "-linkmode external -extldflags '-static -Wl,--build-id=none'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Go module at one version."""

    path: str
    version: str
    served_as: str = ""
    """The path the proxy has it under, where that is not its own."""

    def __str__(self) -> str:
        return f"{self.served_as or self.path}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program: its package, and the name upstream releases it under."""

    package: str
    file: str

    @property
    def built_as(self) -> str:
        """What `go build` calls it: the last part of its package's path that is not a major version."""
        return next(part for part in reversed(self.package.split("/")) if not re.fullmatch(r"v\d+", part))


@dataclass(frozen=True, kw_only=True)
class GoPrograms(Artefact):
    """Programs of one or more modules, built together."""

    modules: tuple[Module, ...]
    """What is required; the first one's go.mod decides language version and defaults."""
    programs: tuple[Program, ...]
    staging: str = ""
    """The version of the modules that the first one replaces by directories of Kubernetes' own tree, if it does."""
    tags: tuple[str, ...] = ()
    stamps: tuple[tuple[str, str], ...] = ()
    """Variables set by the linker; {date} stands for the day the first module was released."""
    cgo: bool = False
    libraries: tuple[str, ...] = ()
    """Tools that stand for C libraries which are linked in."""
    copies: tuple[tuple[str, str], ...] = ()
    """Files taken from the first module as they are: (path there, name here)."""
    environment: tuple[tuple[str, str], ...] = field(default=(("GOAMD64", "v1"), ("GOARM64", "v8.0")))

    @property
    def tools(self) -> tuple[str, ...]:
        """The Go compiler, and a C compiler where C is in it."""
        return ("go", "gcc", *self.libraries) if self.cgo else ("go",)

    @property
    def origin(self) -> str:
        """Where it comes from, for a bundle's manifest."""
        return ", ".join(f"go module {module}" for module in self.modules)

    def make(self, place: Workplace) -> None:
        """Downloads, verifies and builds; go.mod and go.sum are kept beside the programs as a record."""
        env = {**dict(self.environment), "CGO_ENABLED": "1" if self.cgo else "0"}
        module = place.scratch / "module"
        module.mkdir()
        go = _Go(place.commands, module, env)
        place.say("downloading modules")
        first = go.download(self.modules)[0]
        document = go.describe(Path(first["GoMod"]))
        (module / "go.mod").write_text(self._go_mod(document), encoding="utf-8")
        built = place.scratch / "built"
        built.mkdir()
        go.build(self, _stamps(self.stamps, first), built, place)
        for program in self.programs:
            (built / program.built_as).rename(place.out / program.file)
        for source, name in self.copies:
            (place.out / name).write_bytes((Path(first["Dir"]) / source).read_bytes())
        for name in ("go.mod", "go.sum"):
            (place.out / name).write_bytes((module / name).read_bytes())

    def _go_mod(self, first: Mapping[str, Any]) -> str:
        lines = ["module kubexm.io/lab", "", f"go {first.get('Go') or '1.17'}"]
        lines += [f"godebug {item['Key']}={item['Value']}" for item in first.get("Godebug") or []]
        lines += [f"require {module.path} {module.version}" for module in self.modules]
        lines += _replacements(first, self.staging)
        lines += [f"replace {x.path} => {x.served_as} {x.version}" for x in self.modules if x.served_as]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, kw_only=True)
class CProgram(Artefact):
    """One C file out of a Go module, linked statically."""

    module: Module
    source: str
    file: str
    defines: tuple[tuple[str, str], ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """Go fetches and verifies the module, gcc compiles."""
        return ("go", "gcc")

    @property
    def origin(self) -> str:
        """Where it comes from, for a bundle's manifest."""
        return f"go module {self.module}, {self.source}"

    def make(self, place: Workplace) -> None:
        """Fetches the module and compiles the file."""
        place.say("downloading modules")
        directory = module_directory(self.module, place.commands, place.scratch)
        place.say("compiling")
        source = place.scratch / Path(self.source).name
        source.write_bytes((directory / self.source).read_bytes())
        defines = [f"-D{name}={value}" for name, value in self.defines]
        place.commands.run([*_COMPILE, *defines, "-o", str(place.out / self.file), source.name], cwd=place.scratch)


def module_directory(module: Module, commands: Commands, scratch: Path) -> Path:
    """Where the verified content of a module is."""
    return Path(_Go(commands, scratch, {}).download([module])[0]["Dir"])


def go_environment(cache: Path) -> dict[str, str]:
    """What Go is run with: its caches inside ours, nothing inherited that changes a build or weakens verification."""
    return {
        "GOCACHE": str(cache / "build"),
        "GOMODCACHE": str(cache / "modules"),
        "GOPATH": str(cache / "path"),
        "GOFLAGS": "-mod=mod -modcacherw -trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GO111MODULE": "on",
        "GOEXPERIMENT": "",
        "GONOSUMDB": "",
        "GONOSUMCHECK": "",
        "GOPRIVATE": "",
        "GONOPROXY": "",
        "GOINSECURE": "",
        "GOOS": "linux",
        "CC": "gcc",
        "CGO_CFLAGS": "-O2",
        "CGO_LDFLAGS": "",
    }


@dataclass(frozen=True, slots=True)
class _Go:
    """The go command, in one directory."""

    commands: Commands
    directory: Path
    env: Mapping[str, str]

    def download(self, modules: Iterable[Module]) -> list[dict[str, Any]]:
        """Where go put each of these modules, verified."""
        wanted = [str(module) for module in modules]
        try:
            out = self._run(["mod", "download", "-json", *wanted], timeout=1200)
        except CommandFailed as error:
            raise _explained(error) from None
        return list(_documents(out))

    def describe(self, go_mod: Path) -> dict[str, Any]:
        """A go.mod as data."""
        document: dict[str, Any] = json.loads(self._run(["mod", "edit", "-json", str(go_mod)]))
        return document

    def build(self, recipe: GoPrograms, stamps: Iterable[str], target: Path, place: Workplace) -> None:
        """Builds every program, under the name Go gives it; one command, so that linking overlaps with compiling."""
        count = 0

        def show(line: str) -> None:
            nonlocal count
            if line.startswith("go: downloading "):
                place.say(line.removeprefix("go: "))
            elif line and "/" in line and " " not in line:
                count += 1
                place.say(f"compiling, {count} packages: {line}")

        link = ["-s", "-w", "-buildid=", *stamps]
        link += [_STATIC] if recipe.cgo else []
        argv = ["build", "-v", "-o", f"{target}/"]
        argv += ["-tags", ",".join(recipe.tags)] if recipe.tags else []
        argv += ["-ldflags", " ".join(link), *(program.package for program in recipe.programs)]
        try:
            self._run(argv, on_line=show, timeout=5400)
        except CommandFailed as error:
            raise _explained(error) from None

    def _run(self, argv: list[str], **options: Any) -> str:
        return self.commands.run(["go", *argv], cwd=self.directory, env=self.env, **options)


def _documents(text: str) -> Iterable[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while (rest := text[at:].lstrip()) != "":
        at = len(text) - len(rest)
        document, end = decoder.raw_decode(rest)
        yield document
        at += end


def _replacements(go_mod: Mapping[str, Any], staging: str) -> list[str]:
    """What a module replaces by other versions or by Kubernetes' own tree: Go heeds that in the main module only."""
    lines = []
    for item in go_mod.get("Replace") or []:
        old, new = item["Old"]["Path"], item["New"]
        if "staging/src/" in new["Path"]:
            if staging and "/sample-" not in old:  # examples: published late, imported by nothing
                lines.append(f"replace {old} => {old} {staging}")
        elif new.get("Version"):
            old = f"{old} {item['Old']['Version']}" if item["Old"].get("Version") else old
            lines.append(f"replace {old} => {new['Path']} {new['Version']}")
    return lines


def _stamps(stamps: Iterable[tuple[str, str]], module: Mapping[str, Any]) -> list[str]:
    info = json.loads(Path(module["Info"]).read_bytes())
    date = re.sub(r"\.\d+(?=Z$)", "", str(info.get("Time", "1970-01-01T00:00:00Z")))
    return [f"-X {name}={value.replace('{date}', date)}" for name, value in stamps]


_REASONS = (
    (
        re.compile(r"SECURITY ERROR|checksum mismatch"),
        "does not match Go's checksum database, and nothing of it was used",
        "Do not build this version; something between here and the module proxy changed it.",
    ),
    (
        re.compile(r"verifying .*(404|410|not found)", re.IGNORECASE),
        "cannot be verified: Go's checksum database does not know it",
        "Choose another version; verification is never switched off.",
    ),
    (
        re.compile(r"requires go >= (\S+)"),
        "needs a newer Go compiler",
        "Install the Go release named above, or newer.",
    ),
    (
        re.compile(r"(403 Forbidden|404 Not Found|410 Gone|unknown revision|invalid version)"),
        "is not to be had from the module proxy",
        "Choose another version; a few patches of most modules are missing.",
    ),
    (
        re.compile(r"dial tcp|no such host|connection refused|i/o timeout|TLS handshake|proxyconnect|EOF|deadline"),
        "could not be fetched: the Go module proxy does not answer",
        (
            "Check GOPROXY and the network and run this again: what is finished is kept. With no network at all, copy "
            "the cache directory from a machine that has built it, or use a bundle made elsewhere."
        ),
    ),
    (
        re.compile(r"no space left on device"),
        "could not be built: no space left",
        "Free some space (a build of one Kubernetes version needs about 8 GB) or set KUBEXM_CACHE to another place.",
    ),
)
_MODULE = re.compile(r"[a-z0-9.-]+\.[a-z]+/[\w./-]+@v[\w.+-]+")


def _explained(error: CommandFailed) -> LabError:
    """What went wrong with which module, where Go's own words allow to say; otherwise the error as it was."""
    for pattern, what, hint in _REASONS:
        for line in error.output.splitlines():
            if pattern.search(line):
                # the last one named is the one refused: before it may come a file that wants it
                modules = _MODULE.findall(re.sub(r"https?://\S+", "", line))
                return LabError(f"{modules[-1] if modules else 'a module'} {what}\n  {line.strip()}", hint=hint)
    return error
