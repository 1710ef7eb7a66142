"""The writes of one pass to its object, each bound to what the pass has read: none is made from a stale picture."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson
from pydantic import JsonValue

from relay_kube.kube import JsonObject, NotFound, ResourceType
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.entry import uid_of, version_of


class Objects(Protocol):
    """Where the object is; every call raises KubeError."""

    async def get(self, kind: ResourceType, namespace: str | None, name: str) -> JsonObject:
        """Raises NotFound."""
        ...

    async def patch(
        self,
        kind: ResourceType,
        namespace: str | None,
        name: str,
        body: Mapping[str, JsonValue],
        *,
        subresource: str | None = None,
    ) -> JsonObject:
        """A merge patch. Raises NotFound, Conflict."""
        ...

    async def delete(self, kind: ResourceType, namespace: str | None, name: str, *, uid: str) -> None:
        """Absence is success."""
        ...


@dataclass(slots=True)
class ObjectWriter:
    """Writes to the object with this uid, as long as nobody else does. Every call raises KubeError."""

    objects: Objects
    type: ResourceType
    key: ObjectKey
    uid: str
    version: str
    """As it was read, or as the last write answered it."""
    on_answer: Callable[[JsonObject], None]
    """Told of the object as the API server answered it."""
    body: bytes
    """The object as the pass has read it."""
    last_answer: JsonObject | None = None
    """None as long as nothing was written or read again."""

    async def metadata(self, change: Mapping[str, JsonValue]) -> None:
        """A merge patch of metadata. Raises Conflict if somebody else wrote meanwhile."""
        self.answered(await self._metadata(change))

    async def last(self, change: Mapping[str, JsonValue]) -> None:
        """The same where the object goes with it: what is answered then is not there any more."""
        await self._metadata(change)

    async def _metadata(self, change: Mapping[str, JsonValue]) -> JsonObject:
        body: JsonObject = {"metadata": {"resourceVersion": self.version, **change}}
        return await self.objects.patch(self.type, self.key.namespace, self.key.name, body)

    async def status(self, patch: Mapping[str, JsonValue]) -> None:
        """A merge patch of status. Raises NotFound, and Conflict if somebody else wrote meanwhile."""
        # The uid alone would not do: the API server ignores it in a patch of a status.
        body: JsonObject = {"metadata": {"uid": self.uid, "resourceVersion": self.version}, "status": dict(patch)}
        raw = await self.objects.patch(self.type, self.key.namespace, self.key.name, body, subresource="status")
        self.answered(raw)

    async def read(self) -> JsonObject | None:
        """The object as it is; None if it is gone, or another took its name."""
        try:
            raw = await self.objects.get(self.type, self.key.namespace, self.key.name)
        except NotFound:
            return None
        if uid_of(raw) != self.uid:
            return None
        self.answered(raw)
        return raw

    async def delete(self) -> None:
        """Delete this very object."""
        await self.objects.delete(self.type, self.key.namespace, self.key.name, uid=self.uid)

    def latest(self) -> JsonObject:
        """The object as it was known last."""
        known: JsonObject = orjson.loads(self.body) if self.last_answer is None else self.last_answer
        return known

    def answered(self, raw: JsonObject) -> None:
        """What was read or answered is what later writes are bound to."""
        self.version = str(version_of(raw))
        self.last_answer = raw
        self.on_answer(raw)
