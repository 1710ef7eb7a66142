"""Objects in buckets of S3, Google Cloud Storage and Azure. Only this module imports obstore."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, assert_never

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from relay_operator.objectstores.bucket_errors import already_there, not_let_out, understood, unusable
from relay_operator.objectstores.credentials import AzureCredentials, GcsCredentials, S3Credentials
from relay_operator.objectstores.egress import EgressRefused, Passage
from relay_operator.objectstores.errors import StoreReason, tolerated
from relay_operator.objectstores.location import Location, Scheme
from relay_operator.objectstores.store import LONGEST_PIECE, ObjectInfo, Opened
from relay_operator.objectstores.upload import Upload, begin_and_abort
from relay_operator.records.pieces import collected, cut, gathered

if TYPE_CHECKING:  # these exist only in obstore's stubs
    from obstore import GetOptions, GetResult, ObjectMeta, PutResult
    from obstore.store import AzureAccessKey, AzureSASToken, ClientConfig, GCSConfig, RetryConfig, S3Credential

BucketCredentials: TypeAlias = S3Credentials | GcsCredentials | AzureCredentials
Client: TypeAlias = S3Store | GCSStore | AzureStore

_PART = 8 * 1_048_576  # bytes; services take up to 10,000 parts, and S3 takes none below 5 MiB
_READ_AHEAD = 262_144  # bytes
_NO_SUCH_VERSION = '"0x0"'  # an ETag in Azure's form that no blob ever has
_PANIC = "RustPanic"
"""The name of the exception, exported nowhere, for what obstore's own code does not expect, such as a host or an
account that no request can be made with: a virtual-hosted bucket at an IP address."""
_RETRIES: RetryConfig = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2},
}


class BucketStore:
    """One key of one bucket, reached through the egress guard. See `Store` for the methods."""

    def __init__(self, location: Location, credentials: BucketCredentials, passage: Passage) -> None:
        self._location = location
        self._key = location.path
        self._passage = passage
        try:
            self._client = _client(location, credentials, passage)
        except (BaseError, OSError, ValueError):
            raise unusable(location) from None

    async def find(self) -> ObjectInfo | None:
        with tolerated(StoreReason.NOT_FOUND), self._errors():
            return _info(await self._passage.first_of(obstore.head_async(self._client, self._key)))
        # The answer to a HEAD lacks the body that distinguishes a missing bucket from a missing object.
        with tolerated(StoreReason.NOT_FOUND):
            return (await self.open(0, "")).info
        return None

    async def open(self, start: int, version: str) -> Opened:
        options: GetOptions = {"range": {"offset": start}} if start else {}
        if version:
            options["if_match"] = version
        with self._errors():
            result = await self._passage.first_of(obstore.get_async(self._client, self._key, options=options))
        return Opened(_info(result.meta), self._pieces(result), _let_go)

    async def write(self, chunks: AsyncIterable[bytes]) -> str:
        """Write content that fits into one part with one request."""
        source = gathered(chunks, LONGEST_PIECE)
        first = await collected(source, _PART)
        whole = len(first) < _PART
        put = await (self._put(first) if whole else Upload(self._put_parts).run(first, source))
        return put["e_tag"] or ""

    async def create(self, content: bytes) -> bool:
        with tolerated(StoreReason.ALREADY_EXISTS), self._errors():
            await self._passage.first_of(obstore.put_async(self._client, self._key, content, mode="create"))
            return True
        return False

    async def delete(self) -> None:
        with tolerated(StoreReason.NOT_FOUND), self._errors():
            await self._passage.first_of(obstore.delete_async(self._client, self._key))

    async def check_writable(self) -> None:
        """S3 and GCS: begin and abort an upload. Azure: send a blob under a condition that never holds."""
        if self._location.scheme is not Scheme.AZURE:
            await begin_and_abort(self._put_parts)
            return
        with tolerated(StoreReason.CHANGED), self._errors():
            put = obstore.put_async(self._client, self._key, b"", mode={"e_tag": _NO_SUCH_VERSION})
            await self._passage.first_of(put)

    async def _put(self, body: bytes) -> PutResult:
        with self._errors():
            return await self._passage.first_of(obstore.put_async(self._client, self._key, body, use_multipart=False))

    async def _put_parts(self, parts: AsyncIterator[bytes]) -> PutResult:
        with self._errors():
            put = obstore.put_async(
                self._client,
                self._key,
                parts,
                use_multipart=True,
                chunk_size=_PART,
                max_concurrency=1,  # see `Upload`: no part is in flight when the upload is aborted
            )
            return await self._passage.first_of(put)

    async def _pieces(self, result: GetResult) -> AsyncGenerator[bytes, None]:
        """The content. If the connection breaks off, obstore asks for the rest, and keeps the body of a refusal."""
        stream = result.stream(min_chunk_size=_READ_AHEAD)
        while True:
            with self._errors():
                chunk = await self._passage.first_of(anext(stream, None))
            if chunk is None:
                return
            for piece in cut(memoryview(chunk), LONGEST_PIECE):
                yield piece

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of obstore and the guard into `StoreError`."""
        try:
            yield
        except EgressRefused as refused:
            raise not_let_out(self._location, refused) from None
        except AlreadyExistsError:
            raise already_there(self._location) from None
        except (BaseError, OSError, ValueError) as error:
            raise understood(self._location, str(error), self._passage.failure) from None
        except Exception as error:
            if type(error).__name__ != _PANIC:
                raise
            raise unusable(self._location) from None


