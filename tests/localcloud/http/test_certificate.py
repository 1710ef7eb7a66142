"""The certificate of `--tls` is kept for as long as it can be used, and replaced by another then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from relay_localcloud.http import certificate
from relay_localcloud.http.certificate import server_context
from relay_localcloud.kernel.disk import StateError

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(UTC)
HOST = "cloud.example.com"


def names(folder: Path) -> list[str]:
    """The DNS names of the certificate."""
    kept = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
    return kept.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)


def replaced(folder: Path, *hosts: str) -> bool:
    """Whether the next start has another certificate; its key is private."""
    former = (folder / "tls.crt").read_bytes()
    server_context(folder, *hosts)
    assert sorted(path.name for path in folder.iterdir()) == ["tls.crt", "tls.key"]
    assert (folder / "tls.key").stat().st_mode & 0o777 == 0o600
    return (folder / "tls.crt").read_bytes() != former


def test_a_certificate_is_kept_as_long_as_it_has_every_name(tmp_path: Path) -> None:
    server_context(tmp_path, HOST, "10.0.0.1")
    assert not replaced(tmp_path, HOST, "10.0.0.1")
    assert not replaced(tmp_path, HOST)
    assert replaced(tmp_path, HOST, "*.apps.example.com")
    assert {HOST, "*.apps.example.com", "localhost"} <= set(names(tmp_path))
    assert replaced(tmp_path, "10.0.0.2")


def test_a_certificate_without_names_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as former:
        former.setattr(x509.CertificateBuilder, "add_extension", lambda builder, *_, **__: builder)
        certificate.write(tmp_path / "tls.crt", tmp_path / "tls.key", [HOST], NOW)
    assert replaced(tmp_path, HOST)


def test_what_a_killed_start_left_makes_no_key_public(tmp_path: Path) -> None:
    (tmp_path / "tls.key.part").touch(mode=0o644)
    server_context(tmp_path, HOST)
    assert not replaced(tmp_path, HOST)


@pytest.mark.parametrize(("days", "renewed"), [(3600, False), (3630, True), (3660, True)])
def test_a_certificate_is_replaced_before_it_expires(tmp_path: Path, days: int, renewed: bool) -> None:
    paths = (tmp_path / "tls.crt", tmp_path / "tls.key")
    certificate.write(*paths, [HOST], NOW - timedelta(days=days, hours=1))
    assert replaced(tmp_path, HOST) == renewed
    assert not replaced(tmp_path, HOST)


@pytest.mark.parametrize("file", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [None, b"", b"half", "another's"])
def test_a_certificate_that_cannot_be_used_is_replaced(tmp_path: Path, file: str, content: bytes | str | None) -> None:
    server_context(tmp_path, HOST)
    match content:
        case None:
            (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:100])
        case b"" | b"half":
            (tmp_path / file).write_bytes(content)
        case _:
            (tmp_path / "other").mkdir()
            server_context(tmp_path / "other", HOST)
            (tmp_path / "other" / file).rename(tmp_path / file)
            for path in (tmp_path / "other").iterdir():
                path.unlink()
            (tmp_path / "other").rmdir()
    assert replaced(tmp_path, HOST)


def test_somebodys_own_certificate_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an authority of theirs")])
    with monkeypatch.context() as theirs:
        theirs.setattr(certificate, "_ISSUER", own)
        certificate.write(tmp_path / "tls.crt", tmp_path / "tls.key", [], NOW - timedelta(days=5000))
    assert not replaced(tmp_path, HOST)
    (tmp_path / "tls.key").write_bytes(b"")
    with pytest.raises(StateError, match="cannot be used"):
        server_context(tmp_path, HOST)
