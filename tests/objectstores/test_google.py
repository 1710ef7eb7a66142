"""What is sent to Google Cloud Storage: signed by the service account of the Secret, to the one endpoint."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from relay_operator.objectstores.credentials import Credentials, read_credentials
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from tests.objectstores.bucket import chunks, content, fails_for
from tests.objectstores.webserver import WebServer, web_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from relay_operator.objectstores.stores import ObjectStores

AT = Location.parse("gs://bucket/folder/in.jsonl")


@pytest_asyncio.fixture
async def google(tmp_path: Path) -> AsyncIterator[WebServer]:
    """Objects by path are Google's XML API, as far as single requests go."""
    async with web_server(tmp_path) as serving:
        yield serving


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture
def credentials(google: WebServer, key: rsa.RSAPrivateKey) -> Credentials:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {"client_email": "me@example.com", "private_key_id": "1", "private_key": pem}
    data = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_STORAGE_ENDPOINT": google.url}
    return read_credentials(AT, data | {"ca.crt": google.ca}, "google")


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


async def test_requests_are_signed_with_the_service_accounts_own_key(
    stores: ObjectStores, google: WebServer, credentials: Credentials, key: rsa.RSAPrivateKey
) -> None:
    await stores.write(AT, credentials, chunks(b"one\n", b"two\n"))
    assert await content(stores, AT, credentials) == b"one\ntwo\n"
    assert await stores.exists(AT, credentials)
    for _, path, headers in google.requests:
        assert path.startswith("/bucket/folder")
        signed, _, signature = headers["Authorization"].removeprefix("Bearer ").rpartition(".")
        key.public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        assert json.loads(_decoded(signed.partition(".")[2]))["iss"] == "me@example.com"


async def test_a_claim_is_created_on_the_condition_that_there_is_none(
    stores: ObjectStores, google: WebServer, credentials: Credentials
) -> None:
    assert await stores.claim(AT, credentials, "one")
    method, path, headers = google.requests[-2]
    assert (method, unquote(path)) == ("PUT", "/bucket/folder/in.jsonl.claim")
    assert headers["x-goog-if-generation-match"] == "0"


async def test_a_claim_holds_also_where_the_condition_is_ignored(
    stores: ObjectStores, google: WebServer, credentials: Credentials
) -> None:
    google.conditions = False
    assert await stores.claim(AT, credentials, "one")
    assert not await stores.claim(AT, credentials, "another")
    assert await stores.claim(AT, credentials, "one")


async def test_an_object_that_is_kept_compressed_says_so(
    stores: ObjectStores, google: WebServer, credentials: Credentials
) -> None:
    """Google decompresses an object with Content-Encoding: gzip while it sends it, and does not know its length."""
    google.objects["/bucket/folder/in.jsonl"] = b"one\n"
    google.lengths = False
    said = await fails_for(StoreReason.INVALID, content(stores, AT, credentials))
    assert "store it uncompressed" in said


async def test_a_key_that_is_none_cannot_be_used(stores: ObjectStores, google: WebServer) -> None:
    account = {"client_email": "me@example.com", "private_key_id": "1", "private_key": "CANARY"}
    broken = read_credentials(AT, {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account)}, "google")
    assert "CANARY" not in await fails_for(StoreReason.INVALID, content(stores, AT, broken))
    assert google.requests == []
