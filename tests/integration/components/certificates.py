"""A CA and certificates for servers and clients of a test."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A CA."""

    def __init__(self, name: str = "kubernetes") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        made = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), True
        )
        self.certificate = made.sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def pair(self, name: str, address: str = "") -> Pair:
        """For a client, or for a server at an address."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(name), key)
        if address:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            builder = builder.add_extension(names, critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        plain = serialization.NoEncryption()
        pem = serialization.Encoding.PEM
        return Pair(
            made.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain)
        )

    def server_context(self, directory: Path, address: str = "127.0.0.1") -> ssl.SSLContext:
        """Of a server that wants a client certificate of this CA."""
        pair = self.pair("kube-apiserver", address)
        (directory / "server.pem").write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.pem")
        context.load_verify_locations(cadata=self.pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - datetime.timedelta(hours=1))
            .not_valid_after(NOW + datetime.timedelta(days=1))
        )


def kubeconfig(port: int, trusted: Authority, pair: Pair) -> str:
    """As a control plane has it."""
    server = f"https://127.0.0.1:{port}"
    data = [base64.b64encode(part).decode() for part in (trusted.pem, pair.certificate, pair.key)]
    return f"""\
apiVersion: v1
kind: Config
current-context: kubernetes-admin@kubernetes
clusters:
- name: kubernetes
  cluster: {{server: "{server}", certificate-authority-data: {data[0]}}}
contexts:
- name: kubernetes-admin@kubernetes
  context: {{cluster: kubernetes, user: kubernetes-admin}}
users:
- name: kubernetes-admin
  user: {{client-certificate-data: {data[1]}, client-key-data: {data[2]}}}
"""


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
