"""Which URLs name an object, and what is said of those that do not."""

import pytest

from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location, Scheme


@pytest.mark.parametrize(
    ("url", "scheme", "authority", "path"),
    [
        ("s3://bucket/key", Scheme.S3, "bucket", "key"),
        ("S3://bucket.with.dots/a/b c.jsonl", Scheme.S3, "bucket.with.dots", "a/b c.jsonl"),
        ("s3://bucket/percent%20sign", Scheme.S3, "bucket", "percent%20sign"),
        ("gs://bucket_of_google/日本", Scheme.GCS, "bucket_of_google", "日本"),
        ("az://container/path", Scheme.AZURE, "container", "path"),
        ("az://$web/path", Scheme.AZURE, "$web", "path"),
        ("https://Files.Example.com/a%20b", Scheme.HTTPS, "files.example.com", "/a%20b"),
        ("https://example.com:8443/a/b", Scheme.HTTPS, "example.com:8443", "/a/b"),
        ("https://[2001:4860::1]:8443/a", Scheme.HTTPS, "[2001:4860::1]:8443", "/a"),
        ("http://localhost:80/a", Scheme.HTTP, "localhost:80", "/a"),
        ("file:///data/in.jsonl", Scheme.FILE, "", "/data/in.jsonl"),
        ("file:///data/in%20put%25.jsonl", Scheme.FILE, "", "/data/in put%.jsonl"),
    ],
)
def test_a_url_names_an_object(url: str, scheme: Scheme, authority: str, path: str) -> None:
    location = Location.parse(url)
    assert (location.scheme, location.authority, location.path) == (scheme, authority, path)


def test_an_azure_url_may_name_the_account() -> None:
    location = Location.parse("az://container@account1/path")
    assert (location.authority, location.account, location.path) == ("container", "account1", "path")
    assert str(location) == "az://container@account1/path"


def test_the_query_of_a_web_address_is_for_requests_alone() -> None:
    location = Location.parse("https://example.com/in?sig=SECRET&x=%2F")
    assert location.url == "https://example.com/in?sig=SECRET&x=%2F"
    assert str(location) == "https://example.com/in"
    assert "SECRET" not in repr(location)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "key",
        "bucket/key",
        "ftp://host/file",
        "s3:/bucket/key",
        "s3://bucket",
        "s3://bucket/",
        "s3:///key",
        "s3://Bucket/key",
        "s3://b/key",
        "s3://bucket/folder/",
        "s3://bucket/a//b",
        "s3://bucket/../other",
        "s3://bucket/a/%2e%2e/b",
        "s3://bucket/./a",
        "s3://bucket/key?versionId=1",
        "s3://user:SECRET@bucket/key",
        "s3://bucket/line\nbreak",
        "az://Container/path",
        "az://container@UPPER/path",
        "https://example.com",
        "https://example.com/",
        "https:///path",
        "https://user:SECRET@example.com/in",
        "https://example.com/in#fragment",
        "https://example.com/a b",
        "https://example.com/a%2",
        "https://example.com/a\\b",
        "https://exämple.com/in",
        "https://example.com:99999/in",
        "https://example.com:/in",
        "https://example.com/a/../b",
        "https://example.com/a/%2E%2e/b",
        "https://example.com/in?SECRET=a b",
        "file://host/in",
        "file://relative",
        "file:///",
        "file:///data/../etc/passwd",
        "file:///data/%2e%2e/etc/passwd",
        "file:///data/%00",
        "file:///data/%ff",
        "file:///data/",
        f"s3://bucket/{'x' * 3000}",
    ],
)
def test_anything_else_is_invalid_and_the_sentence_shows_no_secret(url: str) -> None:
    with pytest.raises(StoreError) as raised:
        Location.parse(url)
    assert raised.value.reason is StoreReason.INVALID
    assert not raised.value.transient
    assert "SECRET" not in raised.value.message
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 400


@pytest.mark.parametrize("escaped", ["a/%2e%2e", "a%2f..%2fb"])
def test_an_escaped_slash_makes_no_way_out_of_a_folder(escaped: str) -> None:
    with pytest.raises(StoreError):
        Location.parse(f"file:///data/{escaped}")
