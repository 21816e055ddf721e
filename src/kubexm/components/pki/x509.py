"""Making and judging certificates, as kubeadm would make them. Pure: knows texts and times, no files and no cluster.

Keys are ECDSA P-256. A certificate is valid from a few minutes before it was made, since clocks differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = [
    "Authority",
    "Certificate",
    "Pair",
    "authority_fault",
    "certificate_fault",
    "fingerprint",
    "issue",
    "key_fault",
    "key_pair_fault",
    "make_authority",
    "make_key_pair",
]

BACKDATE: Final = timedelta(minutes=5)
MARGIN: Final = timedelta(days=30)
"""A certificate that ends sooner than this is made anew; of short-lived ones the last third of their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a certificate is to say."""

    name: str
    """Of the pair in the work directory."""
    authority: str
    """Name of the pair of the CA that signs it."""
    common_name: str
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """DNS names it is valid for."""
    addresses: tuple[str, ...] = ()
    """IP addresses it is valid for."""
    server: bool = False
    client: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (or public key) and its private key, as PEM."""

    public: str
    private: str


class Authority:
    """A CA that can sign."""

    def __init__(self, pair: Pair) -> None:
        self.certificate = x509.load_pem_x509_certificate(pair.public.encode())
        key = serialization.load_pem_private_key(pair.private.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("a CA's key is ECDSA or RSA")  # noqa: TRY004 - a key that cannot be used, like a broken one
        self.key = key


def make_authority(common_name: str, duration: timedelta, now: datetime) -> Pair:
    """A new CA, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name, ())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    start = _seconds(now) - BACKDATE
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + BACKDATE + duration)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(common_name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def issue(wanted: Certificate, authority: Authority, duration: timedelta, now: datetime) -> Pair:
    """A new certificate with a new key; it never outlives its CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    start = max(_seconds(now) - BACKDATE, issuer.not_valid_before_utc)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] if wanted.server else []
    usages += [ExtendedKeyUsageOID.CLIENT_AUTH] if wanted.client else []
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(wanted.common_name, wanted.organizations))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(_end(start, duration, issuer))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_issuer_identifier(issuer), critical=False)
    )
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in wanted.names]
    alternatives += [x509.IPAddress(ip_address(address)) for address in wanted.addresses]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return Pair(_pem(builder.sign(authority.key, hashes.SHA256())), _key_pem(key))


def make_key_pair() -> Pair:
    """A key without certificate, and its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Pair(_public_pem(key.public_key()), _key_pem(key))


def certificate_fault(
    wanted: Certificate, pair: Pair, authority: x509.Certificate, duration: timedelta, now: datetime
) -> str:
    """What is wrong with a certificate, in a few words; nothing if it is as it should be."""
    try:
        found = x509.load_pem_x509_certificate(pair.public.encode())
    except ValueError:
        return "cannot be read"
    if found.subject != _name(wanted.common_name, wanted.organizations):
        return f"is for {found.subject.rfc4514_string()}"
    try:
        found.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return "was signed by another CA"
    return key_fault(pair, found) or _contents_fault(wanted, found) or _time_fault(found, authority, duration, now)


def key_fault(pair: Pair, certificate: x509.Certificate | None = None) -> str:
    """Whether the private key belongs to the certificate."""
    try:
        certificate = certificate or x509.load_pem_x509_certificate(pair.public.encode())
        key = serialization.load_pem_private_key(pair.private.encode(), None)
    except (ValueError, TypeError):
        return "cannot be read"
    return "" if key.public_key() == certificate.public_key() else "has a key that is not its own"


def key_pair_fault(pair: Pair) -> str:
    """Whether the two halves of a key without certificate belong together."""
    try:
        key = serialization.load_pem_private_key(pair.private.encode(), None)
        public = serialization.load_pem_public_key(pair.public.encode())
    except (ValueError, TypeError):
        return "cannot be read"
    return "" if key.public_key() == public else "has two halves that do not belong together"


def authority_fault(pair: Pair, now: datetime) -> str:
    """What is wrong with a CA, in a few words."""
    try:
        found = x509.load_pem_x509_certificate(pair.public.encode())
    except ValueError:
        return "cannot be read"
    try:
        is_authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        return "is no CA"
    if found.not_valid_after_utc <= now:
        return f"ended on {found.not_valid_after_utc:%Y-%m-%d}"
    return key_fault(pair, found)


def fingerprint(public: str) -> str:
    """`sha256:` and the digest of a certificate, as `openssl x509 -fingerprint -sha256` has it, without colons."""
    return "sha256:" + x509.load_pem_x509_certificate(public.encode()).fingerprint(hashes.SHA256()).hex()


def _contents_fault(wanted: Certificate, found: x509.Certificate) -> str:
    names, addresses = _alternatives(found)
    if names != frozenset(wanted.names) or addresses != frozenset(map(_normal, wanted.addresses)):
        have = names | addresses
        want = frozenset(wanted.names) | frozenset(map(_normal, wanted.addresses))
        lacks, more = sorted(want - have), sorted(have - want)
        return f"lacks {', '.join(lacks[:3])}" if lacks else f"is valid for {', '.join(more[:3])} too"
    try:
        usages = set(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        basic = found.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "does not say what it is for"
    expected = {ExtendedKeyUsageOID.SERVER_AUTH} if wanted.server else set()
    expected |= {ExtendedKeyUsageOID.CLIENT_AUTH} if wanted.client else set()
    return "is for other uses" if usages != expected or basic.ca else ""


def _time_fault(found: x509.Certificate, authority: x509.Certificate, duration: timedelta, now: datetime) -> str:
    start, end = found.not_valid_before_utc, found.not_valid_after_utc
    if end != _end(start, duration, authority):
        return f"is valid for {_days(end - start - BACKDATE)} and should be for {_days(duration)}"
    soon = end - now < min(MARGIN, (end - start) / 3)
    # One that ends with its CA could not be made to last longer.
    return f"ends on {end:%Y-%m-%d}" if soon and end < authority.not_valid_after_utc else ""


def _end(start: datetime, duration: timedelta, authority: x509.Certificate) -> datetime:
    return min(start + BACKDATE + duration, authority.not_valid_after_utc)


def _alternatives(found: x509.Certificate) -> tuple[frozenset[str], frozenset[str]]:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset(), frozenset()
    return (
        frozenset(names.get_values_for_type(x509.DNSName)),
        frozenset(map(str, names.get_values_for_type(x509.IPAddress))),
    )


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        known = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        key = issuer.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organizations: tuple[str, ...]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _normal(address: str) -> str:
    return str(ip_address(address))


def _seconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _days(span: timedelta) -> str:
    hours = round(span.total_seconds() / 3600)
    return f"{hours // 24} days" if hours % 24 == 0 and hours else f"{hours} h"


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _public_pem(key: ec.EllipticCurvePublicKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()
