"""Backup sets for tests, as a backup writes them, with a small file in the form of an etcd snapshot."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from kubexm.components.backup.age import new_identity, recipient_of, seal
from kubexm.components.backup.keys import ca_fingerprint, encryption_key_ids
from kubexm.components.backup.manifest import MANIFEST, SEALED, SNAPSHOT, Manifest, Part
from kubexm.components.backup.sealed import Contents, pack
from kubexm.components.backup.sets import describe_file, prepare, publish, write_file
from kubexm.components.pki.encryption import encryption_config

UID = "11111111-2222-3333-4444-555555555555"
IDENTITY = new_identity()
RECIPIENT = recipient_of(IDENTITY)
KEY = base64.b64encode(b"k" * 32).decode()
ENCRYPTION = encryption_config("secretbox", KEY, ("secrets",)).encode()


def snapshot(pages: int = 40, fill: bytes = b"etcd") -> bytes:
    """Pages, and the checksum that etcd appends."""
    body = (fill * 512)[:512] * pages
    return body + sha256(body).digest()


def contents(ca: bytes, of: bytes, **more: Any) -> Contents:
    """What is sealed."""
    files = {
        "cluster.yaml": b"kind: Cluster\n",
        "state/uid": UID.encode(),
        "secrets/pki.ca.crt": ca,
        "secrets/encryption-config": ENCRYPTION,
        **{f"secrets/{name}": b"KEY" for name in ("pki.ca.key", "pki.front-proxy-ca.key", "pki.sa.key")},
    }
    return Contents({**files, **more.pop("files", {})}, sha256(of).hexdigest(), more.pop("uid", UID))


def manifest_of(ca: bytes, of: bytes, parts: dict[str, Part], **more: Any) -> Manifest:
    """The manifest."""
    made = Manifest(
        cluster="demo",
        uid=UID,
        run="20260101-100000-abcd",
        taken="2026-01-01T10:00:00Z",
        kubexm="0.2.0",
        kubernetes="1.34.4",
        etcd="3.6.5",
        member="n1",
        members=({"id": "1f", "name": "n1", "peer_urls": [], "client_urls": []},),
        revision=1234,
        hash=99,
        total_keys=12,
        ca_fingerprint=ca_fingerprint(ca),
        encryption_keys=encryption_key_ids(ENCRYPTION),
        recipients=(RECIPIENT,) if SEALED in parts else (),
        parts={SNAPSHOT: Part(size=len(of), sha256=sha256(of).hexdigest()), **parts},
    )
    return replace(made, **more)


def written(
    target: Path,
    ca: bytes,
    *,
    name: str = "demo-20260101-100000-abcd",
    sealed: Contents | None = None,
    keys: bool = True,
    **more: Any,
) -> Path:
    """A set in `target`; with other contents or manifest where a test says so."""
    partial, content = prepare(target, name), snapshot()
    write_file(partial / SNAPSHOT, content)
    parts: dict[str, Part] = {}
    if keys:
        write_file(partial / SEALED, seal(pack(sealed or contents(ca, content)), [RECIPIENT]))
        parts[SEALED] = describe_file(partial / SEALED)
    write_file(partial / MANIFEST, manifest_of(ca, content, parts, **more).render())
    return publish(target, name)


def rewritten(path: Path, **values: Any) -> None:
    """The manifest with other values, its digest left as it was."""
    data = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**data, **values}, indent=1, sort_keys=True) + "\n")
