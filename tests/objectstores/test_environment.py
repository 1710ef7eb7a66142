"""The operator's own cloud identity opens nothing: environment, profiles and metadata services are left alone."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.stores import ObjectStores
from tests.objectstores.bucket import chunks, content, fails_for

if TYPE_CHECKING:
    from pathlib import Path

    from relay_operator.objectstores.addresses import Address
    from tests.objectstores.bucket import Bucket


@pytest.fixture
def identity(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An identity in every place where clouds' libraries look for one; it would open the bucket."""
    token = tmp_path / "token"
    token.write_text("token")
    google = tmp_path / "google.json"
    google.write_text('{"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}')
    own = {
        "AWS_ACCESS_KEY_ID": bucket.server.access_key,
        "AWS_SECRET_ACCESS_KEY": bucket.server.secret_key,
        "AWS_ENDPOINT_URL": bucket.server.url,
        "AWS_ENDPOINT_URL_S3": bucket.server.url,
        "AWS_SESSION_TOKEN": "own-session",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/own",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{bucket.server.url}/credentials",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_ALLOW_HTTP": "true",
        "AWS_PROXY_EXCLUDES": "127.0.0.1",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "*",
        "AZURE_STORAGE_ACCOUNT_NAME": "own",
        "AZURE_STORAGE_ACCOUNT_KEY": "b3du",
        "AZURE_STORAGE_TOKEN": "own-token",
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "GOOGLE_APPLICATION_CREDENTIALS": str(google),
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("identity")
async def test_the_secret_alone_opens_a_bucket(stores: ObjectStores, bucket: Bucket) -> None:
    location = bucket.location("object")
    await stores.write(location, bucket.credentials(), chunks(b"x"))
    assert await content(stores, location, bucket.credentials()) == b"x"
    wrong = bucket.credentials(AWS_ACCESS_KEY_ID="nobody", AWS_SECRET_ACCESS_KEY="wrong")
    await fails_for(StoreReason.FORBIDDEN, content(stores, location, wrong))


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("s3://public/object", "s3.us-east-1.amazonaws.com"),
        ("gs://public/object", "storage.googleapis.com"),
        ("az://public@theirs/object", "theirs.blob.core.windows.net"),
    ],
)
async def test_without_a_secret_nothing_is_signed_and_no_other_endpoint_asked(url: str, host: str) -> None:
    asked: list[str] = []

    async def nowhere(name: str, _port: int) -> list[Address]:
        asked.append(name)
        raise OSError

    async with ObjectStores(StorePolicy((), (ip_network("127.0.0.0/8"),)), resolve=nowhere) as stores:
        await fails_for(StoreReason.UNREACHABLE, stores.exists(Location.parse(url), None))
    assert set(asked) == {host}
