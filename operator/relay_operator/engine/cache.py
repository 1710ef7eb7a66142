"""What the watch last said of every object, trimmed and compact."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from relay_operator.api.meta import (
    ANNOTATION_PREFIX,
    API_KEY_SECRET,
    CREATE_INTENT,
    FINALIZER,
    CreateIntent,
    ObjectKey,
)
from relay_operator.engine.ownership import Owned, owned

_OURS = frozenset({CREATE_INTENT, API_KEY_SECRET})
_DROPPED_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One object: its JSON, and what is asked of it without parsing."""

    body: bytes
    uid: str
    version: int
    generation: int
    deleting: bool
    protected: bool
    """Both our finalizer and our intent annotation are there."""
    asked: tuple[tuple[str, str], ...]
    """The annotations that people set and the operator heeds."""
    cloud_id: str
    token: str
    """Of the create that status tells the end of."""
    searching: bool
    """An intent is there, and no status closes it."""
    settled: bool
    """Ready, status is about this very spec, and nothing comes due by the clock."""
    reason: str
    """Of the Ready condition."""
    account: tuple[str, str]
    """Kind and name of the account that was, or would be, used; empty strings for the namespace's default."""
    over: bool
    """Finished, and nothing of it is left to be done in the cloud: a batch."""
    owned: Owned | None
    """Which object controls it, and what that one asks of it."""


def _ignore(owner: ObjectKey) -> None:
    """The default: nobody asks for owners."""


