"""Resources in the cloud that have no object: kept on purpose, orphaned, or created too late.

A ConfigMap in the operator's own namespace keeps the record of each, since backups are restored without status.
Deleting that ConfigMap makes the operator forget the resource.
"""

import heapq
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue, ValidationError

from relay_kube.errors import KubeError, Refused
from relay_kube.kube import JsonObject, Kube
from relay_operator.api.meta import ANNOTATION_PREFIX, ObjectKey
from relay_operator.engine.config_maps import ConfigMaps
from relay_operator.engine.leftover import NAMED, Fate, Leftover, Reach, config_map_name
from relay_operator.engine.manifests import part

logger = logging.getLogger(__name__)

LABEL = f"{ANNOTATION_PREFIX}leftover"
_RECORD = "resource.json"
_TRIES = 3
"""Consecutive failures after which a write that is not refused does not seem to recover by itself."""
_OTHERS = 20
"""The most ConfigMaps that a `save` writes beyond those that it needs: its caller waits for each."""
_MOST = 1000
"""The most records of a namespace's resources: each is a ConfigMap outside of the namespace's own quota."""
_BY_NAME = 100
"""The most of these of which only the name is known, kept ones apart."""


class LeftoversFullError(Refused):
    """A namespace has the most records that it may have; the message says what to do."""

    def __init__(self, namespace: str) -> None:
        told = (
            f"the namespace {namespace} has {_MOST} records of resources without an object, or {_BY_NAME} of which "
            "only the name is known, and gets no more: end in the cloud what nobody needs, or adopt it; an "
            f"administrator deletes the ConfigMaps {LABEL} of what no account reaches or has"
        )
        super().__init__(0, told, "")


