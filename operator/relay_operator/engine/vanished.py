"""Objects that were deleted while they had something in the cloud, which is ended all the same.

The API server decides on a DELETE from what it read: a finalizer that is written at the same moment does not hold the
object, and all that it recorded is gone with it. Such an object lives on here as one that is being deleted, and its
flow ends its resource as it does for any other. A ConfigMap in the operator's own namespace keeps the object for the
next process; deleting that ConfigMap makes the operator forget it.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from pydantic import JsonValue

from relay_kube.errors import Conflict, KubeError, NotFound, Refused
from relay_kube.kube import CONFIG_MAPS, JsonObject, Kube, ResourceType
from relay_kube.nesting import decoded
from relay_operator.api.cloudaccount_status import MAX_OWNERLESS, Ownerless
from relay_operator.api.meta import ANNOTATION_PREFIX, CREATE_INTENT, ObjectKey, ObjectMeta
from relay_operator.engine.cache import Cache
from relay_operator.engine.config_maps import ConfigMaps
from relay_operator.engine.departed import answered, answers, ending, merged, ownerless, unfinished
from relay_operator.engine.endpoints import Endpoints
from relay_operator.engine.entry import Entry, uid_of
from relay_operator.engine.intent import aside, has
from relay_operator.engine.leftover import Fate, Leftover, Reach
from relay_operator.engine.leftovers import Leftovers, LeftoversFullError
from relay_operator.engine.manifests import held, part
from relay_operator.engine.persist import records
from relay_operator.engine.queue import Priority, Queue

logger = logging.getLogger(__name__)

LABEL = f"{ANNOTATION_PREFIX}vanished"
_OBJECT = "object.json"
_PREFIX = "vanished-"
PERSIST_SECONDS = 0.5
"""Wait before what is not recorded yet is tried again, before this process ends."""
_MOST, _LARGEST = 100, 4 * 2**20
"""The most objects of a namespace, and bytes of all together: the namespace's own quota does not count them."""


def vanished(raw: Mapping[str, JsonValue]) -> bool:
    """Whether an object, as the API server last reported it, left something in the cloud without an owner.

    An object that was being deleted did not: somebody forced its finalizer off, or the operator removed it.
    """
    metadata = part(raw, "metadata")
    return held(metadata) and CREATE_INTENT in part(metadata, "annotations") and "deletionTimestamp" not in metadata


