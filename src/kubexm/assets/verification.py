"""Says everything that is wrong with a bundle, all at once, and what its signature is worth."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kubexm.assets.findings import Finding, Kind
from kubexm.assets.layout import MANIFEST, MANIFEST_SUM, META, SIGNATURE
from kubexm.assets.manifest import FORMAT_VERSION, Manifest
from kubexm.assets.manifest_json import FormatUnsupported
from kubexm.assets.scan import scan_directory, scan_packed
from kubexm.assets.unarchive import CutShort, PackedBundle
from kubexm.errors import AssetError

if TYPE_CHECKING:
    from kubexm.assets.signing import PublicKey

__all__ = ["Report", "check_meta", "read_meta", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What verifying a bundle found."""

    path: Path
    manifest: Manifest | None
    signed_by: str
    """The id of the key that signed it, or empty."""
    signature_checked: bool
    """Whether a public key was given to check the signature with."""
    findings: tuple[Finding, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def verify(path: Path, *, key: PublicKey | None = None, arch: str = "") -> Report:
    """Checks a bundle, directory or archive: every byte, its signature if a key is given, its architecture if named."""
    packed: PackedBundle | None = None
    try:
        if not path.is_dir():
            packed = PackedBundle(path)
        meta = packed.meta if packed else read_meta(path)
    except AssetError as error:
        kind = Kind.CUT_SHORT if isinstance(error, CutShort) else Kind.DAMAGED
        return _report(path, None, {}, key, [Finding(kind=kind, path=str(path), detail=_without(error.message, path))])
    try:
        manifest, findings = check_meta(meta)
        findings += _check_signature(meta, key)
        if manifest is not None:
            if arch and manifest.arch != arch:
                detail = f"the bundle is for {manifest.arch}, not for {arch}"
                findings.append(Finding(kind=Kind.ARCHITECTURE, path=MANIFEST, detail=detail))
            findings += scan_packed(packed, manifest) if packed else scan_directory(path, manifest)
        return _report(path, manifest, meta, key, findings)
    finally:
        if packed:
            packed.close()


def read_meta(directory: Path) -> dict[str, bytes]:
    """The manifest and its companions, of a bundle directory."""
    meta: dict[str, bytes] = {}
    for name in META:
        path = directory / name
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise AssetError(f"{path} is not a plain file")
            meta[name] = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise AssetError(f"{path} cannot be read: {error.strerror}") from error
    if MANIFEST not in meta:
        raise AssetError(f"{directory} is not a bundle: it has no {MANIFEST}")
    return meta


def check_meta(meta: dict[str, bytes]) -> tuple[Manifest | None, list[Finding]]:
    """The manifest if it can be understood, and what is wrong with it or with its sum."""
    findings: list[Finding] = []
    sha256 = hashlib.sha256(meta[MANIFEST]).hexdigest()
    if MANIFEST_SUM not in meta:
        findings.append(Finding(kind=Kind.MISSING, path=MANIFEST_SUM, detail="is missing"))
    elif meta[MANIFEST_SUM] != f"{sha256}  {MANIFEST}\n".encode():
        detail = f"was edited or damaged: its sha256 is {sha256}, which is not what {MANIFEST_SUM} says"
        findings.append(Finding(kind=Kind.MANIFEST, path=MANIFEST, detail=detail))
    try:
        return Manifest.from_json(meta[MANIFEST]), findings
    except FormatUnsupported as error:
        detail = f"has format version {error.version!r}; this kubexm reads version {FORMAT_VERSION}"
        return None, [*findings, Finding(kind=Kind.FORMAT, path=MANIFEST, detail=detail)]
    except AssetError as error:
        return None, [*findings, Finding(kind=Kind.MANIFEST, path=MANIFEST, detail=_without(error.message, MANIFEST))]


def _check_signature(meta: dict[str, bytes], key: PublicKey | None) -> list[Finding]:
    if SIGNATURE not in meta:
        if key is None:
            return []
        return [Finding(kind=Kind.SIGNATURE, path=SIGNATURE, detail="is missing: the bundle is not signed")]
    from kubexm.assets.signing import Signature

    try:
        signature = Signature.from_json(meta[SIGNATURE], where=SIGNATURE)
    except AssetError as error:
        return [Finding(kind=Kind.SIGNATURE, path=SIGNATURE, detail=_without(error.message, SIGNATURE))]
    problem = key.problem(signature, meta[MANIFEST]) if key else ""
    return [Finding(kind=Kind.SIGNATURE, path=SIGNATURE, detail=problem)] if problem else []


def _report(
    path: Path, manifest: Manifest | None, meta: dict[str, bytes], key: PublicKey | None, findings: list[Finding]
) -> Report:
    return Report(
        path=path,
        manifest=manifest,
        signed_by=signer(meta),
        signature_checked=key is not None and SIGNATURE in meta,
        findings=tuple(findings),
    )


def signer(meta: dict[str, bytes]) -> str:
    """The id of the key a bundle says it is signed with, or empty."""
    if SIGNATURE not in meta:
        return ""
    from kubexm.assets.signing import Signature

    try:
        return Signature.from_json(meta[SIGNATURE], where=SIGNATURE).key_id
    except AssetError:
        return ""


def _without(message: str, path: Path | str) -> str:
    """The message without the path it begins with, since a finding names that itself."""
    return message.removeprefix(f"{path} ").removeprefix(f"{path}, ")
