"""The writes of one pass to its object, each bound to the version that was read, so that none rests on a stale one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import orjson
from pydantic import JsonValue

from relay_client.errors import clause
from relay_kube.errors import NotFound, Refused
from relay_kube.kube import JsonObject, ResourceType
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.entry import uid_of, version_of
from relay_operator.engine.manifests import part

_METADATA = "its finalizer or an annotation"


class Objects(Protocol):
    """The store of the object; every call raises KubeError."""

    async def get(self, kind: ResourceType, namespace: str | None, name: str) -> JsonObject:
        """The object as it is now. Raises NotFound."""

    async def patch(
        self,
        kind: ResourceType,
        namespace: str | None,
        name: str,
        body: Mapping[str, JsonValue],
        *,
        subresource: str | None = None,
    ) -> JsonObject:
        """Apply a merge patch; returns the object after it. Raises NotFound, Conflict."""

    async def delete(self, kind: ResourceType, namespace: str | None, name: str, *, uid: str, version: str) -> None:
        """Delete the object with this UID and version; absence is success. Raises Conflict."""


class WriteRefused(Refused):
    """The API server refuses a write to the object, or took it and dropped a part of it; the text has its words."""

    def __init__(self, status: int, words: str, where: str) -> None:
        super().__init__(status, words, "")
        self.where = where
        """The part of the object that cannot be written."""

    @property
    def told(self) -> str:
        """What to tell people, with what they can do."""
        check = "check admission policies, admission webhooks and the operator's rights; the operator tries again"
        return f"{self.where} cannot be written: {clause(str(self))}; {check}"


@contextmanager
def _writing(where: str) -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise WriteRefused(refused.status, str(refused), where) from refused


@dataclass(slots=True)
class ObjectWriter:
    """Writes to the object with this UID, unless others have written since it was read.

    Every call raises KubeError; what the API server refuses raises WriteRefused.
    """

    objects: Objects
    type: ResourceType
    key: ObjectKey
    uid: str
    version: str
    """The version that was read, or that the last write returned."""
    on_answer: Callable[[JsonObject], None]
    """Called with the object as the API server returned it."""
    on_dropped: Callable[[], None]
    """Called if the API server returned status without a field that was written: its CRD may be older by now."""
    body: bytes
    """The object as the pass read it."""
    last_answer: JsonObject | None = None
    """None until something is written or read again."""

    async def metadata(self, change: Mapping[str, JsonValue]) -> None:
        """Apply a merge patch to finalizers and annotations. Raises Conflict if others wrote meanwhile.

        Raises WriteRefused also if the answer lacks a part of it.
        """
        raw = await self._metadata(change)
        self.answered(raw)
        if not _is_in(change, part(raw, "metadata")):
            raise WriteRefused(0, "the API server took them and dropped a part", _METADATA)

    async def last(self, change: Mapping[str, JsonValue]) -> None:
        """Apply the patch that ends the object: what the API server returns then no longer exists, and is not kept."""
        await self._metadata(change)

    async def _metadata(self, change: Mapping[str, JsonValue]) -> JsonObject:
        body: JsonObject = {"metadata": {"resourceVersion": self.version, **change}}
        with _writing(_METADATA):
            return await self.objects.patch(self.type, self.key.namespace, self.key.name, body)

    async def status(self, patch: Mapping[str, JsonValue]) -> None:
        """Apply a merge patch to status. Raises NotFound, and Conflict if others wrote meanwhile."""
        # The uid alone would not do: the API server ignores it in a patch of status.
        body: JsonObject = {"metadata": {"uid": self.uid, "resourceVersion": self.version}, "status": dict(patch)}
        with _writing("status"):
            raw = await self.objects.patch(self.type, self.key.namespace, self.key.name, body, subresource="status")
        self.answered(raw)
        if not {name for name, value in patch.items() if value is not None} <= part(raw, "status").keys():
            self.on_dropped()

    async def read(self) -> JsonObject | None:
        """The object as it is now; None if it is gone, or if another one has its name."""
        try:
            raw = await self.objects.get(self.type, self.key.namespace, self.key.name)
        except NotFound:
            return None
        if uid_of(raw) != self.uid:
            return None
        self.answered(raw)
        return raw

    async def delete(self) -> None:
        """Delete this very object. Raises Conflict if others wrote meanwhile: they may want it to stay."""
        namespace, name = self.key.namespace, self.key.name
        await self.objects.delete(self.type, namespace, name, uid=self.uid, version=self.version)

    def latest(self) -> JsonObject:
        """The object as last read or returned."""
        known: JsonObject = orjson.loads(self.body) if self.last_answer is None else self.last_answer
        return known

    def answered(self, raw: JsonObject) -> None:
        """Bind later writes to an object that was read or returned."""
        self.version = str(version_of(raw))
        self.last_answer = raw
        self.on_answer(raw)


def _is_in(change: Mapping[str, JsonValue], metadata: Mapping[str, JsonValue]) -> bool:
    """Whether the metadata has all finalizers and annotations of a change; a null annotation is to be absent."""
    wanted, found = change.get("finalizers"), metadata.get("finalizers")
    kept = not wanted or (isinstance(wanted, list) and isinstance(found, list) and all(one in found for one in wanted))
    annotations = part(metadata, "annotations")
    return kept and all(annotations.get(name) == value for name, value in part(change, "annotations").items())
