"""Where this machine gets Debian from: its own apt set-up. Must not know what is installed from there."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubexm.lab.commands import run

__all__ = ["Mirror", "machine_mirror", "proxies", "read_sources"]

_RELEASES = ("bookworm", "trixie", "forky", "sid", "bullseye", "stable", "testing", "unstable", "oldstable")
_SCHEMES = ("http", "https", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A Debian archive: its address, the suites it is used for, and the keyring that signs it where one is named."""

    url: str
    suites: tuple[str, ...] = ()
    keyring: str = ""


def machine_mirror(suite: str, *, etc: Path = Path("/etc/apt")) -> Mirror | None:
    """The archive apt uses here, one with `suite` first; None where apt knows of no Debian archive."""
    texts = [_text(path) for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]]
    found = [mirror for text in texts for mirror in read_sources(text)]
    usable = [mirror for mirror in found if _is_debian(mirror)]
    return next((mirror for mirror in usable if suite in mirror.suites), next(iter(usable), None))


def read_sources(text: str) -> Iterator[Mirror]:
    """Every binary archive named in a sources file, in either of apt's two formats."""
    if any(line.lower().startswith("uris:") for line in text.splitlines()):
        return _read_stanzas(text)
    return _read_lines(text)


def proxies(url: str) -> dict[str, str]:
    """The environment that makes downloads from `url` use the proxy apt is told to use."""
    if shutil.which("apt-config") is None:
        return {}
    parts = urlsplit(url)
    settings = _read_settings(run("apt-config", "dump", check=False))
    for key in (f"acquire::{parts.scheme}::proxy::{parts.hostname}", f"acquire::{parts.scheme}::proxy"):
        value = settings.get(key)
        if value == "DIRECT":
            return {"no_proxy": parts.hostname or ""}
        if value:
            return {f"{parts.scheme}_proxy": value}
    return {}


def _read_settings(dump: str) -> dict[str, str]:
    settings = {}
    for line in dump.splitlines():
        key, _, value = line.partition(" ")
        settings[key.lower()] = value.strip().removesuffix(";").strip('"')
    return settings


def _is_debian(mirror: Mirror) -> bool:
    """A main archive: not security, not backports, not somebody's repository for one program."""
    parts = urlsplit(mirror.url)
    plain = any(suite in _RELEASES for suite in mirror.suites)
    return parts.scheme in _SCHEMES and plain and parts.path.rstrip("/").endswith("debian")


def _read_stanzas(text: str) -> Iterator[Mirror]:
    for stanza in _stanzas(text.splitlines()):
        if "deb" not in stanza.get("types", "deb").split() or stanza.get("enabled", "yes").lower() in ("no", "false"):
            continue
        suites = tuple(stanza.get("suites", "").split())
        signed_by = stanza.get("signed-by", "")
        for url in stanza.get("uris", "").split():
            yield Mirror(url=url, suites=suites, keyring=signed_by if signed_by.startswith("/") else "")


def _stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    stanza: dict[str, str] = {}
    field = ""
    for line in (*lines, ""):
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza, field = {}, ""
        elif line[0].isspace() and field:
            stanza[field] += " " + line.strip()
        else:
            name, _, value = line.partition(":")
            field = name.strip().lower()
            stanza[field] = value.strip()


def _read_lines(text: str) -> Iterator[Mirror]:
    for line in text.splitlines():
        words = _words(line)
        if not words or words[0] != "deb":
            continue
        options: dict[str, str] = {}
        rest = words[1:]
        if rest and rest[0].startswith("["):
            closing = next((index for index, word in enumerate(rest) if word.endswith("]")), len(rest) - 1)
            inner = " ".join(rest[: closing + 1]).strip("[] ")
            options = dict(word.split("=", 1) for word in inner.split() if "=" in word)
            rest = rest[closing + 1 :]
        if len(rest) >= 2:
            yield Mirror(url=rest[0], suites=(rest[1],), keyring=options.get("signed-by", ""))


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def _text(path: Path) -> str:
    if path.suffix not in (".list", ".sources") or not path.is_file():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")
