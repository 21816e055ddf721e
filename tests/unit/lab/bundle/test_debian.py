"""Debian's packages: what is asked for, what comes along, and from where. Scripts stand in for apt and dpkg."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab.bundle import debian
from kubexm.lab.bundle.artefacts import Entry, Workplace
from kubexm.lab.bundle.debian import DebianFiles, DebianPackages, fetched_packages
from kubexm.lab.mirror import Mirror

AVAILABLE = """\
Package: libc6
Version: 2.36-9
Section: libs
Priority: optional
Depends: libgcc-s1

Package: libgcc-s1
Version: 12
Section: libs
Depends: libc6

Package: bash
Version: 5
Section: shells
Priority: required
Essential: yes
Depends: base-files (>= 2.1.12), debianutils

Package: tool
Version: 1:2.5-1+b2
Section: net
Depends: libtool1 (>= 2.5), adduser, virtual-thing
Pre-Depends: libc6

Package: libtool1
Version: 2.5-1
Section: libs
Depends: libc6 (>= 2.3) | libother

Package: adduser
Version: 3
Section: admin
Depends: libperl

"""

APT_GET = """
echo "apt-get $*" >> "$RECORD/argv"
state=$(dirname "$APT_CONFIG")
cp "$APT_CONFIG" "$state/sources.list" "$state/status" "$RECORD"
for word; do case "$word" in
update) exit "${UPDATE:-0}" ;;
--simulate)
    case "$*" in *bash*) echo "Inst bash (5 Debian:12 [amd64])" ;;
    *) echo "Inst libtool1 (2.5-1 Debian:12 [amd64])"; echo "Inst tool [1] (1:2.5-1+b2 Debian:12 [amd64])" ;; esac ;;
download) for item; do case "$item" in tool=*) touch "tool_1%3a2.5-1+b2_amd64.deb" ;;
    lib*=*) touch "${item%%=*}_2.5-1_amd64.deb" ;; esac; done ;;
esac; done
"""

MACHINE = """\
APT::Update::Post-Invoke "";
APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";
Acquire::http::Proxy "http://proxy.test:3128";
Acquire::Languages:: "en";
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs_on_path: Callable[..., Path]) -> Path:
    directory = tmp_path / "record"
    directory.mkdir()
    (directory / "available").write_text(AVAILABLE)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        text = b"License: GPL-2+\n"
        info = tarfile.TarInfo("./usr/share/doc/tool/copyright")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    (directory / "data.tar").write_bytes(data.getvalue())
    show = """for deb; do :; done
case "$1" in --fsys-tarfile) cat "$RECORD/data.tar" ;;
*) name=$(basename "$deb"); echo "${name%%_*}"; echo 2.5-1 ;; esac"""
    (directory / "machine").write_text(MACHINE)
    settings, available = 'cat "$RECORD/machine"', 'cat "$RECORD/available"'
    programs_on_path(apt_get=APT_GET, apt_cache=available, apt_config=settings, dpkg_deb=show)
    monkeypatch.setenv("RECORD", str(directory))
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    mirror = Mirror(url="http://archive.test/debian", suites=("bookworm",), keyring=str(keyring))
    monkeypatch.setattr(debian, "machine_mirror", lambda _suite: mirror)
    monkeypatch.setattr(debian, "_security_mirror", lambda: "http://security.test/debian-security")
    return directory


def finished(place: Workplace) -> list[tuple[str, str, bool, str]]:
    entry = Entry(name="x", key="", directory=place.out, files=(), seconds=0, tools=())
    return [(item.name, item.file, item.requested, item.licence) for item in fetched_packages(entry)]


def test_packages_come_with_what_a_minimal_debian_lacks(record: Path, place: Workplace) -> None:
    DebianPackages(name="x", release="bookworm", arch="amd64", packages=("tool",)).make(place)
    assert finished(place) == [
        ("libtool1", "libtool1_2.5-1_amd64.deb", False, "GPL-2.0-or-later"),
        ("tool", "tool_2.5-1+b2_amd64.deb", True, "GPL-2.0-or-later"),
    ]
    assert sorted(path.name for path in place.out.glob("*.deb")) == [
        "libtool1_2.5-1_amd64.deb",
        "tool_2.5-1+b2_amd64.deb",
    ]
    argv = (record / "argv").read_text().splitlines()
    assert argv[1].split()[-2:] == ["bash", "apt"], "minimal is what is required, and apt"
    assert "Package: bash\nVersion: 5\n" in (record / "status").read_text()
    assert "Status: install ok installed" in (record / "status").read_text()


def test_files_come_with_libraries_only(record: Path, place: Workplace) -> None:
    DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",)).make(place)
    download = (record / "argv").read_text().splitlines()[-1]
    assert download.split()[-4:] == ["libc6=2.36-9", "libgcc-s1=12", "libtool1=2.5-1", "tool=1:2.5-1+b2"]
    assert "adduser" not in download


def test_packages_come_from_this_machines_archive_and_are_verified(record: Path, place: Workplace) -> None:
    DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",)).make(place)
    lines = (record / "sources.list").read_text().splitlines()
    assert [line.split("] ")[1] for line in lines] == [
        "http://archive.test/debian bookworm main",
        "http://archive.test/debian bookworm-updates main",
        "http://security.test/debian-security bookworm-security main",
    ]
    assert all("keyring.gpg]" in line for line in lines)


def test_of_the_machines_settings_only_the_way_to_archives_is_kept(record: Path, place: Workplace) -> None:
    DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",)).make(place)
    settings = (record / "apt.conf").read_text()
    assert 'Acquire::http::Proxy "http://proxy.test:3128";' in settings
    assert "Post-Invoke" not in settings
    assert '"en"' not in settings
    assert f'Dir::Cache "{place.scratch}/apt/cache";' in settings


def test_another_archive_can_be_named(
    record: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(debian, "_KEYRING", str(tmp_path / "keyring.gpg"))
    DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",), mirror="http://mine.test/debian").make(
        place
    )
    assert [line.split()[2] for line in (record / "sources.list").read_text().splitlines()] == [
        "http://mine.test/debian"
    ] * 2


def test_no_archive_at_all(record: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "machine_mirror", lambda _suite: None)
    with pytest.raises(LabError, match="names no Debian archive") as caught:
        DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",)).make(place)
    assert "--mirror" in caught.value.hint


def test_no_keys_to_verify_with(record: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "machine_mirror", lambda _: Mirror(url="http://x.test/debian", keyring="/nowhere.gpg"))
    with pytest.raises(LabError, match=r"/nowhere\.gpg is not here to verify"):
        DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",)).make(place)


def test_lists_that_cannot_be_fetched(record: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPDATE", "100")
    with pytest.raises(LabError, match="package lists could not be fetched") as caught:
        DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",)).make(place)
    assert "apt-get update" in caught.value.hint


def test_a_package_debian_does_not_have(record: Path, place: Workplace) -> None:
    with pytest.raises(LabError, match="has no package nothing"):
        DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool", "nothing")).make(place)


def test_a_version_others_rely_on_is_checked(record: Path, place: Workplace) -> None:
    with pytest.raises(LabError, match=r"no longer has tool 2\.4"):
        DebianFiles(name="x", release="bookworm", arch="amd64", packages=("tool",), upstream=(("tool", "2.4"),)).make(
            place
        )


def test_what_was_asked_for_must_have_come(record: Path, place: Workplace) -> None:
    recipe = DebianPackages(name="x", release="bookworm", arch="amd64", packages=("tool", "socat"))
    with pytest.raises(LabError, match="Debian did not give socat"):
        recipe.make(place)
    assert not (place.out / "packages.json").exists()
