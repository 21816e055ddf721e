"""What is missing on a machine gets one clear line, and an offer where apt is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab import needs


def test_only_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(LabError) as caught:
        needs.check_platform("up")
    assert caught.value.message == "The lab runs on Linux only, and this is darwin."
    assert caught.value.hint


def test_only_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError) as caught:
        needs.check_platform("cut")
    assert caught.value.message.startswith("`kubexm lab cut` needs root")
    assert caught.value.hint == "Run `sudo kubexm lab cut`."


def test_without_apt_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _lacks(monkeypatch, {"systemd-nspawn", "debootstrap", "apt-get"})
    with pytest.raises(LabError) as caught:
        needs.check_tools(log=tmp_path / "log")
    assert caught.value.message == "The lab needs debootstrap, systemd-nspawn, which this machine does not have."
    assert caught.value.hint == "Install what your distribution calls debootstrap, systemd-container."


@pytest.mark.parametrize("answer", [None, False])
def test_nothing_is_installed_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bool | None) -> None:
    _lacks(monkeypatch, {"systemd-nspawn"})
    _forbid_installing(monkeypatch)
    questions: list[str] = []

    def confirm(question: str) -> bool:
        questions.append(question)
        return False

    with pytest.raises(LabError) as caught:
        needs.check_tools(confirm=None if answer is None else confirm, log=tmp_path / "log")
    command = "apt-get install --yes systemd-container"
    assert caught.value.hint == f"Run `{command}`, or let kubexm do it with `kubexm lab up --install`."
    expected = [] if answer is None else [f"The lab needs systemd-nspawn. Install with `{command}`?"]
    assert questions == expected


def test_what_is_agreed_to_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = {"systemd-nspawn", "mkfs.ext4"}
    _lacks(monkeypatch, lacking)
    commands: list[str] = []

    def stream(argv: list[str], **_: object) -> None:
        commands.append(" ".join(argv))
        if "install" in argv:
            lacking.clear()

    monkeypatch.setattr(needs, "stream", stream)
    needs.check_tools(confirm=lambda _: True, log=tmp_path / "log")
    assert commands == ["apt-get update", "apt-get install --yes --no-install-recommends e2fsprogs systemd-container"]


def test_an_installation_that_did_not_help_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _lacks(monkeypatch, {"systemd-nspawn"})
    monkeypatch.setattr(needs, "stream", lambda *_, **__: None)
    with pytest.raises(LabError, match="systemd-nspawn is still missing"):
        needs.check_tools(confirm=lambda _: True, log=tmp_path / "log")


def test_missing_archive_keys_are_a_package_like_any_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _lacks(monkeypatch, set())
    monkeypatch.setattr(needs, "_KEYRING", tmp_path / "none")
    assert needs.missing_packages() == {"Debian's archive keys": "debian-archive-keyring"}


def _lacks(monkeypatch: pytest.MonkeyPatch, tools: set[str]) -> None:
    def which(tool: str, path: str | None = None) -> str | None:
        return None if tool in tools else f"/usr/bin/{tool}"

    monkeypatch.setattr("shutil.which", which)
    monkeypatch.setattr(needs, "_KEYRING", Path("/"))


def _forbid_installing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(*_: object, **__: object) -> None:
        raise AssertionError("installed something nobody agreed to")

    monkeypatch.setattr(needs, "stream", stream)
