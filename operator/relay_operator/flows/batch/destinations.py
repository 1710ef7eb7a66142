"""Where the answers go: two objects of a store, or two keys of a ConfigMap."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pydantic import JsonValue

from relay_kube import errors as kube
from relay_kube.kube import CONFIG_MAPS, JsonObject, Kube
from relay_operator.api import meta
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch, OutputStatus
from relay_operator.api.inferencebatch_spec import OnExisting
from relay_operator.api.meta import CreateIntent
from relay_operator.engine.manifests import is_owned_by, owner, owners, part
from relay_operator.flows.batch.marks import LONGEST, is_later, mark_of, published_by
from relay_operator.flows.batch.result import Published, StoppedError, WorkRefused, WorkTroubled
from relay_operator.flows.batch.room import CONFIG_MAP_LIMIT, SHORTEST_RESULT
from relay_operator.flows.batch.sources import Sources, in_one_piece, located
from relay_operator.objectstores.credentials import Credentials
from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.records.merge import Merge

logger = logging.getLogger(__name__)

ANSWERS: Final = "output.jsonl"
ERRORS: Final = "errors.jsonl"
RESULT: Final = "result.json"
MADE_BY: Final = f"{meta.ANNOTATION_PREFIX}batch-token"
"""The annotation of an output ConfigMap with the token of the batch that wrote it."""
MARK: Final = f"{meta.ANNOTATION_PREFIX}batch-result"
"""The annotation of an output ConfigMap that says how its batch ended. In a store, this is an object of its own."""
_LONGEST_RELEASE_SECONDS: Final = 30.0
_TERMINATED: Final = "being terminated"
"""Part of the API server's message for a create in a namespace that is being deleted."""
_TOO_LONG: Final = "Too long"
"""Part of its message for a ConfigMap that holds too much, foreign keys included."""
_ENTITY_TOO_LARGE: Final = 413

_Place: TypeAlias = tuple[Location, Credentials | None]


