"""Takes every observation of an object, from watch or list, to cache and queue. O(1) each."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from relay_kube.kube import Kube, ResourceType
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.backoff import Random
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry, comparable, needs_work, others_wrote, uid_of, version_of
from relay_operator.engine.manifests import held, part
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.vanished import Vanished, vanished

logger = logging.getLogger(__name__)

_ROLLED_BACK = "the API server's list of {} is older than what it showed before, as after a restore of etcd"
_SETTLED_PER_SECOND = 10.0
"""Settled objects per second that are polled after a start: urgent work must not wait behind them."""


class RolledBackError(Exception):
    """The API server went back to an earlier state: what is cached would hide what happens from now on."""


@dataclass(slots=True)
class Informer:
    """Receives what the watch and the repairing list report."""

    cache: Cache
    queue: Queue[ObjectKey]
    vanished: Vanished
    random: Random
    poll_settled: float
    _listed: dict[tuple[str, str], str] = field(default_factory=dict)
    """By kind and namespace: the resourceVersion of the last list. The namespace of a list of all is empty."""
    _as_of: dict[str, int] = field(default_factory=dict)
    """By kind: the greatest version of a list."""

    def seen(self, kind: str, raw: Mapping[str, JsonValue]) -> None:
        """Process an object as it is, or was a moment ago."""
        self._seen(key_of(kind, raw), raw)

    def _seen(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> None:
        before, after = self.cache.put(key, raw)
        if before is not None and before.uid != after.uid:
            self._ghost(key, before)
        self.vanished.note_let_go(key, before, after, raw)
        if not needs_work(before, after):
            return
        if before is None and after.settled:
            interval = min(self.poll_settled, len(self.cache) / _SETTLED_PER_SECOND)
            self.queue.add_after(key, interval * self.random(), Priority.POLL)
            return
        self.queue.add(key, _urgency(before, after))

    def recognizes(self, kind: str, raw: Mapping[str, JsonValue]) -> bool:
        """Whether `seen` need not be called: the object is stale, or the echo of the operator's own write.

        An echo may precede the answer to the write. During a pass over the object, it is therefore processed here.
        """
        key = key_of(kind, raw)
        if self.queue.is_working(key) and self._is_there(key, uid_of(raw)):
            self._seen(key, raw)
            return True
        return self.cache.knows(key, raw)

    def listed(self, kind: str, namespace: str) -> str:
        """The resourceVersion of a list that was processed, at most once each; empty if there is none.

        A watch can begin there, without a list of its own.
        """
        return self._listed.pop((kind, namespace), "")

    def gone(self, kind: str, raw: Mapping[str, JsonValue]) -> None:
        """Process the report that this very object is deleted."""
        key = key_of(kind, raw)
        if vanished(raw):
            self.vanished.take_over(key, raw)
        elif not self.vanished.leftovers.take_let_go(uid_of(raw)) and self._is_there(key, uid_of(raw)):
            self.vanished.forced_away(key, raw)
        self._drop(key, uid_of(raw), version_of(raw))

    def absent(self, kind: str) -> None:
        """Forget the objects of a kind whose CRD is gone, except those with our finalizer.

        A CRD is removed only after all its objects, and watches end with it, perhaps before the last event. An object
        with our finalizer went with force, and is back when its CRD is.
        """
        for key in self.cache.keys(kind):
            entry = self.cache.get(key)
            if entry is not None and not key.vanished and not held(part(json.loads(entry.body), "metadata")):
                self._drop(key, entry.uid)

    def _is_there(self, key: ObjectKey, uid: str) -> bool:
        """Whether the object is known; one that the operator released itself is forgotten already."""
        entry = self.cache.get(key)
        return entry is not None and entry.uid == uid

    def _ghost(self, key: ObjectKey, entry: Entry) -> None:
        """Process an object that was deleted without an event."""
        if not self.vanished.leftovers.take_let_go(entry.uid):
            self.vanished.forced_away(key, json.loads(entry.body))

    async def relist(self, kube: Kube, kind: str, resource: ResourceType, namespaces: tuple[str, ...]) -> None:
        """List all objects of a kind: drop those that were deleted without an event, and repair stale ones.

        Raises KubeError, and drops nothing, if the list could not be read to its end; the same with RolledBackError, if
        it is older than what was known before it was asked for. The process must then end and be restarted.
        """
        known = {key: self.cache.get(key) for key in self.cache.keys(kind) if not key.vanished}
        versions = {key: entry.version for key, entry in known.items() if entry is not None}
        newest = max(self._as_of.get(kind, 0), max(versions.values(), default=0))
        present, listed = set[ObjectKey](), dict[tuple[str, str], str]()
        for namespace in namespaces if resource.namespaced and namespaces else (None,):
            async for page, version in kube.pages_as_of(resource, namespace):
                listed[kind, namespace or ""] = version
                if as_of := comparable(version):
                    older = (version_of(raw) < versions.get(key_of(kind, raw), 0) for raw in page)
                    if as_of < newest or any(older):
                        raise RolledBackError(_ROLLED_BACK.format(resource.plural))
                for raw in page:
                    present.add(key_of(kind, raw))
                    self.seen(kind, raw)
        self._listed.update(listed)
        self._as_of[kind] = max([newest, *map(comparable, listed.values())])
        for key, entry in known.items():
            if key not in present and entry is not None and self.cache.get(key) is entry:
                logger.info("%s is gone, and no event told: dropping it", key)
                self._ghost(key, entry)
                self._drop(key, entry.uid)

    def _drop(self, key: ObjectKey, uid: str, version: int = 0) -> None:
        if self.cache.drop(key, uid, version) is not None:
            self.queue.add(key, Priority.REPAIR)  # the reconciler drops its memory of it


def keep_answer(vanished: Vanished, key: ObjectKey, raw: Mapping[str, JsonValue]) -> None:
    """Cache an object as the API server returned it after a write of ours.

    It may contain what others wrote just before. The event about that is older than this answer and is skipped, so that
    the object is queued here.
    """
    before, after = vanished.cache.put(key, raw)
    vanished.note_let_go(key, before, after, raw)
    if before is not None and others_wrote(before, after):
        vanished.queue.add(key, _urgency(before, after))


def _urgency(before: Entry | None, after: Entry) -> Priority:
    """Only the beginning of a deletion goes first: people can change an object that is being deleted without end."""
    was_deleting = before is not None and before.uid == after.uid and before.deleting
    return Priority.DELETE if after.deleting and not was_deleting else Priority.CHANGE


def key_of(kind: str, raw: Mapping[str, JsonValue]) -> ObjectKey:
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        raise TypeError(f"a {kind} without metadata")
    return ObjectKey(kind, str(metadata.get("namespace") or ""), str(metadata["name"]))
