"""Debian's packages, fetched and verified by apt in a state directory of its own; ours do not matter.

Needs no root. Which archive they come from is this machine's apt set-up, or what the user says. Knows nothing of what
the packages are for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from kubexm.errors import LabError
from kubexm.lab.bundle.artefacts import Artefact, Entry, Workplace
from kubexm.lab.bundle.commands import CommandFailed, Commands
from kubexm.lab.bundle.licences import licence_of
from kubexm.lab.mirror import machine_mirror, read_sources

__all__ = ["Apt", "DebianFiles", "DebianPackages", "FetchedPackage", "fetched_packages"]

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_INDEX = "packages.json"
_LIBRARY_SECTIONS = ("libs", "oldlibs")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPackage:
    """A package file, and what its own control data says of it."""

    name: str
    version: str
    file: str
    licence: str
    requested: bool


@dataclass(frozen=True, kw_only=True)
class DebianPackages(Artefact):
    """Packages with everything they depend on that a minimal Debian lacks: what a bare host must be given."""

    release: str
    arch: str
    packages: tuple[str, ...]
    mirror: str = ""

    @property
    def tools(self) -> tuple[str, ...]:
        """apt and dpkg, of whatever version: they decide nothing but the way here."""
        return ("debian",)

    @property
    def ages(self) -> bool:
        """The archive gets security updates."""
        return True

    def make(self, place: Workplace) -> None:
        """Resolves against a minimal Debian and fetches."""
        apt = Apt.at(place.scratch / "apt", self, place.commands)
        place.say("reading package lists")
        apt.update()
        apt.pretend_minimal()
        place.say(f"fetching {', '.join(self.packages)}")
        _keep(apt.fetch(apt.resolve(self.packages), place.scratch / "debs"), self.packages, place)


@dataclass(frozen=True, kw_only=True)
class DebianFiles(Artefact):
    """Packages with every library they link to, for taking files out of: nothing that only installing would need."""

    release: str
    arch: str
    packages: tuple[str, ...]
    mirror: str = ""
    upstream: tuple[tuple[str, str], ...] = ()
    """(package, upstream's version) that this release of Debian is known to have, where others rely on it."""

    @property
    def tools(self) -> tuple[str, ...]:
        """apt and dpkg, of whatever version: they decide nothing but the way here."""
        return ("debian",)

    @property
    def ages(self) -> bool:
        """The archive gets security updates."""
        return True

    def make(self, place: Workplace) -> None:
        """Follows dependencies into libraries only, and fetches."""
        apt = Apt.at(place.scratch / "apt", self, place.commands)
        place.say("reading package lists")
        apt.update()
        place.say(f"fetching {', '.join(self.packages)}")
        found = apt.with_libraries(self.packages)
        for package, version in self.upstream:
            if not any(re.match(rf"{re.escape(package)}=(\d+:)?{re.escape(version)}([-+~]|$)", item) for item in found):
                raise LabError(f"Debian {self.release} no longer has {package} {version}", hint="Change the recipe.")
        _keep(apt.fetch(found, place.scratch / "debs"), self.packages, place)


def fetched_packages(entry: Entry) -> list[FetchedPackage]:
    """What a finished DebianPackages or DebianFiles holds."""
    return [FetchedPackage(**item) for item in json.loads(entry.path(_INDEX).read_bytes())]


def _keep(debs: Iterable[Path], requested: Iterable[str], place: Workplace) -> None:
    wanted = set(requested)
    index = []
    for deb in sorted(debs):
        show = place.commands.run(["dpkg-deb", "--showformat=${Package}\n${Version}\n", "--show", str(deb)])
        name, version = show.split()
        # apt writes an epoch's colon as %3a, which tools may take for an escape: leave the epoch out, as mirrors do
        file = re.sub(r"_\d+:", "_", unquote(deb.name))
        deb.rename(place.out / file)
        licence = licence_of(place.out / file)
        index.append({"name": name, "version": version, "file": file, "licence": licence, "requested": name in wanted})
    if lacking := wanted - {str(item["name"]) for item in index}:
        raise LabError(f"Debian did not give {', '.join(sorted(lacking))}")
    (place.out / _INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Apt:
    """apt with its own sources, lists and idea of what is installed, under one directory."""

    directory: Path
    release: str
    arch: str
    commands: Commands

    @classmethod
    def at(cls, directory: Path, recipe: DebianPackages | DebianFiles, commands: Commands) -> Apt:
        """apt for this recipe, with sources written and nothing installed."""
        for name in ("lists/partial", "cache/archives/partial"):
            (directory / name).mkdir(parents=True)
        (directory / "status").touch()
        sources = "\n".join(_sources(recipe.release, recipe.mirror)) + "\n"
        (directory / "sources.list").write_text(sources, encoding="utf-8")
        machine = commands.run(["apt-config", "dump"])
        (directory / "apt.conf").write_text(_settings(directory, recipe.arch, machine), encoding="utf-8")
        return cls(directory=directory, release=recipe.release, arch=recipe.arch, commands=commands)

    def update(self) -> None:
        """Fetches the package lists; apt verifies their signatures."""
        try:
            self._run("apt-get", "-q", "--error-on=any", "update")
        except CommandFailed as error:
            raise LabError(
                f"Debian's package lists could not be fetched: {error.message}",
                hint="Check this machine's apt set-up (`apt-get update`), or name another mirror with --mirror.",
            ) from None

    def pretend_minimal(self) -> None:
        """From now on a minimal Debian (what debootstrap calls minbase) counts as installed."""
        available = self._available()
        required = [
            name for name, text in available.items() if "\nPriority: required\n" in text or "\nEssential: yes\n" in text
        ]
        installed = [name for name, _ in self._simulate([*required, "apt"])]
        text = "".join(f"{available[name].strip()}\nStatus: install ok installed\n\n" for name in installed)
        (self.directory / "status").write_text(text, encoding="utf-8")

    def resolve(self, packages: Iterable[str]) -> list[str]:
        """name=version of everything installing these would add to what counts as installed."""
        return [f"{name}={version}" for name, version in self._simulate(packages)]

    def with_libraries(self, packages: Iterable[str]) -> list[str]:
        """name=version of these and of every library they depend on, however far down."""
        available = self._available()
        versions: dict[str, str] = {}
        wanted = list(packages)
        if unknown := [name for name in wanted if name not in available]:
            raise LabError(f"Debian {self.release} has no package {', '.join(unknown)}")
        while wanted:
            name = wanted.pop()
            stanza = _stanza(available[name])
            versions[name] = stanza["Version"]
            for needed in _dependencies(stanza):
                if needed in versions or needed not in available:  # seen, or virtual, which no library is
                    continue
                if _stanza(available[needed]).get("Section") in _LIBRARY_SECTIONS:
                    wanted.append(needed)
        return sorted(f"{name}={version}" for name, version in versions.items())

    def fetch(self, packages: Iterable[str], target: Path) -> list[Path]:
        """Downloads these; apt verifies each against the signed lists."""
        target.mkdir()
        self._run("apt-get", "-q", "download", *packages, cwd=target)
        return sorted(target.glob("*.deb"))

    def _available(self) -> dict[str, str]:
        """Every package of the archive, each with its control data."""
        text = self._run("apt-cache", "dumpavail")
        return dict(re.findall(r"^(?=Package: (\S+)$)((?:.+\n)+)", text, flags=re.MULTILINE))

    def _simulate(self, packages: Iterable[str]) -> list[tuple[str, str]]:
        out = self._run("apt-get", "-q", "--simulate", "--yes", "install", *packages)
        return re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", out, flags=re.MULTILINE)

    def _run(self, program: str, *argv: str, cwd: Path | None = None) -> str:
        env = {"APT_CONFIG": str(self.directory / "apt.conf")}
        return self.commands.run([program, *argv], cwd=cwd, env=env, timeout=900)


def _settings(directory: Path, arch: str, machine: str) -> str:
    """apt's settings: everything under our directory; of the machine's own only how it reaches archives.

    Its hooks above all must not run: they would clean the machine's own caches, or fail for want of root.
    """
    settings = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::sourcelist": f"{directory}/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": f"{directory}/lists",
        "Dir::State::status": f"{directory}/status",
        "Dir::State::extended_states": f"{directory}/extended_states",
        "Dir::Cache": f"{directory}/cache",
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
    }
    reaching = [line for line in machine.splitlines() if re.match(r"Acquire::(https?|ftp|Retries|ForceIPv)", line)]
    return "\n".join([*reaching, *(f'{key} "{value}";' for key, value in settings.items())]) + "\n"


def _sources(release: str, mirror: str) -> Iterator[str]:
    found = machine_mirror(release)
    url = mirror or (found.url if found else "")
    keyring = (found.keyring if found and not mirror else "") or _KEYRING
    if not url:
        raise LabError(
            "this machine's apt set-up names no Debian archive to take packages from",
            hint="Name one with --mirror URL.",
        )
    if not Path(keyring).is_file():
        raise LabError(
            f"{keyring} is not here to verify Debian's packages with", hint="Install debian-archive-keyring."
        )
    yield f"deb [signed-by={keyring}] {url} {release} main"
    yield f"deb [signed-by={keyring}] {url} {release}-updates main"
    if not mirror and (security := _security_mirror()):
        yield f"deb [signed-by={keyring}] {security} {release}-security main"


def _security_mirror(etc: Path = Path("/etc/apt")) -> str:
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if path.suffix in (".list", ".sources") and path.is_file():
            for mirror in read_sources(path.read_text(encoding="utf-8", errors="replace")):
                if any(suite.endswith("-security") for suite in mirror.suites) and "debian" in mirror.url:
                    return mirror.url
    return ""


def _stanza(text: str) -> Mapping[str, str]:
    return dict(re.findall(r"^([A-Za-z-]+): (.*)$", text, flags=re.MULTILINE))


def _dependencies(stanza: Mapping[str, str]) -> Iterator[str]:
    for field in ("Pre-Depends", "Depends"):
        for alternatives in stanza.get(field, "").split(","):
            if name := re.match(r"\s*([a-z0-9][a-z0-9.+-]*)", alternatives):
                yield name[1]
