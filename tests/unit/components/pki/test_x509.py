"""Certificates: what is issued is as wanted, whatever differs is seen, and other programs take them for good."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from kubexm.components.pki.x509 import (
    BACKDATE,
    MARGIN,
    Authority,
    Certificate,
    Pair,
    authority_fault,
    certificate_fault,
    fingerprint,
    issue,
    key_fault,
    key_pair_fault,
    make_authority,
    make_key_pair,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
YEAR = timedelta(days=365)
CA = make_authority("kubernetes", 10 * YEAR, NOW)
OTHER = make_authority("kubernetes", 10 * YEAR, NOW)
SERVER = Certificate(
    name="pki.apiserver.cp1",
    authority="pki.ca",
    common_name="kube-apiserver",
    organizations=("ops",),
    names=("cp1", "kubernetes.default.svc"),
    addresses=("10.0.0.11", "fd00::11"),
    server=True,
)


def fault(wanted: Certificate, pair: Pair, *, ca: Pair = CA, duration: timedelta = YEAR, now: datetime = NOW) -> str:
    return certificate_fault(wanted, pair, Authority(ca).certificate, duration, now)


def test_what_is_issued_is_as_kubeadm_would() -> None:
    found = x509.load_pem_x509_certificate(issue(SERVER, Authority(CA), YEAR, NOW).public.encode())
    assert found.subject.rfc4514_string() == "CN=kube-apiserver,O=ops"
    assert found.issuer.rfc4514_string() == "CN=kubernetes"
    assert found.not_valid_before_utc == NOW.replace(microsecond=0) - BACKDATE
    assert found.not_valid_after_utc == NOW.replace(microsecond=0) + YEAR
    usage = found.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert usage.value.key_encipherment
    assert not usage.value.key_cert_sign
    assert isinstance(found.public_key(), ec.EllipticCurvePublicKey)


def test_keys_are_in_the_form_kubeadm_writes() -> None:
    assert CA.private.startswith("-----BEGIN EC PRIVATE KEY-----\n")
    pair = make_key_pair()
    assert pair.public.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert key_pair_fault(pair) == ""
    assert "do not belong together" in key_pair_fault(Pair(make_key_pair().public, pair.private))
    assert key_pair_fault(Pair("x", pair.private)) == "cannot be read"


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        (replace(SERVER, common_name="other"), "is for CN=kube-apiserver,O=ops"),
        (replace(SERVER, organizations=()), "is for CN=kube-apiserver,O=ops"),
        (replace(SERVER, names=(*SERVER.names, "cp2")), "lacks cp2"),
        (replace(SERVER, names=("cp1",)), "is valid for kubernetes.default.svc too"),
        (replace(SERVER, addresses=("10.0.0.12", "fd00::11")), "lacks 10.0.0.12"),
        (replace(SERVER, client=True), "is for other uses"),
        (replace(SERVER, server=False, client=True), "is for other uses"),
    ],
)
def test_whatever_differs_is_seen(changed: Certificate, seen: str) -> None:
    pair = issue(SERVER, Authority(CA), YEAR, NOW)
    assert fault(SERVER, pair) == ""
    assert fault(changed, pair) == seen


def test_the_order_and_form_of_names_does_not_matter() -> None:
    pair = issue(SERVER, Authority(CA), YEAR, NOW)
    same = replace(SERVER, names=SERVER.names[::-1], addresses=("fd00:0::0011", "10.0.0.11"))
    assert fault(same, pair) == ""


def test_another_ca_of_the_same_name_is_seen() -> None:
    assert fault(SERVER, issue(SERVER, Authority(OTHER), YEAR, NOW)) == "was signed by another CA"


def test_a_strange_or_broken_key_is_seen() -> None:
    pair = issue(SERVER, Authority(CA), YEAR, NOW)
    strange = issue(SERVER, Authority(CA), YEAR, NOW)
    assert fault(SERVER, Pair(pair.public, strange.private)) == "has a key that is not its own"
    assert fault(SERVER, Pair(pair.public, "half a k")) == "cannot be read"
    assert fault(SERVER, Pair("", pair.private)) == "cannot be read"
    assert key_fault(pair) == ""


def test_one_about_to_end_is_seen_in_time() -> None:
    pair = issue(SERVER, Authority(CA), YEAR, NOW)
    assert fault(SERVER, pair, now=NOW + YEAR - MARGIN - timedelta(hours=1)) == ""
    assert fault(SERVER, pair, now=NOW + YEAR - MARGIN + timedelta(hours=1)) == "ends on 2027-03-01"


def test_short_lived_ones_are_not_made_anew_all_the_time() -> None:
    day = timedelta(hours=24)
    pair = issue(SERVER, Authority(CA), day, NOW)
    assert fault(SERVER, pair, duration=day, now=NOW + timedelta(hours=15)) == ""
    assert fault(SERVER, pair, duration=day, now=NOW + timedelta(hours=17)) == "ends on 2026-03-02"


def test_an_edit_of_the_duration_is_seen() -> None:
    pair = issue(SERVER, Authority(CA), YEAR, NOW)
    assert fault(SERVER, pair, duration=2 * YEAR) == "is valid for 365 days and should be for 730 days"


def test_a_certificate_never_outlives_its_ca_and_is_good_until_then() -> None:
    short = make_authority("kubernetes", timedelta(days=20), NOW)
    pair = issue(SERVER, Authority(short), YEAR, NOW)
    assert x509.load_pem_x509_certificate(pair.public.encode()).not_valid_after_utc == NOW.replace(
        microsecond=0
    ) + timedelta(days=20)
    assert fault(SERVER, pair, ca=short, now=NOW + timedelta(days=19)) == "", "a new one would end no later"


def test_authorities_are_judged() -> None:
    assert authority_fault(CA, NOW) == ""
    assert authority_fault(CA, NOW + 11 * YEAR) == "ended on 2036-02-27"
    assert authority_fault(Pair(CA.public, OTHER.private), NOW) == "has a key that is not its own"
    assert authority_fault(issue(SERVER, Authority(CA), YEAR, NOW), NOW) == "is no CA"
    assert authority_fault(Pair("nonsense", CA.private), NOW) == "cannot be read"


_LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
_SPECS = st.builds(
    Certificate,
    name=st.just("pki.any"),
    authority=st.just("pki.ca"),
    common_name=st.text("abcdefghij:-.", min_size=1, max_size=64),
    organizations=st.lists(_LABEL, max_size=2, unique=True).map(tuple),
    names=st.lists(_LABEL, max_size=4, unique=True).map(tuple),
    addresses=st.lists(st.ip_addresses().map(str), max_size=4, unique=True).map(tuple),
    server=st.booleans(),
    client=st.just(True),
)


@settings(deadline=None, max_examples=60)
@given(_SPECS, _SPECS, st.integers(0, 9 * 365))
def test_what_is_issued_has_no_fault_and_another_ones_has(wanted: Certificate, other: Certificate, day: int) -> None:
    when = NOW + timedelta(days=day)
    pair = issue(wanted, Authority(CA), YEAR, when)
    assert fault(wanted, pair, now=when) == ""
    says = [(c.common_name, c.organizations, set(c.names), set(c.addresses), c.server) for c in (wanted, other)]
    assert (fault(other, pair, now=when) == "") == (says[0] == says[1])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here")
def test_openssl_agrees(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ca = make_authority("kubernetes", YEAR, now)
    pair = issue(SERVER, Authority(ca), YEAR, now)
    (tmp_path / "ca.crt").write_text(ca.public)
    (tmp_path / "server.crt").write_text(pair.public)
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.crt", "-purpose", "sslserver"]
    good = [*verify, "-verify_hostname", "cp1", "server.crt"]
    assert subprocess.run(good, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    stranger = [*verify, "-verify_hostname", "cp9", "server.crt"]
    assert subprocess.run(stranger, cwd=tmp_path, capture_output=True, check=False).returncode != 0
    client = ["openssl", "verify", "-CAfile", "ca.crt", "-purpose", "sslclient", "server.crt"]
    assert subprocess.run(client, cwd=tmp_path, capture_output=True, check=False).returncode != 0
    shown = subprocess.run(
        ["openssl", "x509", "-in", "ca.crt", "-noout", "-fingerprint", "-sha256"],
        cwd=tmp_path, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    assert fingerprint(ca.public) == "sha256:" + shown.strip().rpartition("=")[2].replace(":", "").lower()
