"""Throw-away certificates and keys for a control plane on this machine; they last 30 days."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LIFE = dt.timedelta(days=30)


def write_serving_certificate(folder: Path) -> None:
    """Writes ca.crt, apiserver.crt and apiserver.key, valid for 127.0.0.1 and localhost."""
    authority = Authority.create("relay-test-ca")
    authority.write(folder)
    authority.serve(folder / "apiserver", ["localhost"], ["127.0.0.1"])


@dataclass(frozen=True)
class Authority:
    """A certificate authority that signs servers' and clients' certificates."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str) -> Authority:
        return cls(_named(name), ec.generate_private_key(ec.SECP256R1()))

    def write(self, folder: Path) -> None:
        """Writes ca.crt."""
        builder = (
            _certificate(self.name, self.name, self.key.public_key(), self.key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
        )
        (folder / "ca.crt").write_bytes(_signed(builder, self.key))

    def serve(self, path: Path, names: Sequence[str], addresses: Sequence[str]) -> None:
        """Writes PATH.crt and PATH.key of a server with these DNS names and IP addresses."""
        reached = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        called = x509.SubjectAlternativeName([*map(x509.DNSName, names), *reached])
        self._write(path, _named("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, called)

    def identify(self, path: Path, user: str, group: str) -> None:
        """Writes PATH.crt and PATH.key of a client; Kubernetes reads the user from CN and the group from O."""
        attributes = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
        self._write(path, x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _write(
        self, path: Path, subject: x509.Name, usage: x509.ObjectIdentifier, called: x509.SubjectAlternativeName | None
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _certificate(subject, self.name, key.public_key(), self.key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if called is not None:
            builder = builder.add_extension(called, critical=False)
        path.with_suffix(".crt").write_bytes(_signed(builder, self.key))
        _write_key(path.with_suffix(".key"), key)


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def write_signing_key(folder: Path) -> None:
    """Writes sa.key and sa.pub, which sign and verify ServiceAccount tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / "sa.key", key)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "sa.pub").write_bytes(public)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, issuer_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    start = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
