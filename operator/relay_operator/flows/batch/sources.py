"""Opens a batch's input in any kind of place."""

import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import to_json

from relay_client import Cloud, NotFound
from relay_kube import errors as kube
from relay_kube.kube import CONFIG_MAPS, SECRETS, Kube, ResourceType
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import MAX_PARTS, InferenceBatch
from relay_operator.api.inferencebatch_spec import CredentialsRef, InlineRecord
from relay_operator.engine.manifests import WORDS, part, texts
from relay_operator.flows.batch.absence import must_have_access
from relay_operator.flows.batch.result import StoppedError, WorkRefused, WorkTroubled
from relay_operator.flows.batch.throughput import counted
from relay_operator.objectstores.credentials import Credentials, read_credentials
from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.stores import ObjectStores
from relay_wire.files import BATCH_UPLOAD_LIMIT

_INLINE_GROUP = 64
_MISSING = frozenset({StoreReason.NOT_FOUND, StoreReason.BUCKET_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads ConfigMaps and Secrets of the object's namespace by GET, and object stores with its credentials."""

    kube: Kube
    stores: ObjectStores
    most_bytes: int = MAX_PARTS * BATCH_UPLOAD_LIMIT
    """More bytes of an input are not read: it may have no end."""

    @asynccontextmanager
    async def open(self, obj: InferenceBatch, cloud: Cloud) -> AsyncIterator[AsyncIterable[bytes]]:
        """The input's bytes, which raise StoppedError, StoreError and CloudError. Raises StoppedError, KubeError."""
        async with self._opened(obj, cloud) as chunks:
            yield counted(self._bounded(chunks))

    async def _bounded(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self.most_bytes:
                text = f"the input has more than {self.most_bytes} bytes: divide it"
                raise StoppedError(WorkRefused(Reason.INPUT_INVALID, text))
            yield chunk

    @asynccontextmanager
    async def _opened(self, obj: InferenceBatch, cloud: Cloud) -> AsyncIterator[AsyncIterable[bytes]]:
        wanted, namespace = obj.spec.input, obj.metadata.namespace
        if wanted.inline is not None:
            yield _lines_of(wanted.inline)
        elif wanted.config_map_ref is not None:
            yield in_one_piece(
                await self._bytes(CONFIG_MAPS, namespace, wanted.config_map_ref.name, wanted.config_map_ref.key)
            )
        elif wanted.secret_ref is not None:
            yield in_one_piece(await self._bytes(SECRETS, namespace, wanted.secret_ref.name, wanted.secret_ref.key))
        elif wanted.file_id is not None:
            async with aclosing(_file(cloud, wanted.file_id)) as chunks:
                yield chunks
        else:
            location = located(wanted.url or "")
            credentials = await self.credentials(namespace, location, wanted.credentials_secret_ref)
            try:
                async with self.stores.read(location, credentials) as chunks:
                    yield chunks
            except StoreError as error:
                raise StoppedError(_unread(error)) from None

    async def credentials(self, namespace: str, location: Location, ref: CredentialsRef | None) -> Credentials | None:
        """The credentials for the location. Raises StoppedError, KubeError."""
        if ref is None:
            return None
        raw = await self._get(SECRETS, namespace, ref.name, Reason.CREDENTIALS_INVALID)
        try:
            return read_credentials(location, texts(raw.get("data"), encoded=True), ref.name)
        except StoreError as unfit:
            raise StoppedError(WorkTroubled(Reason.CREDENTIALS_INVALID, unfit.message, stalled=True)) from None

    async def text(self, namespace: str, name: str, key: str) -> str:
        """The secret text under one key. Raises StoppedError, KubeError."""
        content = await self._bytes(SECRETS, namespace, name, key, Reason.CREDENTIALS_INVALID)
        return content.decode(errors="replace").strip()

    async def _get(self, kind: ResourceType, namespace: str, name: str, missing: Reason) -> dict[str, JsonValue]:
        try:
            return await self.kube.get(kind, namespace, name)
        except kube.NotFound:
            text = f"{WORDS[kind.plural]} {name} does not exist in the namespace {namespace}"
            raise StoppedError(WorkTroubled(missing, text)) from None

    async def _bytes(
        self, kind: ResourceType, namespace: str, name: str, key: str, missing: Reason = Reason.INPUT_MISSING
    ) -> bytes:
        raw = await self._get(kind, namespace, name, missing)
        for field, encoded in (("binaryData", True), ("data", kind is SECRETS)):
            value = part(raw, field).get(key)
            if isinstance(value, str):
                try:
                    return base64.b64decode(value) if encoded else value.encode()
                except binascii.Error:
                    break
        text = f"{WORDS[kind.plural]} {name} in {namespace} has no key {key!r}"
        raise StoppedError(WorkTroubled(missing, text))


def located(url: str) -> Location:
    """The location of a URL. Raises StoppedError if it is malformed."""
    try:
        return Location.parse(url)
    except StoreError as invalid:
        raise StoppedError(WorkRefused(Reason.SPEC_INVALID, invalid.message)) from None


def _unread(error: StoreError) -> WorkTroubled:
    if error.reason is StoreReason.CHANGED:
        return WorkTroubled(Reason.INPUT_CHANGED, error.message)
    if error.reason in _MISSING:
        return WorkTroubled(Reason.INPUT_MISSING, error.message)
    return WorkTroubled(Reason.INPUT_UNAVAILABLE, error.message, stalled=not error.transient)


async def _file(cloud: Cloud, file_id: str) -> AsyncGenerator[bytes, None]:
    try:
        async with cloud.download(file_id) as chunks:
            async for chunk in chunks:
                yield chunk
    except NotFound as missing:
        await must_have_access(cloud)
        text = f"the cloud has no file {file_id}: {missing.message}"
        raise StoppedError(WorkRefused(Reason.INPUT_MISSING, text)) from None


async def in_one_piece(content: bytes) -> AsyncIterator[bytes]:
    """The content as a stream."""
    yield content


async def _lines_of(records: Sequence[InlineRecord]) -> AsyncIterator[bytes]:
    for start in range(0, len(records), _INLINE_GROUP):
        group = records[start : start + _INLINE_GROUP]
        yield b"".join(to_json({"custom_id": each.custom_id, "body": each.body}) + b"\n" for each in group)