@dataclass(slots=True)
class Cache:
    """All known objects, with an index by cloud id and one by owner. O(1) per event."""

    on_owned: Callable[[ObjectKey], None] = _ignore
    """Told the owner of an object that came, went, began to be deleted or finished."""
    _entries: dict[ObjectKey, Entry] = field(default_factory=dict)
    _by_cloud_id: dict[str, set[ObjectKey]] = field(default_factory=dict)
    _by_owner: dict[str, set[ObjectKey]] = field(default_factory=dict)
    _searching: set[ObjectKey] = field(default_factory=set)
    _claims: dict[ObjectKey, str] = field(default_factory=dict)

    def get(self, key: ObjectKey) -> Entry | None:
        return self._entries.get(key)

    def put(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> tuple[Entry | None, Entry]:
        """Keep the newer of what is known and what is told; answers what was there before and what is there after."""
        before, metadata = self._entries.get(key), _mapping(raw.get("metadata"))
        known = before is not None and before.uid == metadata.get("uid")
        if before is not None and known and 0 < _version(metadata.get("resourceVersion")) <= before.version:
            return before, before  # stale, or the echo of the operator's own write
        entry = _entry(raw)
        self._entries[key] = entry
        if before is not None and before.cloud_id != entry.cloud_id:
            self._unindex(before.cloud_id, key)
        (self._searching.add if entry.searching else self._searching.discard)(key)
        if entry.cloud_id:
            self._by_cloud_id.setdefault(entry.cloud_id, set()).add(key)
        self._index_owner(key, before, entry)
        return before, entry

    def drop(self, key: ObjectKey, uid: str | None = None) -> Entry | None:
        """Forget an object; with `uid`, only that very one."""
        entry = self._entries.get(key)
        if entry is None or (uid is not None and entry.uid != uid):
            return None
        del self._entries[key]
        self._searching.discard(key)
        self.unclaim(key)
        self._unindex(entry.cloud_id, key)
        self._index_owner(key, entry, None)
        return entry

    def with_cloud_id(self, cloud_id: str) -> frozenset[ObjectKey]:
        """Who records this cloud id in status."""
        return frozenset(self._by_cloud_id.get(cloud_id, ()))

    def owned_by(self, uid: str) -> dict[ObjectKey, Entry]:
        """What the object with this uid controls."""
        return {key: self._entries[key] for key in self._by_owner.get(uid, ())}

    def with_token(self, token: str) -> frozenset[ObjectKey]:
        """Whose create this token was; for searches, which are rare: it looks at every object."""
        return frozenset(key for key, entry in self._entries.items() if entry.token == token)

    def claim(self, cloud_id: str, key: ObjectKey) -> frozenset[ObjectKey]:
        """Take an id that the object is about to record, so that no two do; else answers who has it.

        A claim holds until `unclaim`, or until the object is forgotten.
        """
        claimants = (other for other, claimed in self._claims.items() if claimed == cloud_id)
        holders = self.with_cloud_id(cloud_id).union(claimants) - {key}
        if not holders:
            self._claims[key] = cloud_id
        return holders

    def unclaim(self, key: ObjectKey) -> None:
        """What the object recorded speaks for itself from here on."""
        self._claims.pop(key, None)

    def searching(self) -> tuple[ObjectKey, ...]:
        """Objects with an intent and no id: what a webhook names may be theirs."""
        return tuple(self._searching)

    def keys(self, kind: str | None = None) -> Iterator[ObjectKey]:
        return iter([key for key in self._entries if kind is None or key.kind == kind])

    def items(self) -> Iterator[tuple[ObjectKey, Entry]]:
        return iter(list(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)

    def _unindex(self, cloud_id: str, key: ObjectKey) -> None:
        _discard(self._by_cloud_id, cloud_id, key)

    def _index_owner(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        was, is_now = (entry.owned if entry is not None else None for entry in (before, after))
        if was is not None:
            _discard(self._by_owner, was.owner_uid, key)
        if is_now is not None:
            self._by_owner.setdefault(is_now.owner_uid, set()).add(key)
        begins_to_go = before is not None and after is not None and before.deleting != after.deleting
        if was == is_now and not begins_to_go:
            return
        for owner in {one.owner for one in (was, is_now) if one is not None}:
            self.on_owned(owner)


def _discard(index: dict[str, set[ObjectKey]], name: str, key: ObjectKey) -> None:
    holders = index.get(name)
    if holders is not None:
        holders.discard(key)
        if not holders:
            del index[name]


def others_wrote(before: Entry, after: Entry) -> bool:
    """Whether people changed something between the two, or asked for something."""
    return (
        before.uid != after.uid
        or before.generation != after.generation
        or before.deleting != after.deleting
        or before.asked != after.asked
    )


def needs_work(before: Entry | None, after: Entry) -> bool:
    """Whether an event asks for a reconcile; the operator's own writes do not."""
    return (
        before is None
        or others_wrote(before, after)
        or (before.protected and not after.protected)
        or (before.cloud_id != "" and after.cloud_id == "")
    )


def _entry(raw: Mapping[str, JsonValue]) -> Entry:
    metadata = _mapping(raw.get("metadata"))
    annotations = _mapping(metadata.get("annotations"))
    spec, status = _mapping(raw.get("spec")), _mapping(raw.get("status"))
    account = _mapping(status.get("account")) or _sent_with(annotations, status) or _mapping(spec.get("accountRef"))
    ready = _ready_condition(status)
    finalizers = metadata.get("finalizers")
    return Entry(
        body=_compact(raw, metadata, annotations),
        uid=str(metadata.get("uid", "")),
        version=_version(metadata.get("resourceVersion")),
        generation=_number(metadata.get("generation")),
        deleting="deletionTimestamp" in metadata,
        protected=CREATE_INTENT in annotations and isinstance(finalizers, list) and FINALIZER in finalizers,
        asked=tuple(
            sorted(
                (name, str(value))
                for name, value in annotations.items()
                if name.startswith(ANNOTATION_PREFIX) and name not in _OURS
            )
        ),
        cloud_id=str(status.get("id") or ""),
        token=str(status.get("createToken") or ""),
        searching=not status.get("id") and CREATE_INTENT in annotations,
        settled=ready.get("status") == "True"
        and status.get("observedGeneration") == metadata.get("generation")
        and "nextScheduleTime" not in status,
        reason=str(ready.get("reason") or ""),
        account=(str(account.get("kind") or ""), str(account.get("name") or "")),
        over=status.get("cleared") is True,
        owned=owned(metadata, status),
    )


def _compact(
    raw: Mapping[str, JsonValue], metadata: Mapping[str, JsonValue], annotations: Mapping[str, JsonValue]
) -> bytes:
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    kept["annotations"] = {name: value for name, value in annotations.items() if name not in _DROPPED_ANNOTATIONS}
    return json.dumps({**raw, "metadata": kept}, separators=(",", ":"), ensure_ascii=False).encode()


def _sent_with(annotations: Mapping[str, JsonValue], status: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The account of a create whose answer no status tells."""
    text = annotations.get(CREATE_INTENT)
    intent = CreateIntent.parse(text) if isinstance(text, str) else None
    if not isinstance(intent, CreateIntent) or not intent.account or intent.token == status.get("createToken"):
        return {}
    kind, name = intent.account_parts
    return {"kind": kind, "name": name}


def _ready_condition(status: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == "Ready":
            return condition
    return {}


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _version(value: JsonValue) -> int:
    """Resource versions are comparable integers (Kubernetes 1.35 and later; etcd revisions before)."""
    return int(value) if isinstance(value, str) and value.isdigit() else 0