@dataclass(frozen=True, slots=True)
class Destinations:
    """Checks outputs before anything is paid for, and writes them once the records are answered."""

    kube: Kube
    stores: ObjectStores
    sources: Sources
    leading: Callable[[], bool]
    """Whether this replica may still do things that others can see."""

    async def check(self, obj: InferenceBatch, token: str) -> None:
        """Raises StoppedError if the output is not writable, or would overwrite something that it must not."""
        if obj.spec.output.config_map_ref is not None:
            with suppress(kube.NotFound):
                await self._allowed(obj, obj.spec.output.config_map_ref.name, token)
            return
        replaces = obj.spec.output.on_existing is OnExisting.REPLACE
        for place in await self._objects(obj):
            try:
                await self.stores.check_writable(*place, replace=replaces)
            except StoreError as error:
                if error.reason is not StoreReason.ALREADY_EXISTS:
                    raise StoppedError(_unwritten(error)) from None
                if await self.published(obj, token) is None and not await self._began(obj, place, token):
                    raise StoppedError(_exists(str(place[0]))) from None

    async def _began(self, obj: InferenceBatch, place: _Place, token: str) -> bool:
        """Whether only this batch can have written there, since it paid under its claim. Raises StoppedError.

        Without anything recorded as paid, it may have finished and lost its status: to go on would pay again.
        """
        if not any(part.batch_id for part in obj.status.parts or ()):
            return False
        with _stopped_by_the_store():
            return await self.stores.is_claimed(*place, token)

    def check_size(self, obj: InferenceBatch, records: int) -> None:
        """Raises StoppedError if this number of answers surely does not fit."""
        if obj.spec.output.config_map_ref is not None and records * SHORTEST_RESULT > CONFIG_MAP_LIMIT:
            raise StoppedError(_too_large(f"the answers to {records} records"))

    async def occupied(self, obj: InferenceBatch) -> bool:
        """Whether an output exists, whoever wrote it. Raises StoppedError, KubeError."""
        if (ref := obj.spec.output.config_map_ref) is not None:
            try:
                return _has_output(await self.kube.get(CONFIG_MAPS, obj.metadata.namespace, ref.name))
            except kube.NotFound:
                return False
        with _stopped_by_the_store():
            return any([await self.stores.exists(*place) for place in (await self._objects(obj))[:2]])

    async def published(self, obj: InferenceBatch, token: str) -> Published | None:
        """What the batch of this token published before, according to its mark. Raises StoppedError, KubeError."""
        return published_by(token, await self._mark(obj))

    async def has_later(self, obj: InferenceBatch, intent: CreateIntent) -> bool:
        """Whether a batch that began later than this one has published there. Raises StoppedError, KubeError."""
        return is_later(await self._mark(obj), intent.token, intent.started_at)

    async def _mark(self, obj: InferenceBatch) -> str | bytes:
        """The text of the mark at the output; empty if there is none, or none that can be read."""
        if (ref := obj.spec.output.config_map_ref) is not None:
            try:
                raw = await self.kube.get(CONFIG_MAPS, obj.metadata.namespace, ref.name)
            except kube.NotFound:
                return ""
            return str(part(raw, "metadata", "annotations").get(MARK) or "")
        _, _, (location, credentials) = await self._objects(obj)
        text = b""
        try:
            async with self.stores.read(location, credentials) as pieces:
                async for piece in pieces:
                    text += piece
                    if len(text) > LONGEST:
                        return b""
        except StoreError as error:
            if error.transient:
                raise StoppedError(_unwritten(error)) from None
            return b""
        return text

    async def write(
        self, obj: InferenceBatch, merge: Merge, token: str, ended: Callable[[OutputStatus], Published]
    ) -> Published:
        """Publish answers and errors, then a mark of how the batch ended; replaces whatever exists.

        Raises StoppedError, KubeError, and what `merge` raises.
        """
        if obj.spec.output.config_map_ref is not None:
            return await self._write_config_map(obj, obj.spec.output.config_map_ref.name, merge, token, ended)
        answers, errors, mark = await self._objects(obj)
        with _stopped_by_the_store():
            first = await self.stores.write(*answers, self._while_leading(merge.outputs()))
            second = await self.stores.write(*errors, self._while_leading(merge.errors()))
        output = OutputStatus(
            answers=str(answers[0]),
            answers_version=first[:253] or None,
            errors=str(errors[0]),
            errors_version=second[:253] or None,
        )
        came = ended(output)
        try:
            text = mark_of(token, came).encode()
            await self.stores.write(*mark, self._while_leading(in_one_piece(text)))
        except StoreError as error:
            if error.transient:
                raise StoppedError(_unwritten(error)) from None
            logger.warning("%s: published without a mark of how it ended: %s", obj.key, error.message)
        return came

    async def _while_leading(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Abort the upload if this replica no longer leads after its last piece, which makes it visible to others."""
        async for piece in pieces:
            yield piece
        if not self.leading():
            raise kube.NotLeading

    async def _objects(self, obj: InferenceBatch) -> tuple[_Place, _Place, _Place]:
        """The places of answers, errors and mark."""
        output = obj.spec.output
        answers, errors, mark = map(located, addresses(output.url or ""))
        credentials = await self.sources.credentials(obj.metadata.namespace, answers, output.credentials_secret_ref)
        return (answers, credentials), (errors, credentials), (mark, credentials)

    async def claim(self, obj: InferenceBatch, token: str) -> None:
        """Claim the output before paying, so that only one of several batches with the same output goes on.

        The claim is deleted with the object unless something is published there. Raises StoppedError, KubeError.
        """
        ref = obj.spec.output.config_map_ref
        if obj.spec.output.on_existing is not OnExisting.FAIL:
            return
        if ref is not None:
            await self._claimed(obj, ref.name, token)
            return
        places = [place for place in (await self._objects(obj))[:2] if not await self._began(obj, place, token)]
        with _stopped_by_the_store():
            for place in places:
                if not await self.stores.claim(*place, token):
                    raise StoppedError(_claimed_by_another(str(place[0])))
            for place in places:  # another batch may have claimed and written it since the check
                if await self.stores.exists(*place) and await self.published(obj, token) is None:
                    await self.stores.release(*place, token)  # it would look as if this batch had written there
                    raise StoppedError(_exists(str(place[0])))

    async def release(self, obj: InferenceBatch, token: str) -> None:
        """Delete a claim without an output, so that the place is free for the next batch. Raises KubeError.

        If the right to do so is gone, as it may be with a namespace, Kubernetes deletes the claim after the object.
        """
        ref, namespace = obj.spec.output.config_map_ref, obj.metadata.namespace
        if ref is None:
            await self._release_objects(obj, token)
            return
        with suppress(kube.NotFound, kube.Refused):
            raw = await self.kube.get(CONFIG_MAPS, namespace, ref.name)
            if _maker(raw) == token and is_owned_by(raw, obj.metadata.uid):
                await self.kube.delete(CONFIG_MAPS, namespace, ref.name, uid=str(part(raw, "metadata").get("uid")))

    async def _release_objects(self, obj: InferenceBatch, token: str) -> None:
        """Release the claims as far as the store allows: a mark in a lost bucket must not keep the object."""
        if obj.spec.output.on_existing is not OnExisting.FAIL:
            return
        try:
            async with asyncio.timeout(_LONGEST_RELEASE_SECONDS):
                for place in (await self._objects(obj))[:2]:
                    await self.stores.release(*place, token)
        except (StoppedError, StoreError, TimeoutError) as error:
            logger.warning("%s: what claims its output stays beside it: %s", obj.key, error)

    async def _allowed(self, obj: InferenceBatch, name: str, token: str) -> JsonObject:
        """The existing ConfigMap, if it may be written. Raises StoppedError, KubeError."""
        raw = await self.kube.get(CONFIG_MAPS, obj.metadata.namespace, name)
        if raw.get("immutable"):
            text = f"ConfigMap {name} is immutable"
            raise StoppedError(WorkTroubled(Reason.OUTPUT_UNAVAILABLE, text, stalled=True))
        if obj.spec.output.on_existing is OnExisting.FAIL and _maker(raw) != token:
            raise StoppedError(_exists(f"ConfigMap {name}"))
        return raw

    async def _claimed(self, obj: InferenceBatch, name: str, token: str) -> JsonObject:
        """The ConfigMap to write, created if it does not exist. Raises StoppedError, KubeError.

        Creates first: only a create shows that the namespace is being deleted, with everything written there.
        """
        namespace = obj.metadata.namespace
        held = {**owner(obj.key, obj.metadata.uid), "controller": False}
        metadata: JsonObject = {"name": name, "annotations": {MADE_BY: token}, "ownerReferences": [held]}
        with _told_of(namespace, name):
            try:
                body: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
                return await self.kube.create(CONFIG_MAPS, namespace, body)
            except (kube.AlreadyExists, kube.Refused) as refused:
                if _TERMINATED not in str(refused):  # a quota may be used up although the ConfigMap exists
                    with suppress(kube.NotFound):
                        return await self._allowed(obj, name, token)
                raise

    async def _write_config_map(
        self, obj: InferenceBatch, name: str, merge: Merge, token: str, ended: Callable[[OutputStatus], Published]
    ) -> Published:
        try:
            answers = await _all_of(merge.outputs(), CONFIG_MAP_LIMIT)
            errors = await _all_of(merge.errors(), CONFIG_MAP_LIMIT - len(answers))
        except StoppedError:
            await self.release(obj, token)  # nothing will be written there
            raise
        data: JsonObject = {ANSWERS: answers.decode(errors="replace"), ERRORS: errors.decode(errors="replace")}
        output = OutputStatus(answers=f"ConfigMap {name}, key {ANSWERS}", errors=f"ConfigMap {name}, key {ERRORS}")
        came = ended(output)
        raw = await self._put_config_map(obj, name, data, {MADE_BY: token, MARK: mark_of(token, came)})
        version = str(part(raw, "metadata").get("resourceVersion") or "") or None
        versions = {"answers_version": version, "errors_version": version}
        return replace(came, output=came.output.model_copy(update=versions))

    async def _put_config_map(
        self, obj: InferenceBatch, name: str, data: JsonObject, annotations: JsonObject
    ) -> JsonObject:
        found = await self._claimed(obj, name, str(annotations[MADE_BY]))
        kept: list[JsonValue] = [dict(each) for each in owners(found) if each.get("uid") != obj.metadata.uid]
        metadata: JsonObject = {
            "annotations": annotations,
            "resourceVersion": part(found, "metadata").get("resourceVersion"),
            "ownerReferences": kept,
        }
        namespace = obj.metadata.namespace
        if not self.leading():
            raise kube.NotLeading
        with _told_of(namespace, name):
            return await self.kube.patch(CONFIG_MAPS, namespace, name, {"metadata": metadata, "data": data})


@contextmanager
def _stopped_by_the_store() -> Iterator[None]:
    """Raises StoppedError for a StoreError."""
    try:
        yield
    except StoreError as error:
        raise StoppedError(_unwritten(error)) from None


@contextmanager
def _told_of(namespace: str, name: str) -> Iterator[None]:
    """Raises StoppedError if the API server refuses the ConfigMap for good."""
    try:
        yield
    except kube.Refused as refused:
        if _TERMINATED in str(refused):
            text = f"the namespace {namespace} is being deleted, so ConfigMap {name} cannot be written"
            raise StoppedError(WorkRefused(Reason.OUTPUT_UNAVAILABLE, text)) from None
        if _TOO_LONG in str(refused) or refused.status == _ENTITY_TOO_LARGE:
            raise StoppedError(_too_large("the answers, with the other keys that are in it,")) from None
        text = f"ConfigMap {name} cannot be written: {refused}"
        raise StoppedError(WorkTroubled(Reason.OUTPUT_UNAVAILABLE, text, stalled=True)) from None


def addresses(url: str) -> tuple[str, str, str]:
    """The URLs of answers, errors and mark: in a folder, or next to each other if the URL names an object."""
    if url.endswith(".jsonl"):
        beside = url.removesuffix(".jsonl")
        return url, f"{beside}.errors.jsonl", f"{beside}.result.json"
    folder = url.rstrip("/")
    return f"{folder}/{ANSWERS}", f"{folder}/{ERRORS}", f"{folder}/{RESULT}"


async def _all_of(pieces: AsyncIterator[bytes], limit: int) -> bytes:
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > limit:
            raise StoppedError(_too_large("the answers"))
        held.append(piece)
    return b"".join(held)


def _has_output(raw: JsonObject) -> bool:
    return any(part(raw, field).keys() & {ANSWERS, ERRORS} for field in ("data", "binaryData"))


def _maker(raw: JsonObject) -> str:
    return str(part(raw, "metadata", "annotations").get(MADE_BY) or "")


def _exists(where: str) -> WorkRefused:
    text = f"{where} exists already and is not this batch's: name another place, or set output.onExisting: Replace"
    return WorkRefused(Reason.OUTPUT_EXISTS, text)


def _claimed_by_another(where: str) -> WorkRefused:
    text = (
        f"{where} is claimed by another batch: name another place; if that batch is gone, delete the object beside it "
        "whose name ends in .claim"
    )
    return WorkRefused(Reason.OUTPUT_EXISTS, text)


def _too_large(what: str) -> WorkRefused:
    text = f"{what} do not fit into a ConfigMap, which holds {CONFIG_MAP_LIMIT} bytes: use output.url"
    return WorkRefused(Reason.OUTPUT_TOO_LARGE, text)


def _unwritten(error: StoreError) -> WorkTroubled:
    return WorkTroubled(Reason.OUTPUT_UNAVAILABLE, error.message, stalled=not error.transient)