@dataclass(slots=True)
class Leftovers:
    """All records."""

    kube: Kube
    namespace: str
    """The operator's own namespace."""
    kinds: frozenset[str]
    """All kinds of this release."""
    _config_maps: ConfigMaps = field(init=False)
    _records: dict[str, Leftover] = field(default_factory=dict)
    """By the name of the ConfigMap."""
    _by_account: dict[ObjectKey, set[str]] = field(default_factory=dict)
    _late: dict[str, set[str]] = field(default_factory=dict)
    """By the UID of the object that the resource was created for."""
    _kept: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)
    """By organization, id and name; either id or name is empty."""
    _by_namespace: dict[str, set[str]] = field(default_factory=dict)
    _by_name: dict[tuple[str, Fate], set[str]] = field(default_factory=dict)
    """Those that are only known by their name, by the namespace of their object and by what becomes of them."""
    _illegible: set[str] = field(default_factory=set)
    """ConfigMaps of kept resources whose records cannot be read: their names still tell what they are of."""
    _unsaved: set[str] = field(default_factory=set)
    _retracted: dict[str, Leftover] = field(default_factory=dict)
    """Records whose ConfigMap has to be deleted, by its name."""
    _failed: dict[str, tuple[int, KubeError]] = field(default_factory=dict)
    """How often in a row the write of a ConfigMap failed, and the last error."""
    _written_last: str = ""
    """The ConfigMap after which, in order of their names, the next `save` goes on with those that it does not need."""
    _let_go: set[str] = field(default_factory=set)
    """UIDs of objects whose finalizer the operator removes itself, until they are gone."""

    def __post_init__(self) -> None:
        self._config_maps = ConfigMaps(self.kube, self.namespace, LABEL, _RECORD)

    def read(self, config_map: Mapping[str, JsonValue], found: set[str]) -> bool:
        """Read the record in a ConfigMap, and add its name to `found`; False if it keeps no such record.

        Changes of this process that are not saved yet win over what is read.
        """
        name, fate = str(part(config_map, "metadata").get("name")), _labelled(config_map)
        if fate is None:
            return False
        found.add(name)
        record = _read(name, self._config_maps.text(config_map))
        if record is None and fate == Fate.KEPT:
            self._illegible.add(name)
        else:
            self._illegible.discard(name)
        if record is not None and name not in self._unsaved and name not in self._retracted:
            self._put(record)
        return True

    def saved(self) -> set[str]:
        """The names of the ConfigMaps that this process knows to exist."""
        return self._records.keys() - self._unsaved

    def only(self, found: set[str], before: set[str]) -> None:
        """Forget the records whose ConfigMap people deleted.

        `found` are the ConfigMaps in a list, `before` those in `saved` before it: it may lack what was saved since.
        """
        for name in (before & self.saved()) - found:
            logger.info("the ConfigMap %s is deleted: what it stood for is forgotten", name)
            self._drop(name)
        self._illegible &= found

    def note(self, leftover: Leftover) -> None:
        """Add a record, which the next `save` writes; a resource that is kept on purpose stays so.

        Raises LeftoversFullError if the record is new and its namespace has too many.
        """
        known = self._records.get(leftover.config_map)
        if known is None and self._is_full_for(leftover):
            raise LeftoversFullError(leftover.namespace)
        if known is None or (known.fate is not Fate.KEPT and (known.fate, known.of) != (leftover.fate, leftover.of)):
            logger.warning(
                "%s %s in %s: %s", leftover.kind, leftover.id or leftover.name, leftover.account, leftover.fate
            )
            self._put(leftover)
            self._unsaved.add(leftover.config_map)

    def _is_full_for(self, record: Leftover) -> bool:
        return any(len(own) >= most for own, most in self._bounded(record))

    def _bounded(self, record: Leftover) -> Iterator[tuple[Collection[str], int]]:
        """Yields the records that this one would join, and how many they may be."""
        yield self._by_namespace.get(record.namespace, ()), _MOST
        if record.by_name_alone:
            yield self._by_name.get((record.namespace, record.fate), ()), _BY_NAME

    def retract(self, uid: str) -> None:
        """Forget the orphans of the object with this UID: what it had is being ended."""
        for record in list(self._records.values()):
            if (record.uid, record.fate) == (uid, Fate.ORPHAN):
                self.forget(record)

    def forget(self, leftover: Leftover) -> None:
        """Forget a record, since its resource is gone or has an object; the next `save` deletes its ConfigMap."""
        name = leftover.config_map
        if name not in self._unsaved:
            self._retracted[name] = leftover
        self._drop(name)

    async def save(self, needed: Collection[str] | None = None) -> None:
        """Write the `needed` changes, and then some of the others in turn; None means that all are needed.

        A ConfigMap that fails does not hold up the others, and a later call writes it. Raises KubeError if one of the
        `needed` ConfigMaps failed.
        """
        failed: KubeError | None = None
        changed = self._changed()
        first = changed if needed is None else changed & set(needed)
        for name in (*sorted(first), *self._in_turn(changed - first)):
            try:
                await self._save(name)
                self._failed.pop(name, None)
            except KubeError as error:
                logger.warning("the ConfigMap %s is not written: %s", name, error)
                self._failed[name] = (self._failed.get(name, (0, error))[0] + 1, error)
                if failed is None and name in first:
                    failed = error
        if failed is not None:
            raise failed

    def _changed(self) -> set[str]:
        return self._retracted.keys() | self._unsaved

    def _in_turn(self, names: set[str]) -> list[str]:
        turn = heapq.nsmallest(_OTHERS, names, key=lambda name: (name <= self._written_last, name))
        self._written_last = turn[-1] if turn else ""
        return turn

    def untried(self, account: ObjectKey) -> bool:
        """Whether a change about this account's resources was left to later calls of `save` so far."""
        return not (self._changed() & self.of_account(account)) <= self._failed.keys()

    def waits(self) -> bool:
        """Whether a change is not saved yet, and its write was not refused either."""
        return any(not isinstance(self._failed.get(name, (0, None))[1], Refused) for name in self._changed())

    def trouble(self, names: Iterable[str]) -> str:
        """Why one of these ConfigMaps cannot be written; empty while the failure may pass by itself."""
        for name in sorted(names):
            failures, error = self._failed.get(name, (0, None))
            if error is not None and (failures >= _TRIES or isinstance(error, Refused)):
                return self._config_maps.unwritten(name, error)
        return ""

    def of_account(self, account: ObjectKey) -> set[str]:
        """The names of the ConfigMaps about this account's resources, with those that have to be deleted."""
        gone = {name for name, record in self._retracted.items() if record.account == account}
        return self._by_account.get(account, set()) | gone

    async def _save(self, name: str) -> None:
        """Write or delete one ConfigMap; others may note, forget and save meanwhile. Raises KubeError."""
        if (retracted := self._retracted.get(name)) is not None:
            was = retracted.fate
            await self._config_maps.delete(name, lambda there: was is Fate.KEPT or self._yields(there, was))
            self._retracted.pop(name, None)
            if name in self._records:
                self._unsaved.add(name)
        record = self._records.get(name)
        if record is None or name not in self._unsaved:
            return
        await self._config_maps.put(
            name, record.fate, record.model_dump_json(), lambda there: self._yields(there, record.fate)
        )
        now = self._records.get(name)
        if now is None:
            self._retracted[name] = record
        elif now is record:
            self._unsaved.discard(name)

    def _yields(self, there: JsonObject, to: Fate) -> bool:
        """Whether the present ConfigMap may be deleted, or overwritten by a record of this fate.

        Only one of what is kept, as of another account, replaces one of what is kept, which is taken over otherwise.
        """
        if _labelled(there) != Fate.KEPT:
            return True
        known = _read(str(part(there, "metadata").get("name")), self._config_maps.text(there))
        if known is not None and to is not Fate.KEPT:
            self._put(known)
        return known is not None and to is Fate.KEPT

    def of(self, account: ObjectKey) -> tuple[Leftover, ...]:
        """The records of this account, the oldest first, but those that are only a name last."""
        own = (self._records[name] for name in self._by_account.get(account, ()))
        return tuple(sorted(own, key=lambda record: (record.by_name_alone, record.since, record.id, record.name)))

    def late(self, uid: str) -> tuple[Leftover, ...]:
        """The late resources of the object with this UID that still exist."""
        return tuple(self._records[name] for name in sorted(self._late.get(uid, ())))

    def counts(self) -> Counter[Fate]:
        """How many records have each fate."""
        return Counter(record.fate for record in self._records.values())

    def by_name(self, reach: Reach, kind: str, name: str) -> Leftover | None:
        """The record that is only known by this name; None if there is none."""
        there = (record for record in self._recorded(reach, kind, f"{NAMED}{name}", name) if not record.id)
        return next((one for one in there if one.endpoint or one.account == reach.account), None)

    def move(self, reach: Reach, sees: Callable[[ObjectKey, bool], bool]) -> None:
        """Give the account the records of its organization whose own account does not see it, or is gone.

        `sees` is called with an account and with whether its record names a cloud. A namespace takes over no more than
        it may have.
        """
        for other in list(self._by_account):
            blind = {named for named in (False, True) if not sees(other, named)}
            for record in [one for one in self.of(other) if bool(one.endpoint) in blind] if blind else ():
                if record.organization != reach.organization or not reach.is_in_cloud_of(record):
                    continue
                # A name alone proves nothing: it counts among its namespace's own, and is never another's.
                counted = reach.account.namespace in {"", record.namespace}
                taken = record.model_copy(update={"account": reach.account})
                fits = taken.namespace == record.namespace or not self._is_full_for(taken)
                if fits and (record.id or counted):
                    self._put(taken)
                    self._unsaved.add(record.config_map)

    def known(self, reach: Reach, kind: str, cloud_id: str, uid: str = "") -> bool:
        """Whether there is a record with this id, apart from an orphan of the object with this UID, which exists."""
        records = (one for one in self._recorded(reach, kind, cloud_id, cloud_id) if one.id == cloud_id)
        return any(not uid or (one.fate, one.uid) != (Fate.ORPHAN, uid) for one in records)

    def seen_in(self, reach: Reach, record: Leftover) -> None:
        """Record that the cloud which the account calls by now has the resource: it is the same cloud.

        The former record is forgotten once one that protects as much is saved, at a later call. Raises
        LeftoversFullError.
        """
        here = record.model_copy(update={"endpoint": reach.endpoints.of(record.kind)})
        there = self._records.get(here.config_map) if here.config_map in self.saved() else None
        if there is not None and (there.fate is Fate.KEPT or record.fate is not Fate.KEPT):
            self.forget(record)
        else:
            self.note(here)

    def kept(self, reach: Reach, cloud_id: str, name: str, *, any_cloud: bool = False) -> bool:
        """Whether the resource is kept on purpose, whatever else names it.

        Several can have one name: it decides only if the resource or the record has no id. Nor does the kind decide,
        since kinds share lists in the cloud. A record of the account itself counts with any cloud, since its URL may
        have changed; with `any_cloud`, each does.
        """
        organization = reach.organization
        alike = (self._records[each] for each in self._kept.get((organization, "", name), ()))
        same = (self._records[each] for each in self._kept.get((organization, cloud_id, ""), ()))
        for record in (*(record for record in alike if not (cloud_id and record.id)), *same):
            if any_cloud or record.account == reach.account or reach.is_in_cloud_of(record):
                return True
        return bool(self._illegible) and self._keeps_illegibly(reach, cloud_id, name)

    def _keeps_illegibly(self, reach: Reach, cloud_id: str, name: str) -> bool:
        """Whether a ConfigMap that cannot be read has the name that the record of the resource would have."""
        for kind in self.kinds:
            by_id = self._names(reach, kind, cloud_id, cloud_id) if cloud_id else ()
            if not self._illegible.isdisjoint((*by_id, *self._names(reach, kind, f"{NAMED}{name}", name))):
                return True
        return False

    def _recorded(self, reach: Reach, kind: str, known_as: str, formerly: str) -> Iterator[Leftover]:
        """Yields the record of this cloud, and that of an earlier release, which names no cloud."""
        yield from filter(None, map(self._records.get, self._names(reach, kind, known_as, formerly)))

    def _names(self, reach: Reach, kind: str, known_as: str, formerly: str) -> Iterator[str]:
        """Yields the names of their ConfigMaps."""
        endpoint = reach.endpoints.of(kind)
        places = {(endpoint, known_as if endpoint else formerly), ("", formerly)}
        for where, what in sorted(places, reverse=True):
            yield config_map_name(where, reach.organization, kind, what)

    def _put(self, record: Leftover) -> None:
        name = record.config_map
        self._drop(name)
        self._records[name] = record
        for index, key in self._indexes(record):
            index.setdefault(key, set()).add(name)

    def _drop(self, name: str) -> None:
        record = self._records.pop(name, None)
        self._unsaved.discard(name)
        self._failed.pop(name, None)
        for index, key in self._indexes(record) if record is not None else ():
            index[key].discard(name)
            if not index[key]:
                del index[key]

    def _indexes(self, record: Leftover) -> Iterator[tuple[dict[Any, set[str]], Any]]:
        """Yields the indexes that contain the record, with its key in each."""
        yield self._by_account, record.account
        yield self._by_namespace, record.namespace
        if record.fate is Fate.LATE:
            yield self._late, record.uid
        if record.by_name_alone:
            yield self._by_name, (record.namespace, record.fate)
        if record.fate is Fate.KEPT:
            if record.id:
                yield self._kept, (record.organization, record.id, "")
            if record.name and not record.part_of:  # other parts may have the same name
                yield self._kept, (record.organization, "", record.name)

    def lets_go(self, uid: str) -> None:
        """Note that the operator removes this object's finalizer."""
        self._let_go.add(uid)

    def is_let_go(self, uid: str) -> bool:
        """Whether the operator removed, or removes, the finalizer of this object."""
        return uid in self._let_go

    def take_let_go(self, uid: str) -> bool:
        """Return whether the operator removed the finalizer of this object, which is gone, and forget that."""
        if uid in self._let_go:
            self._let_go.discard(uid)
            return True
        return False


def _labelled(config_map: Mapping[str, JsonValue]) -> JsonValue:
    """The fate that the ConfigMap's label tells; None if it keeps no such record."""
    return part(config_map, "metadata", "labels").get(LABEL)


def _read(name: str, text: str | None) -> Leftover | None:
    """The record in the ConfigMap of this name; None if it is unreadable, or the name does not fit the record."""
    try:
        record = Leftover.model_validate_json(text or "")
    except ValidationError:
        record = None
    if record is None or record.config_map != name:
        logger.error("the ConfigMap %s cannot be read, or is not named by what it keeps: it is left", name)
        return None
    return record