def _let_go() -> None:
    """Does nothing: an answer's connection ends with the last reference to it."""


def _info(meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(meta["size"], meta["e_tag"] or "")


def _client(location: Location, credentials: BucketCredentials, passage: Passage) -> Client:
    """A client of obstore whose options are all explicit, so that the environment sets none."""
    options = _options(passage, credentials)
    match credentials:
        case S3Credentials():
            return _s3(location, credentials, options)
        case GcsCredentials():
            return _gcs(location, credentials, options)
        case AzureCredentials():
            return _azure(location, credentials, options)
        case _ as never:
            assert_never(never)


def _options(passage: Passage, credentials: BucketCredentials) -> ClientConfig:
    options: ClientConfig = {
        "proxy_url": passage.url,
        "proxy_excludes": "",
        "allow_http": credentials.endpoint.startswith("http://"),
        "allow_invalid_certificates": False,
        "connect_timeout": timedelta(seconds=15),
        "read_timeout": timedelta(seconds=60),
        "timeout": timedelta(hours=6),  # for a whole download; the timeout above ends one that stalls
        "user_agent": "relay-operator",
    }
    if credentials.ca:
        options["root_certificate"] = credentials.ca
    return options


def _s3(location: Location, credentials: S3Credentials, options: ClientConfig) -> S3Store:
    def provide() -> S3Credential:
        return {
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
            "token": credentials.session_token or None,
            "expires_at": None,
        }

    endpoint = credentials.endpoint_for(location.authority)
    return S3Store(
        location.authority,
        config={
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
            "region": credentials.region,
            "virtual_hosted_style_request": not credentials.path_style,
            "skip_signature": not credentials.access_key_id,
            "s3_express": False,
        },
        client_options=options,
        retry_config=_RETRIES,
        credential_provider=provide,
    )


def _gcs(location: Location, credentials: GcsCredentials, options: ClientConfig) -> GCSStore:
    key = {
        "type": "service_account",
        "client_email": credentials.client_email,
        "private_key_id": credentials.private_key_id,
        "private_key": credentials.private_key,
    }
    config: GCSConfig = {"base_url": credentials.endpoint or "https://storage.googleapis.com"}
    if credentials.client_email:
        config["service_account_key"] = json.dumps(key)
    config["skip_signature"] = not credentials.client_email
    return GCSStore(location.authority, config=config, client_options=options, retry_config=_RETRIES)


def _azure(location: Location, credentials: AzureCredentials, options: ClientConfig) -> AzureStore:
    def provide() -> AzureAccessKey | AzureSASToken:
        if credentials.sas:
            return {"sas_token": credentials.sas, "expires_at": None}
        return {"access_key": credentials.key, "expires_at": None}

    return AzureStore(
        location.authority,
        config={
            "account_name": credentials.account,
            "endpoint": credentials.endpoint or f"https://{credentials.account}.blob.core.windows.net",
            "skip_signature": not (credentials.key or credentials.sas),
            "use_emulator": False,
            "use_fabric_endpoint": False,
        },
        client_options=options,
        retry_config=_RETRIES,
        credential_provider=provide,
    )
