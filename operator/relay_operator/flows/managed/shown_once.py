"""Values that the cloud shows once, in the answer to a create: a Secret that the object owns keeps them."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import JsonValue

from relay_kube.errors import NotFound, Refused
from relay_kube.kube import SECRETS, JsonObject, Kube
from relay_operator.api.meta import ANNOTATION_PREFIX, ObjectKey
from relay_operator.engine.manifests import as_secret, is_owned_by, owner, part, unquoted
from relay_operator.flows.managed.view import Value

VALUE_OF = f"{ANNOTATION_PREFIX}value-of"
"""Annotation of such a Secret: the cloud id of the resource whose value it has."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is kept."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that the cloud showed, and the id of its resource."""

    cloud_id: str = ""
    value: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Life:
    """How long a value is valid; None means for ever, or without a replacement."""

    ends: datetime | None = None
    overlap: timedelta | None = None
    """How long before its end it is replaced; the former resource then lives on for at most as long."""
    least: timedelta = timedelta()
    """For this long after its creation it is not replaced, whatever the cloud's clock says."""
    overlap_field: str = "rotateBeforeSeconds"
    """The spec's field for `overlap`."""

    def until(self, now: datetime) -> datetime:
        """Until when it works if it is replaced now."""
        until = now + (self.overlap or timedelta())
        return until if self.ends is None else min(until, self.ends)

    @property
    def moments(self) -> tuple[datetime, ...]:
        """Times at which something has to be done or reported."""
        if self.ends is None:
            return ()
        return (self.ends,) if self.overlap is None else (self.ends - self.overlap, self.ends)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of the Secret."""

    value_of: str = ""
    """The cloud id of the resource whose value it has; empty if it has none."""
    taken: str = ""
    """Why the Secret cannot be written; empty if it can."""
    version: str = ""
    """The Secret's resource version; empty if it did not exist."""


NOT_KEPT = Kept()


def value_of(kept: Kept, cloud_id: str, life: Life, made: datetime | None, now: datetime) -> Value:
    """The state of this resource's value; `made` is when the resource was created. Pure."""
    if kept.taken:
        return Value.TAKEN
    if kept.value_of != cloud_id:
        return Value.LOST
    if life.ends is None:
        return Value.KEPT
    if life.overlap is not None and now >= life.ends - life.overlap and (made is None or now - made >= life.least):
        return Value.DUE
    return Value.EXPIRED if now >= life.ends and life.overlap is None else Value.KEPT


@dataclass(frozen=True, slots=True)
class ValueKeeper:
    """Keeps such values in Secrets."""

    kube: Kube

    async def look(self, key: ObjectKey, uid: str, place: Place) -> Kept:
        """Read the Secret; if it does not exist, ask the API server whether it would take it. Raises KubeError."""
        try:
            found = await self.kube.get(SECRETS, key.namespace, place.secret)
        except NotFound:
            return Kept(taken=await self._refusal(key, uid, place))
        if not is_owned_by(found, uid):
            return Kept(taken=_taken(place))
        if found.get("immutable") is True:
            return Kept(taken=f"the Secret {place.secret} is immutable: delete it, and it is written again")
        metadata, has = part(found, "metadata"), bool(part(found, "data").get(place.key))
        value_of, version = part(metadata, "annotations").get(VALUE_OF), metadata.get("resourceVersion")
        return Kept(str(value_of or "") if has else "", version=str(version or ""))

    async def keep(self, key: ObjectKey, uid: str, place: Place, shown: Shown, seen: Kept) -> None:
        """Write the value. Raises KubeError, without the value in its message.

        Refused if the Secret is no longer as it was `seen` before the create: another leader may have written the
        value of a later resource meanwhile.
        """
        body = _secret(key, uid, place, shown)
        with unquoted(place.secret):
            if not seen.version:
                await self.kube.create(SECRETS, key.namespace, body)
                return
            bound: JsonObject = {**body, "metadata": {**part(body, "metadata"), "resourceVersion": seen.version}}
            await self.kube.patch(SECRETS, key.namespace, place.secret, bound)

    async def _refusal(self, key: ObjectKey, uid: str, place: Place) -> str:
        try:
            await self.kube.try_create(SECRETS, key.namespace, _secret(key, uid, place, Shown()))
        except Refused as refused:
            return f"the Secret {place.secret} cannot be written: {refused}"
        return ""


def _secret(key: ObjectKey, uid: str, place: Place, shown: Shown) -> JsonObject:
    data: JsonValue = as_secret({place.key: shown.value})
    metadata: JsonObject = {
        "name": place.secret,
        "annotations": {VALUE_OF: shown.cloud_id},
        "ownerReferences": [owner(key, uid)],
    }
    return {"metadata": metadata, "data": data}


def _taken(place: Place) -> str:
    others = f"the Secret {place.secret} exists and is not this object's"
    return f"{others}: delete it, or apply this object again with another secretName"
