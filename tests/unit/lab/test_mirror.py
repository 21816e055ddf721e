"""Where Debian comes from, as apt has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.lab import mirror
from kubexm.lab.mirror import Mirror, machine_mirror, proxies, read_sources

_STANZAS = """\
# A comment
Types: deb deb-src
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.test/debian-security
Suites: bookworm-security
Components: main

Types: deb
Enabled: no
URIs: http://off.test/debian
Suites: bookworm

Types: deb-src
URIs: http://sources.test/debian
Suites: bookworm

Types: deb
URIs: http://one.test/debian
  http://two.test/debian
Suites: trixie
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
"""


def test_stanzas_are_read() -> None:
    found = list(read_sources(_STANZAS))
    assert found[0] == Mirror(
        url="http://mirror.test/debian",
        suites=("bookworm", "bookworm-updates"),
        keyring="/usr/share/keyrings/debian-archive-keyring.gpg",
    )
    assert [each.url for each in found] == [
        "http://mirror.test/debian",
        "http://mirror.test/debian-security",
        "http://one.test/debian",
        "http://two.test/debian",
    ]
    assert found[2].keyring == ""  # a key in the file itself names no keyring


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("deb http://m.test/debian bookworm main", Mirror(url="http://m.test/debian", suites=("bookworm",))),
        (
            "deb [arch=amd64 signed-by=/k.gpg] https://m.test/debian/ sid main contrib # why",
            Mirror(url="https://m.test/debian/", suites=("sid",), keyring="/k.gpg"),
        ),
        (
            "deb [ arch=amd64 ] http://m.test/debian bookworm main",
            Mirror(url="http://m.test/debian", suites=("bookworm",)),
        ),
    ],
)
def test_lines_are_read(line: str, expected: Mirror) -> None:
    assert list(read_sources(line)) == [expected]


@pytest.mark.parametrize(
    "line", ["", "# deb http://m.test/debian bookworm main", "deb-src http://m.test/d b", "deb", 'deb "']
)
def test_lines_that_name_no_archive(line: str) -> None:
    assert list(read_sources(line)) == []


def test_the_archive_with_the_suite_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://other.test/debian trixie main\n")
    (tmp_path / "sources.list.d" / "debian.sources").write_text(_STANZAS)
    found = machine_mirror("bookworm", etc=tmp_path)
    assert found is not None
    assert found.url == "http://mirror.test/debian"


def test_another_release_of_the_same_archive_will_do(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(
        "deb http://tools.test/apt stable main\ndeb http://other.test/debian trixie main\n"
    )
    found = machine_mirror("bookworm", etc=tmp_path)
    assert found is not None
    assert found.url == "http://other.test/debian"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deb http://archive.test/ubuntu noble main",
        "deb http://mirror.test/debian-security bookworm-security main",
        "deb http://tools.test/node nodistro main",
        "deb cdrom:/debian bookworm main",
    ],
)
def test_machines_whose_apt_knows_no_debian_archive(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.list").write_text(text + "\n")
    assert machine_mirror("bookworm", etc=tmp_path) is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", {}),
        ('Acquire::http::Proxy "http://proxy.test:3128/";', {"http_proxy": "http://proxy.test:3128/"}),
        ('Acquire::https::Proxy "http://proxy.test:3128/";', {}),
        (
            'Acquire::http::Proxy "http://a.test/";\nAcquire::http::Proxy::mirror.test "DIRECT";',
            {"no_proxy": "mirror.test"},
        ),
        (
            'Acquire::http::Proxy "http://a.test/";\nacquire::http::proxy::mirror.test "http://b.test/";',
            {"http_proxy": "http://b.test/"},
        ),
    ],
)
def test_the_proxy_apt_uses_is_used(monkeypatch: pytest.MonkeyPatch, settings: str, expected: dict[str, str]) -> None:
    def apt_config(*_argv: str, check: bool) -> str:
        assert not check
        return settings

    monkeypatch.setattr(mirror, "run", apt_config)
    monkeypatch.setattr("shutil.which", lambda _tool: "/usr/bin/apt-config")
    assert proxies("http://mirror.test/debian") == expected
