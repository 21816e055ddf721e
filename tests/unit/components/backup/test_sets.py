"""Sets on disk: a good one verifies, and every kind of damage is found and named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from kubexm.components.backup.age import new_identity, seal
from kubexm.components.backup.manifest import MANIFEST, SEALED, SNAPSHOT, Part
from kubexm.components.backup.sealed import Contents, pack
from kubexm.components.backup.sets import BackupSet, check, describe_file, find_sets, partial_path, prepare, remove
from kubexm.components.pki.x509 import fingerprint
from kubexm.redact import Secret
from tests.unit.components.backup.made import (
    IDENTITY,
    RECIPIENT,
    UID,
    contents,
    manifest_of,
    rewritten,
    snapshot,
    written,
)

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def ca() -> bytes:
    return authority()


def authority() -> bytes:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import NameOID

    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    dated = made.serial_number(x509.random_serial_number()).not_valid_before(start)
    signed = dated.not_valid_after(start + timedelta(days=10)).sign(key, None)
    return signed.public_bytes(serialization.Encoding.PEM)


def problems(path: Path, *, uid: str = UID, identity: Secret | None = IDENTITY) -> list[str]:
    return check(BackupSet.at(path), uid=uid, identity=identity)


def test_a_good_set_is_listed_and_good(tmp_path: Path, ca: bytes) -> None:
    path = written(tmp_path, ca)
    assert problems(path) == []
    assert [(each.name, each.fault) for each in find_sets(tmp_path)] == [(path.name, "")]
    assert fingerprint(ca.decode()) == find_sets(tmp_path)[0].manifest.ca_fingerprint  # type: ignore[union-attr]
    assert {each.stat().st_mode & 0o777 for each in path.iterdir()} == {0o600}
    assert path.stat().st_mode & 0o777 == 0o700


def flip(name: str, place: int) -> Damage:
    def damage(path: Path) -> None:
        content = bytearray((path / name).read_bytes())
        content[place] ^= 1
        (path / name).write_bytes(content)

    return damage


def cut(name: str, left: int) -> Damage:
    return lambda path: os.truncate(path / name, left)


def again(path: Path, *, sealed: bytes | None = None, plain: bytes | None = None) -> None:
    """Other parts, with a manifest that fits them: damage that sums alone do not find."""
    content = plain or snapshot()
    (path / SNAPSHOT).write_bytes(content)
    if sealed is not None:
        (path / SEALED).write_bytes(sealed)
    manifest = BackupSet.at(path).manifest
    assert manifest is not None
    from dataclasses import replace

    parts = {name: describe_file(path / name) for name in manifest.parts}
    (path / MANIFEST).write_bytes(replace(manifest, parts=parts).render())


def replaced_by_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_a_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


DAMAGE: dict[str, tuple[Damage, str]] = {
    "manifest missing": (lambda path: (path / MANIFEST).unlink(), "manifest.json is missing"),
    "manifest empty": (cut(MANIFEST, 0), "not valid JSON"),
    "manifest truncated": (cut(MANIFEST, 200), "not valid JSON"),
    "manifest of another kind": (lambda path: (path / MANIFEST).write_text("[]"), "no format number"),
    "manifest without a format": (lambda path: (path / MANIFEST).write_text("{}"), "no format number"),
    "newer format": (lambda path: rewritten(path, format=2), "a newer version of kubexm (0.2.0)"),
    "older format": (lambda path: rewritten(path, format=0), "an older version of kubexm"),
    "manifest edited": (lambda path: rewritten(path, revision=1), "damaged or edited"),
    "manifest is a directory": (
        lambda path: replaced_by_a_directory(path / MANIFEST),
        "manifest.json cannot be read",
    ),
    "manifest reformatted": (
        lambda path: (path / MANIFEST).write_text(json.dumps(json.loads((path / MANIFEST).read_text()))),
        "it was edited",
    ),
    "snapshot missing": (lambda path: (path / SNAPSHOT).unlink(), "snapshot.db: it is missing"),
    "snapshot empty": (cut(SNAPSHOT, 0), "truncated: 0 bytes"),
    "snapshot truncated": (cut(SNAPSHOT, 512 * 20 + 32), "snapshot.db: it is truncated"),
    "snapshot too long": (
        lambda path: os.truncate(path / SNAPSHOT, (path / SNAPSHOT).stat().st_size + 1),
        "snapshot.db: it is too long",
    ),
    "first byte of the snapshot": (flip(SNAPSHOT, 0), "snapshot.db: its sha256 is"),
    "a byte amid the snapshot": (flip(SNAPSHOT, 10_000), "snapshot.db: its sha256 is"),
    "last byte of the snapshot": (flip(SNAPSHOT, -1), "snapshot.db: its sha256 is"),
    "snapshot is a link": (
        lambda path: replaced_by_a_link(path / SNAPSHOT),
        "not an ordinary file",
    ),
    "snapshot without etcd's checksum": (
        lambda path: again(path, plain=snapshot()[:-32]),
        "does not end with the checksum",
    ),
    "snapshot with a wrong checksum of etcd": (
        lambda path: again(path, plain=snapshot()[:-1] + b"?"),
        "does not match the checksum that etcd appended",
    ),
    "sealed part missing": (lambda path: (path / SEALED).unlink(), "secrets.age: it is missing"),
    "sealed part truncated": (cut(SEALED, 300), "secrets.age: it is truncated"),
    "a byte of the sealed part": (flip(SEALED, -20), "secrets.age: its sha256 is"),
    "sealed part is not age": (lambda path: again(path, sealed=b"x" * 400), "not in the age format"),
    "sealed part holds no archive": (
        lambda path: again(path, sealed=seal(b"no archive", [RECIPIENT])),
        "not an archive that kubexm packed",
    ),
    "a file that does not belong": (lambda path: (path / "notes").write_text("x"), "notes does not belong to the set"),
    "readable by others": (lambda path: (path / SNAPSHOT).chmod(0o644), "other users can read it (mode 0644)"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_named(tmp_path: Path, ca: bytes, kind: str) -> None:
    path = written(tmp_path, ca)
    damage, expected = DAMAGE[kind]
    damage(path)
    found = problems(path)
    assert any(expected in problem for problem in found), found


def test_a_set_of_another_cluster_is_refused(tmp_path: Path, ca: bytes) -> None:
    path = written(tmp_path, ca)
    assert problems(path, uid="") == []
    assert "it is of another cluster: demo" in problems(path, uid="another")[0]


def test_the_wrong_key_is_named_with_whose_it_is(tmp_path: Path, ca: bytes) -> None:
    path, other = written(tmp_path, ca), new_identity()
    assert problems(path, identity=None) == []
    [found] = problems(path, identity=other)
    assert f"sealed for {RECIPIENT}" in found
    assert other.reveal() not in found


def test_a_set_without_keys_is_good_but_cannot_be_opened(tmp_path: Path, ca: bytes) -> None:
    path = written(tmp_path, ca, keys=False)
    assert problems(path, identity=None) == []
    assert "taken without a recipient" in problems(path)[0]


CONTENTS: dict[str, tuple[Callable[[bytes], Contents], str]] = {
    "another snapshot": (lambda ca: contents(ca, b"another"), "belongs to another snapshot"),
    "another cluster": (lambda ca: contents(ca, snapshot(), uid="another"), "another cluster, UID another"),
    "another CA": (lambda ca: contents(authority(), snapshot()), "its CA is not the one of the manifest"),
    "no encryption key": (
        lambda ca: contents(ca, snapshot(), files={"secrets/encryption-config": b""}),
        "the encryption key secretbox:key1:",
    ),
    "no CA key": (lambda ca: without(contents(ca, snapshot()), "secrets/pki.ca.key"), "secrets/pki.ca.key is missing"),
    "no cluster file": (lambda ca: without(contents(ca, snapshot()), "cluster.yaml"), "cluster.yaml is missing"),
}


def without(found: Contents, name: str) -> Contents:
    return Contents({each: text for each, text in found.files.items() if each != name}, found.snapshot, found.uid)


@pytest.mark.parametrize("kind", CONTENTS)
def test_sealed_contents_that_do_not_fit_are_named(tmp_path: Path, ca: bytes, kind: str) -> None:
    made, expected = CONTENTS[kind]
    found = problems(written(tmp_path, ca, sealed=made(ca)))
    assert any(expected in problem for problem in found), found


def test_a_sealed_file_changed_inside_the_archive_is_named(tmp_path: Path, ca: bytes) -> None:
    packed = pack(contents(ca, snapshot()))
    path = written(tmp_path, ca)
    again(path, sealed=seal(packed.replace(b"kind: Cluster", b"kind: Clutter"), [RECIPIENT]))
    assert "cluster.yaml is damaged" in problems(path)[0]


def test_a_set_that_was_never_finished_is_not_listed(tmp_path: Path, ca: bytes) -> None:
    partial = prepare(tmp_path, "demo-half")
    (partial / SNAPSHOT).write_bytes(snapshot())
    parts: dict[str, Part] = {}
    (partial / MANIFEST).write_bytes(manifest_of(ca, snapshot(), parts).render())
    assert partial == partial_path(tmp_path, "demo-half")
    assert find_sets(tmp_path) == []
    assert find_sets(tmp_path / "absent") == []


def test_a_removed_set_is_gone(tmp_path: Path, ca: bytes) -> None:
    path = written(tmp_path, ca)
    remove(path)
    assert list(tmp_path.iterdir()) == []


def test_sets_are_listed_oldest_first_and_damaged_ones_before_them(tmp_path: Path, ca: bytes) -> None:
    written(tmp_path, ca, name="a-new", taken="2026-02-01T00:00:00Z")
    written(tmp_path, ca, name="b-old", taken="2026-01-01T00:00:00Z")
    (written(tmp_path, ca, name="c-broken") / MANIFEST).unlink()
    assert [each.name for each in find_sets(tmp_path)] == ["c-broken", "b-old", "a-new"]


def test_the_manifest_holds_no_secret(tmp_path: Path, ca: bytes) -> None:
    text = (written(tmp_path, ca) / MANIFEST).read_text()
    assert "KEY" not in text
    assert IDENTITY.reveal() not in text
    assert sha256(b"k" * 32).hexdigest()[:16] not in text  # ids are keyed: no bare digest of the key
