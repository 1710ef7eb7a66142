"""A self-signed certificate for `--tls`: for localhost, this machine's loopback, and the cloud's other names."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from relay_localcloud.kernel.disk import StateError

_LIFE = timedelta(days=3650)
_RENEWED = timedelta(days=30)
"""The rest of its life at which a certificate is replaced by another."""
_ISSUER = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "relay-localcloud")])


def server_context(directory: Path, *hosts: str) -> ssl.SSLContext:
    """TLS with the certificate in `directory` (`tls.crt`, `tls.key`); StateError if somebody's own cannot be used.

    It is created if it is missing or cannot be used, if it lacks a name, and before it expires.
    """
    certificate, key = directory / "tls.crt", directory / "tls.key"
    now = datetime.now(UTC)
    if not _is_good(certificate, key, _names(hosts), now):
        write(certificate, key, hosts, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # also ssl.SSLError
        raise StateError(f"The certificate {certificate} and {key.name} cannot be used: {error}.") from error
    return context


def _is_good(certificate: Path, key: Path, names: Sequence[x509.GeneralName], now: datetime) -> bool:
    """Whether this is a usable certificate for these names that does not expire soon, or somebody's own."""
    try:
        kept = x509.load_pem_x509_certificate(certificate.read_bytes())
        if kept.issuer != _ISSUER:
            return True
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        for_names = kept.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    return now < kept.not_valid_after_utc - _RENEWED and set(names) <= set(for_names)


def write(certificate: Path, key: Path, hosts: Sequence[str], now: datetime) -> None:
    """Write a certificate that is valid from now on, and its key; the next start replaces a torn pair."""
    private = ec.generate_private_key(ec.SECP256R1())
    built = (
        x509.CertificateBuilder()
        .subject_name(_ISSUER)
        .issuer_name(_ISSUER)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for path, content in ((key, secret), (certificate, built.public_bytes(serialization.Encoding.PEM))):
        begun = path.with_name(f"{path.name}.part")
        begun.unlink(missing_ok=True)
        begun.touch(mode=0o600)
        begun.write_bytes(content)
        begun.rename(path)


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_general(name) for name in dict.fromkeys(("localhost", "*.localhost", "127.0.0.1", "::1", *hosts))]


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
