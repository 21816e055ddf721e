"""From the user's file to connection settings: paths from where the file is, secrets read once and masked."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm import config
from kubexm.connector import ConnectionSettings
from kubexm.redact import MASK, Redactor, Secret
from kubexm.runtime.settings import SettingsReader
from tests.unit.runtime.clusters import cluster_file

BODY = """
global:
  user: admin
  privateKeyPath: keys/id_ed25519
  privateKeyPassphrase: env:KX_PASSPHRASE
  connectionTimeout: 7s
  bastion:
    - {address: 198.51.100.1, user: hop, password: "file:hop.txt"}
    - {address: 198.51.100.2, port: 2222, user: hop, password: "file:hop.txt"}
hosts:
  - {name: n1, address: 10.0.0.1, sudoPassword: root-word}
  - {name: n2, address: 10.0.0.2, user: root, agent: true, port: 2022, bastion: []}
roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n2]}
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, ConnectionSettings], Redactor]:
    monkeypatch.setenv("KX_PASSPHRASE", "open-sesame")
    (tmp_path / "hop.txt").write_text("hop-word\n")
    loaded = config.load(cluster_file(tmp_path, BODY))
    redactor = Redactor()
    reader = SettingsReader(loaded.source.directory, redactor)
    return {host.name: reader.settings(host) for host in loaded.cluster.hosts}, redactor


def test_a_host_takes_what_it_does_not_say_from_the_defaults(
    settings: tuple[dict[str, ConnectionSettings], Redactor], tmp_path: Path
) -> None:
    n1, n2 = settings[0]["n1"], settings[0]["n2"]
    assert (n1.address, n1.port, n1.user, n1.timeout) == ("10.0.0.1", 22, "admin", 7.0)
    assert n1.private_key_path == tmp_path / "keys" / "id_ed25519"
    assert (n1.passphrase, n1.sudo_password) == (Secret("open-sesame"), Secret("root-word"))
    assert (n2.user, n2.port, n2.agent, n2.bastions) == ("root", 2022, True, ())


def test_a_chain_of_bastions_keeps_its_order_and_has_logins_of_its_own(
    settings: tuple[dict[str, ConnectionSettings], Redactor],
) -> None:
    hops = settings[0]["n1"].bastions
    assert [(hop.address, hop.port, hop.user) for hop in hops] == [
        ("198.51.100.1", 22, "hop"),
        ("198.51.100.2", 2222, "hop"),
    ]
    assert {hop.password for hop in hops} == {Secret("hop-word")}
    assert all(hop.sudo_password is None for hop in hops)


def test_every_secret_that_was_read_is_masked_and_shown_nowhere(
    settings: tuple[dict[str, ConnectionSettings], Redactor],
) -> None:
    words = ("open-sesame", "root-word", "hop-word")
    assert settings[1](" ".join(words)) == " ".join([MASK] * 3)
    assert not any(word in repr(settings[0]) for word in words)


def test_a_secret_that_is_also_a_name_is_warned_of_and_not_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Masks in place of the user's name would tell everybody what the password is."""
    monkeypatch.setenv("KX_SUDO", "carol")
    body = "global: {user: carol, sudoPassword: env:KX_SUDO}\nhosts:\n  - {name: n1, address: 10.0.0.1}\n"
    body += "  - {name: n2, address: 10.0.0.2}\nroleGroups: {etcd: [n1], controlPlane: [n1], worker: [n2]}\n"
    loaded = config.load(cluster_file(tmp_path, body))
    redactor = Redactor()
    with caplog.at_level("WARNING", logger="kubexm"):
        reader = SettingsReader(loaded.source.directory, redactor, names=config.names_in(loaded.cluster))
        assert [reader.settings(host).sudo_password for host in loaded.cluster.hosts] == [Secret("carol")] * 2
    (record,) = caplog.records
    assert record.getMessage().startswith("the sudo password of carol cannot be masked")
    assert redactor("carol on n1") == "carol on n1"