@dataclass(slots=True)
class Vanished:
    """All vanished objects, which are in the cache under keys of their own: a namesake does not share them."""

    kube: Kube
    namespace: str
    """The operator's own namespace."""
    cache: Cache
    queue: Queue[ObjectKey]
    wall_clock: Callable[[], datetime]
    kinds: frozenset[str]
    """The kinds that this release knows; the objects of others are left to the release that wrote them."""
    leftovers: Leftovers = field(init=False)
    """The records of resources that people keep on purpose, which the operator does not end."""
    _config_maps: ConfigMaps = field(init=False)
    _saved: set[ObjectKey] = field(default_factory=set)
    _refused: dict[ObjectKey, str] = field(default_factory=dict)
    """Why the API server refuses the ConfigMap of an object."""
    _known: set[ObjectKey] = field(default_factory=set)
    _shown: dict[ObjectKey, Ownerless] = field(default_factory=dict)
    """What accounts show of the objects, which are too large to parse in each of an account's passes."""
    _persisting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.leftovers = Leftovers(self.kube, self.namespace, self.kinds)
        self._config_maps = ConfigMaps(self.kube, self.namespace, LABEL, _OBJECT)

    async def hand_over(self, key: ObjectKey, raw: Mapping[str, JsonValue], surplus: str = "") -> None:
        """As `take_over`, and save the object at once if possible, since the caller may not lead any more."""
        own = self.take_over(key, raw, surplus)
        if own.vanished:
            with contextlib.suppress(KubeError):  # its first pass tries again
                await self.objects(own)

    def take_over(self, key: ObjectKey, raw: Mapping[str, JsonValue], surplus: str = "") -> ObjectKey:
        """Begin to end what the object has in the cloud; returns its new key, or `key` if that stays on purpose.

        `surplus` is the id of a resource that was created for an object which lives on with another one.
        """
        number = f"-{hashlib.sha256(surplus.encode()).hexdigest()[:8]}" if surplus else ""
        own = key._replace(vanished=uid_of(raw) + number)
        departed = ending(raw, self.body(own) if own in self._known else {}, self.wall_clock())
        if self._stays(key, departed):
            logger.info("%s: what it had in the cloud stays there on purpose", key)
            return key
        if own not in self._known and not self._has_room(key.namespace):
            logger.warning("%s is gone, and its namespace left too much: what it has becomes an orphan", key)
            self.orphan(key, departed)
            return key
        what = f"has another by now, and {surplus} was made for it" if surplus else "is gone, what it has is not"
        logger.warning("%s %s: that is taken to its end", key, what)
        self._saved.discard(own)
        self._put(own, departed)
        return own

    def note_let_go(self, key: ObjectKey, before: Entry | None, after: Entry, raw: Mapping[str, JsonValue]) -> None:
        """Process that the finalizer is removed from an object which others' finalizers may keep for long."""
        if before is None or before.uid != after.uid or before.let_go or not after.let_go:
            return
        if not (key.vanished or self.leftovers.is_let_go(after.uid)):  # else the operator removed it
            self.forced_away(key, raw)

    def forced_away(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> None:
        """Record as orphans what an object had in the cloud: somebody removed its finalizer."""
        if self.cache.get(key._replace(vanished=uid_of(raw))) is None:  # else it is being ended
            self.orphan(key, raw)

    def orphan(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> None:
        """Record as orphans what an object that is gone has in the cloud, as far as there is room for its namespace."""
        entry = self.cache.entry_of(raw)
        account, left, rows = self.cache.account_meant(key, entry), has(raw), aside(part(raw, "status"))
        running = {entry.cloud_id, *unfinished(part(raw, "status"))} - {""}
        rows += [(cloud_id, left.name) for cloud_id in sorted(running)] or [("", left.name)] * entry.searching
        if account is None:
            return
        for cloud_id, name in rows:
            record = Leftover(
                fate=Fate.ORPHAN,
                kind=key.kind,
                account=account,
                organization=left.organization,
                endpoint=left.endpoint or self.cache.endpoint_meant(key, entry),
                id=cloud_id,
                name=name,
                part_of=left.part_of,
                of=f"{key.namespace}/{key.name}",
                uid=entry.uid,
                since=self.wall_clock(),
            )
            try:
                self.leftovers.note(record)
            except LeftoversFullError as full:
                logger.warning("%s is gone, and %s is not recorded: %s", key, cloud_id or name, full)
                continue
            self.queue.add(account, Priority.CHANGE)

    def _has_room(self, namespace: str) -> bool:
        sizes = [len(self._entry(key).body) for key in self._known if key.namespace == namespace]
        return len(sizes) < _MOST and sum(sizes) < _LARGEST

    async def objects(self, key: ObjectKey) -> "DepartedObject":
        """The store that stands in for the API server, once the object is saved. Raises KubeError."""
        if key not in self._saved:
            await self.save(key, self.body(key))
        return DepartedObject(self, key)

    async def load(self) -> None:
        """Go on with objects that other processes left; forget those whose ConfigMap was deleted. Raises KubeError."""
        known_before, saved_before = set(self._saved), self.leftovers.saved()
        found, left = set[ObjectKey](), set[str]()
        async for page in self.kube.pages(CONFIG_MAPS, self.namespace):
            for config_map in page:
                known = None if self.leftovers.read(config_map, left) else self._read(config_map)
                if known is not None:
                    key, raw = known
                    found.add(key)
                    self._take_up(key, raw)
        self.leftovers.only(left, saved_before)
        for key in [key for key in found if self._stays(key, self.body(key))]:
            await self.let_go(key)
        for key in (known_before & self._saved) - found:
            logger.warning("the ConfigMap of %s is deleted: letting go of what it has in the cloud", key)
            self.drop(key)

    def _take_up(self, key: ObjectKey, raw: JsonObject) -> None:
        """Go on with an object as a ConfigMap has it; an id that only this process knows stays, and is saved again."""
        known = self.body(key) if key in self._known else {}
        here, there = records(known).every_id, records(raw).every_id
        if here <= there:
            self._saved.add(key)
            if not known or here < there or answers(raw) != answers(known):
                self._put(key, raw)
        elif answers(raw) != answers(known):
            self._saved.discard(key)
            self._put(key, {**raw, "status": dict(part(known, "status"))})

    def _stays(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> bool:
        """Whether another process keeps the resource, or a former one of the same object, on purpose."""
        left, account = has(raw), self.cache.account_meant(key, self.cache.entry_of(raw))
        reach = Reach(account or key, left.organization, Endpoints(left.endpoint, left.endpoint))
        named = [(left.id, left.name), *aside(part(raw, "status"))]
        return any(self.leftovers.kept(reach, cloud_id, name) for cloud_id, name in named)

    async def save(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> None:
        """Save the object. Raises KubeError, unless it is refused: then the object is known to this process only."""
        # Not escaped: text beyond ASCII would grow, and the object might not fit into a ConfigMap.
        text = json.dumps({"kind": key.kind, **raw}, ensure_ascii=False, separators=(",", ":"))
        try:
            await self._config_maps.put(_name(key), "true", text)
        except Refused as refused:
            logger.error("%s is not remembered beyond this process: %s", key, refused)  # noqa: TRY400
            self._refused[key] = self._config_maps.unwritten(_name(key), refused)
            self._tell_account(key)
            return
        self._refused.pop(key, None)
        self._saved.add(key)

    async def persist(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Save everything that is not saved yet, unless that is refused; called before this process ends."""
        async with self._persisting:  # the controllers of all kinds call this
            while await self._save_rest():
                await sleep(PERSIST_SECONDS)

    async def _save_rest(self) -> bool:
        """Try to save everything that is not saved yet; returns whether another try may help."""
        for key in sorted(self._unsaved()):
            with contextlib.suppress(KubeError):
                await self.objects(key)
        with contextlib.suppress(KubeError):
            await self.leftovers.save()
        return bool(self._unsaved()) or self.leftovers.waits()

    def _unsaved(self) -> set[ObjectKey]:
        return self._known - self._saved - self._refused.keys()

    async def let_go(self, key: ObjectKey) -> None:
        """Forget an object that has nothing left in the cloud. Raises KubeError."""
        if key in self._saved:
            await self._config_maps.delete(_name(key))
        self.drop(key)

    def of(self, account: ObjectKey) -> tuple[Ownerless, ...]:
        """The vanished objects of this account, as many as its status shows."""
        own = (self._shown[key] for key in sorted(self._known) if self.cache.account_of(key) == account)
        return tuple(islice(own, MAX_OWNERLESS))

    def show(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> None:
        """Note what its account shows of an object."""
        self._shown[key] = ownerless(key, raw)

    def trouble(self, account: ObjectKey) -> str:
        """Why a resource of this account without an object is not recorded; empty if all are."""
        own = (why for key, why in sorted(self._refused.items()) if self.cache.account_of(key) == account)
        return next(own, "") or self.leftovers.trouble(self.leftovers.of_account(account))

    def drop(self, key: ObjectKey) -> None:
        self._saved.discard(key)
        self._refused.pop(key, None)
        self._known.discard(key)
        self._shown.pop(key, None)
        self._tell_account(key)
        self.cache.drop(key)
        self.queue.add(key, Priority.REPAIR)  # the flow drops its memory of it

    def _read(self, config_map: Mapping[str, JsonValue]) -> tuple[ObjectKey, JsonObject] | None:
        """The object in a ConfigMap, with the answers that people gave on the ConfigMap; None if it keeps none."""
        metadata, text = part(config_map, "metadata"), self._config_maps.text(config_map)
        if text is None:
            return None
        raw = self._legible(text)
        if raw is None:
            logger.error("the ConfigMap %s cannot be read: what it stands for is left", metadata.get("name"))
            return None
        raw = answered(raw, metadata)
        kept = part(raw, "metadata")
        kind, name = str(raw.get("kind")), str(metadata.get("name"))
        vanished_uid = name.removeprefix(_PREFIX + kind.lower() + "-")
        return ObjectKey(kind, str(kept.get("namespace") or ""), str(kept.get("name")), vanished_uid), raw

    def _legible(self, text: str) -> JsonObject | None:
        """The object in a text, which anybody with rights in this namespace can write; None if it is none of ours."""
        try:
            raw = part(decoded(text.encode(), objects=1))
            ObjectMeta.model_validate(part(raw, "metadata"))
            self.cache.entry_of(raw)
        except (ValueError, TypeError, RecursionError):
            return None
        kind = raw.get("kind")
        return dict(raw) if isinstance(kind, str) and kind in self.kinds else None

    def _put(self, key: ObjectKey, raw: JsonObject) -> None:
        self.leftovers.retract(uid_of(raw))
        self.cache.put(key, _next_version(raw))
        self._known.add(key)
        self.show(key, raw)
        self._tell_account(key)
        self.queue.add(key, Priority.DELETE)

    def _tell_account(self, key: ObjectKey) -> None:
        if (account := self.cache.account_of(key)) is not None:
            self.queue.add(account, Priority.CHANGE)

    def body(self, key: ObjectKey) -> JsonObject:
        """The object as it was last known. Raises NotFound once it is forgotten."""
        body: JsonObject = json.loads(self._entry(key).body)
        return body

    def _entry(self, key: ObjectKey) -> Entry:
        entry = self.cache.get(key)
        if entry is None:
            raise NotFound(404, "NotFound", f"{key} was taken to its end")
        return entry


@dataclass(frozen=True, slots=True)
class DepartedObject:
    """The store that an `ObjectWriter` uses if the API server has no such object."""

    vanished: Vanished
    key: ObjectKey

    async def get(self, kind: ResourceType, namespace: str | None, name: str) -> JsonObject:
        """The object as it was last known. Raises NotFound once it is forgotten."""
        return self.vanished.body(self.key)

    async def patch(
        self,
        kind: ResourceType,
        namespace: str | None,
        name: str,
        body: Mapping[str, JsonValue],
        *,
        subresource: str | None = None,
    ) -> JsonObject:
        """Apply a merge patch; removing the finalizer ends the object. Raises KubeError, among them Conflict."""
        before = await self.get(kind, namespace, name)
        version, read = (part(each, "metadata").get("resourceVersion") for each in (before, body))
        if read not in {version, None}:
            raise Conflict(409, "Conflict", f"{self.key} was completed meanwhile")
        after = _next_version(merged(before, body))
        if held(part(after, "metadata")):
            self.vanished.show(self.key, after)
            await self.vanished.save(self.key, after)
        else:
            await self.vanished.let_go(self.key)
        return after

    async def delete(self, kind: ResourceType, namespace: str | None, name: str, *, uid: str, version: str) -> None:
        """Does nothing: the object is being deleted already."""


def _next_version(raw: Mapping[str, JsonValue]) -> JsonObject:
    """The object with a version that is newer than all before, since the API server no longer sets any."""
    return {**raw, "metadata": {**part(raw, "metadata"), "resourceVersion": str(time.monotonic_ns())}}


def _name(key: ObjectKey) -> str:
    return f"{_PREFIX}{key.kind.lower()}-{key.vanished}"
