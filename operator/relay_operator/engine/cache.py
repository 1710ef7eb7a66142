"""What the watch last said of every object, and who is found by what."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account_users import AccountUsers, Reference
from relay_operator.engine.commitment import NOTHING, Commitment, Commitments
from relay_operator.engine.entry import Entry, entry_of, uid_of, version_of
from relay_operator.engine.identity import gave, uids_in
from relay_operator.engine.index import Index
from relay_operator.engine.intent import uid_part
from relay_operator.engine.tombstones import Tombstones

References: TypeAlias = tuple[tuple[ObjectKey, ...], tuple[ObjectKey, ...]]
"""What an object names, and what it holds."""


@dataclass(slots=True)
class Cache:
    """All known objects, with indexes by account, token, UID, owner and cloud id. O(1) per event, and object found."""

    on_owned: Callable[[ObjectKey], None] = lambda _owner: None
    """Told the owner of an object that came, went, began to be deleted or finished."""
    on_shared: Callable[[ObjectKey], None] = lambda _holder: None
    """Told everybody who records a cloud id that another object records too, or did until now."""
    on_related: Callable[[ObjectKey], None] = lambda _key: None
    """Told who waits for an object that it refers to and that changed, and who is let go by all that refer to it."""
    on_left: Callable[[ObjectKey, Entry], None] = lambda _key, _entry: None
    """Told who recorded a cloud id and does so no more, as it was."""
    on_freed: Callable[[ObjectKey, str], None] = lambda _account, _namespace: None
    """Told account and namespace of an object that costs less than before, or is gone."""
    priced: frozenset[str] = frozenset()
    """Kinds that cost something by the hour."""
    without_account: frozenset[str] = frozenset()
    """Kinds that use no account, beside the accounts themselves."""
    _entries: dict[ObjectKey, Entry] = field(default_factory=dict)
    _tombstones: Tombstones = field(default_factory=Tombstones)
    _by_cloud_id: Index[str] = field(default_factory=Index)
    _by_token: Index[str] = field(default_factory=Index)
    _by_owner: Index[str] = field(default_factory=Index)
    _by_uid: Index[str] = field(default_factory=Index)
    _by_reference: Index[ObjectKey] = field(default_factory=Index)
    _by_claim: Index[str] = field(default_factory=Index)
    _claims: dict[ObjectKey, str] = field(default_factory=dict)
    _users: AccountUsers = field(init=False)
    _searching: AccountUsers = field(init=False)
    _commitments: Commitments = field(default_factory=Commitments)

    def __post_init__(self) -> None:
        self._users = AccountUsers(self._entries.__contains__, self.without_account)
        self._searching = AccountUsers(self._entries.__contains__, self.without_account)

    def get(self, key: ObjectKey) -> Entry | None:
        return self._entries.get(key)

    def put(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> tuple[Entry | None, Entry]:
        """Keep the newer of what is known and what is told; answers what was there before and what is there after.

        What was read before the object was deleted is not kept: both are the same then.
        """
        before = self._entries.get(key)
        if self.knows(key, raw):
            entry = before or entry_of(raw)
            return entry, entry
        entry = entry_of(raw)
        self._entries[key] = entry
        self._index(key, before, entry)
        return before, entry

    def knows(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> bool:
        """Whether this is no news: stale, the echo of the operator's own write, or from before the object's end."""
        entry, version = self._entries.get(key), version_of(raw)
        known = entry is not None and entry.uid == uid_of(raw) and 0 < version <= entry.version
        return known or self._tombstones.covers(key, version)

    def drop(self, key: ObjectKey, uid: str | None = None, version: int = 0) -> Entry | None:
        """Forget an object, which ended at this version; with `uid`, only that very one."""
        entry = self._entries.get(key)
        if entry is None or (uid is not None and entry.uid != uid):
            self._tombstones.put(key, version)
            return None
        self._tombstones.put(key, max(version, entry.version))
        del self._entries[key]
        self.unclaim(key)
        self._index(key, entry, None)
        return entry

    def with_cloud_id(self, cloud_id: str) -> frozenset[ObjectKey]:
        """Who records this cloud id in status."""
        return self._by_cloud_id.of(cloud_id)

    def others(self, key: ObjectKey, cloud_id: str | None, token: str | None = None) -> frozenset[ObjectKey]:
        """Who else records this cloud id, or the create of this token."""
        recording = self._by_cloud_id.of(cloud_id) - {key} if cloud_id else frozenset()
        return recording | self.creators(token, key) if token else recording

    def with_name(self, cloud_name: str, installation: str, *, but: str) -> frozenset[ObjectKey]:
        """Who gives this name to what is made for it in the cloud, `but` the object of that UID."""
        known = [(key, self._entries[key].uid) for uid in uids_in(cloud_name) for key in self._by_uid.of(uid)]
        return frozenset(key for key, uid in known if uid != but and gave(key, uid, installation, cloud_name))

    def owned_by(self, uid: str) -> dict[ObjectKey, Entry]:
        """What the object with this uid controls."""
        return {key: self._entries[key] for key in self._by_owner.of(uid)}

    def with_token(self, token: str) -> frozenset[ObjectKey]:
        """Whose create this token was."""
        return self._by_token.of(token)

    def creators(self, token: str, key: ObjectKey) -> frozenset[ObjectKey]:
        """Who else's: what was made for the object beside what it has, and is ended on its own, is nobody else's."""
        own = self._entries.get(key)
        surplus = f"{own.uid}-" if own is not None else "-"
        return frozenset(other for other in self._by_token.of(token) - {key} if not other.vanished.startswith(surplus))

    def cloud_id_of(self, key: ObjectKey) -> str:
        """What the object records; empty if it records none, or is not there."""
        entry = self._entries.get(key)
        return "" if entry is None else entry.cloud_id

    def holders(self, key: ObjectKey) -> frozenset[ObjectKey]:
        """Whose resource was given this object's, or may have been: it is not to go before they do."""
        referring = self._by_reference.of(key)
        return frozenset(other for other in referring if key in self._entries[other].held)

    def claim(self, cloud_id: str, key: ObjectKey) -> frozenset[ObjectKey]:
        """Take an id that the object is about to record, so that no two do; else answers who has it.

        A claim holds until `unclaim`, or until the object is forgotten.
        """
        holders = (self.with_cloud_id(cloud_id) | self._by_claim.of(cloud_id)) - {key}
        if not holders:
            self._by_claim.move(key, self._claims.get(key), cloud_id)
            self._claims[key] = cloud_id
        return holders

    def unclaim(self, key: ObjectKey) -> None:
        """What the object recorded speaks for itself from here on."""
        self._by_claim.move(key, self._claims.pop(key, None), None)

    def users(self, account: ObjectKey) -> tuple[tuple[ObjectKey, Entry], ...]:
        """What uses, or would use, this account, and is not over."""
        return tuple((key, self._entries[key]) for key in self._users.of(account))

    def searching(self, account: ObjectKey) -> tuple[ObjectKey, ...]:
        """Whose open intent a resource of this account may answer: what a webhook names may be theirs."""
        return tuple(self._searching.of(account))

    def committed(self, account: ObjectKey) -> dict[str, Commitment]:
        """By namespace: the sum over everything there that uses the account."""
        sums: dict[str, Commitment] = {}
        for namespace, reference, total in self._commitments.of(account.namespace):
            if self._users.account_in(namespace, reference) == account:
                sums[namespace] = sums.get(namespace, NOTHING) + total
        return sums

    def account_of(self, key: ObjectKey) -> ObjectKey | None:
        """The account that the object uses, would use, or is; None if it is not known, or there is none."""
        entry = self._entries.get(key)
        return None if entry is None else self.account_meant(key, entry)

    def account_meant(self, key: ObjectKey, entry: Entry) -> ObjectKey | None:
        """The same of an entry that may have been replaced."""
        return self._users.account_of(key, entry.account)

    def default_account(self, namespace: str) -> ObjectKey | None:
        """What objects of this namespace use that name no account; None if there is no such account."""
        return self._users.default(namespace)

    def keys(self, kind: str | None = None) -> Iterator[ObjectKey]:
        return iter([key for key in self._entries if kind is None or key.kind == kind])

    def items(self) -> Iterator[tuple[ObjectKey, Entry]]:
        return iter(list(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)

    def _relate(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        """Who refers to whom, and who has to know: what went by while no operator ran, each finds by itself."""
        former, present = _references(before), _references(after)
        if former != present:
            self._refer(key, former, present)
        if _offered(before) != _offered(after):
            for other in self._by_reference.of(key):
                if before is not None or not self._entries[other].settled:
                    self.on_related(other)

    def _commit(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        had, has = (entry.committed if entry is not None else NOTHING for entry in (before, after))
        if before is not None:
            self._commitments.add(key.namespace, before.account, NOTHING - had)
        if after is not None:
            self._commitments.add(key.namespace, after.account, has)
        account = self.account_meant(key, before) if before is not None and not has.covers(had) else None
        if account is not None:
            self.on_freed(account, key.namespace)

    def _refer(self, key: ObjectKey, former: References, present: References) -> None:
        referred, refers = (set().union(*each) for each in (former, present))
        for other in referred - refers:
            self._by_reference.move(key, other, None)
        for other in refers - referred:
            self._by_reference.move(key, None, other)
        for other in set(former[1]) - set(present[1]):
            if (entry := self._entries.get(other)) is not None and (entry.deleting or not entry.settled):
                self.on_related(other)

    def _index(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        indexes = (self._by_cloud_id, self._by_token, self._by_uid, self._by_owner)
        for index, former, present in zip(indexes, _names(before), _names(after), strict=True):
            index.move(key, former, present)
        former, present = (entry.cloud_id if entry is not None else "" for entry in (before, after))
        for cloud_id in {former, present} - {""} if former != present else ():
            holders = self._by_cloud_id.of(cloud_id)
            for holder in holders if holders - {key} else ():
                self.on_shared(holder)
        if before is not None and former not in ("", present):
            self.on_left(key, before)
        for users, left, joined in zip(
            (self._users, self._searching), _accounts(before), _accounts(after), strict=True
        ):
            users.move(key, left, joined)
        self._relate(key, before, after)
        if key.kind in self.priced:
            self._commit(key, before, after)
        was, is_now = (entry.owned if entry is not None else None for entry in (before, after))
        begins_to_go = before is not None and after is not None and before.deleting != after.deleting
        if was != is_now or begins_to_go:
            for owner in {one.owner for one in (was, is_now) if one is not None}:
                self.on_owned(owner)


def _names(entry: Entry | None) -> tuple[str | None, str | None, str | None, str | None]:
    """Cloud id, token, its own UID's part in names, and its owner's UID: what it is found by."""
    if entry is None:
        return None, None, None, None
    owner = entry.owned.owner_uid if entry.owned is not None else None
    return entry.cloud_id or None, entry.token or None, uid_part(entry.uid), owner


def _references(entry: Entry | None) -> References:
    return ((), ()) if entry is None else (entry.named, entry.held)


def _offered(entry: Entry | None) -> tuple[bool, str] | None:
    """What those who refer to it wait for."""
    return None if entry is None else (entry.deleting, entry.cloud_id if entry.settled else "")


def _accounts(entry: Entry | None) -> tuple[Reference | None, Reference | None]:
    """Which account it uses, and in which it searches."""
    if entry is None:
        return None, None
    return None if entry.over else entry.account, entry.account if entry.searching else None
