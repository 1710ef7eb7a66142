"""The one way to write the id of what was paid for: through conflicts, outages and shutdown."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from pydantic import JsonValue

from relay_kube.errors import KubeError, NotFound, Refused, Unavailable
from relay_kube.kube import JsonObject
from relay_operator.api.meta import ADOPT_ID, CREATE_INTENT
from relay_operator.engine.backoff import Backoff, Random
from relay_operator.engine.entry import uid_of
from relay_operator.engine.identity import is_recorded_for
from relay_operator.engine.intent import intent_of
from relay_operator.engine.manifests import part, rows
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.report import Told
from relay_operator.engine.status import merge_patch

_BACKOFF = Backoff(initial=0.1, limit=1.0)
_TRIES = 3
"""Consecutive tries; after them the queue retries, since other objects wait for the worker."""
_NEVER_TAKEN = frozenset({400, 413, 422})
_NOT_KEPT = "the API server took the status, and dropped the id {} from it: see what admission webhooks change"


class Recorded(Enum):
    """The outcome of writing an id."""

    WRITTEN = auto()
    GONE = auto()  # the object is gone, or another one has its name
    SOUGHT = auto()  # status was lost, so that its intent is open again: the search for that finds the new resource too
    SUPERSEDED = auto()  # another process decided on the object meanwhile: the new resource is not its own any more
    REFUSED = auto()  # the API server will never take it


@dataclass(frozen=True, slots=True)
class PaidFor:
    """A resource that only a status which is still to be written records."""

    cloud_id: str
    deletion_policy: str
    """The policy that ends the resource, and does nothing else."""
    in_use: bool = False
    """It has existed for long, and status had lost it: it is not ended because a write is refused."""

    def alone(self, raw: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> JsonObject:
        """The object as if it had only this resource, with the policy that ends it."""
        parts = after.get("parts")
        status: JsonObject = {name: value for name, value in after.items() if name != "former"}
        if isinstance(parts, list):
            status["parts"] = [each for each in parts if isinstance(each, dict) and self.cloud_id in each.values()]
        return {**raw, "spec": {**part(raw, "spec"), "deletionPolicy": self.deletion_policy}, "status": status}


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A resource that was paid for, and that status does not record yet."""

    writer: ObjectWriter
    patch: Mapping[str, JsonValue]
    """The merge patch from the status that was read to `after`."""
    after: Callable[[], Mapping[str, JsonValue]]
    """Returns the whole status, which is needed only if the first write fails."""
    paid: PaidFor
    instead: Callable[[KubeError], Told]
    """Returns what to report if the write is refused for good, and the resource is ended."""


def never_taken(error: KubeError) -> bool:
    """Whether the API server will refuse this status every time, so that the id cannot be recorded."""
    return isinstance(error, Refused) and error.status in _NEVER_TAKEN


async def write_id(unwritten: Unwritten, sleep: Callable[[float], Awaitable[None]], random: Random) -> Recorded:
    """Write the id; returns the outcome. Raises KubeError after a few failures, or once it is refused for good.

    The same if the API server answers an object without the id: what is not recorded would be created again. After
    a failure, which may be a conflict, it is written only if nobody decided on the object meanwhile.
    """
    writer, patch, failures = unwritten.writer, unwritten.patch, 0
    before = writer.latest()
    while True:
        try:
            if failures:
                raw = await writer.read()
                if raw is None:
                    return Recorded.GONE
                decided = after_conflict(records(before), records(raw), unwritten.paid.cloud_id)
                if decided is not None:
                    return decided
                after = unwritten.after()
                rest = merge_patch(part(raw, "status"), after)
                patch = {name: value for name, value in rest.items() if name in after or name in unwritten.patch}
            await writer.status(patch)
        except NotFound:
            return Recorded.GONE
        except KubeError as error:
            failures += 1
            if failures == _TRIES or never_taken(error):
                raise
        else:
            if unwritten.paid.cloud_id not in _ids(part(writer.latest(), "status")):
                raise Unavailable(0, "NotKept", _NOT_KEPT.format(unwritten.paid.cloud_id))
            return Recorded.WRITTEN
        await sleep(_BACKOFF.after(failures, random))


@dataclass(frozen=True, slots=True)
class Records:
    """What an object records about resources that are paid for."""

    intent: str
    """The intent's token, since one create can be written in other words; an unreadable intent stands for itself."""
    token: str
    ids: frozenset[str]
    aside: frozenset[str] = frozenset()
    """The ids of former resources, which another one replaces and which are still in use."""

    @property
    def every_id(self) -> frozenset[str]:
        return self.ids | self.aside


def after_conflict(known: Records, found: Records, cloud_id: str) -> Recorded | None:
    """The outcome of writing this id, given what others wrote meanwhile; None if it may still be written. Pure."""
    if cloud_id in found.every_id:
        return Recorded.WRITTEN
    # A lost status or annotation is not a decision: whoever decides leaves a token.
    if known.token and not found.token and known.token == found.intent:
        return Recorded.SOUGHT  # status may have recorded more than this process knew
    lost = not (found.token or found.ids)
    same = found.token in {known.token, ""} and found.ids == known.ids
    undecided = found.intent in {known.intent, ""} and (same or lost)
    return None if undecided else Recorded.SUPERSEDED


def records(raw: Mapping[str, JsonValue]) -> Records:
    """What an object given as JSON records."""
    status, annotations = part(raw, "status"), part(raw, "metadata", "annotations")
    if not is_recorded_for(status, uid_of(raw), str(annotations.get(ADOPT_ID) or "")):
        status = {}  # a copy's status is about another object
    intent = intent_of(raw)
    written = intent.token if intent is not None else str(annotations.get(CREATE_INTENT) or "")
    token, aside = str(status.get("createToken") or ""), frozenset(_texts(status, "former", "id"))
    return Records(written, token, _ids(status), aside)


def _ids(status: Mapping[str, JsonValue]) -> frozenset[str]:
    return frozenset((str(status.get("id") or ""), *_texts(status, "parts", "batchId"))) - {""}


def _texts(status: Mapping[str, JsonValue], listed: str, name: str) -> list[str]:
    """This field of each row; empty if a row lacks it."""
    return [str(row.get(name) or "") for row in rows(status.get(listed))]
