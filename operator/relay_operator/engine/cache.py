"""The last observed state of every object, with indexes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, TypeAlias

from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account_users import DEFAULT_NAME, AccountUsers, Reference
from relay_operator.engine.commitment import NOTHING, Commitment, Commitments, Share
from relay_operator.engine.endpoints import NOWHERE, Endpoints, called
from relay_operator.engine.entry import Entry, entry_of, unchanged, version_of
from relay_operator.engine.identity import Installation, gave, uids_in
from relay_operator.engine.index import Index
from relay_operator.engine.intent import MAX_NAME, uid_part
from relay_operator.engine.tombstones import Tombstones

References: TypeAlias = tuple[tuple[ObjectKey, ...], tuple[ObjectKey, ...]]
"""The objects that an object names in its spec, and those that it holds."""
_NAMED = attrgetter("token", "uid", "owned")
_RECORDED = attrgetter("cloud_id", "aside")
_ACCOUNTED = attrgetter("account", "over", "searching")
_RELATED = attrgetter("named", "held", "deleting", "cloud_id", "ready")
_COMMITTED = attrgetter("account", "committed", "reserved")
_NO_CLAIM: Final = ("", "")
_NO_IDS: Final[frozenset[str]] = frozenset()
_NO_SHARES: Final[tuple[Share, Share]] = ((("", ""), NOTHING), (("", ""), NOTHING))


@dataclass(slots=True)
class Cache:
    """All known objects, indexed by account, token, UID, owner and cloud id. O(1) per event and per object found."""

    on_owned: Callable[[ObjectKey], None] = lambda _owner: None
    """Called with the owner of an object that appeared, was deleted, began to be deleted or finished."""
    on_shared: Callable[[ObjectKey], None] = lambda _holder: None
    """Called with every object that records a cloud id which another object records too, or did until now."""
    on_related: Callable[[ObjectKey], None] = lambda _key: None
    """Called with an object that refers to one that changed, or whose resource another object no longer uses."""
    on_left: Callable[[ObjectKey, Entry], None] = lambda _key, _entry: None
    """Called with the key and the former entry of an object that no longer records its cloud id."""
    on_freed: Callable[[ObjectKey, str], None] = lambda _account, _namespace: None
    """Called with account and namespace of an object whose commitment fell, or that was deleted."""
    on_lapsed: Callable[[ObjectKey, ObjectKey, int], None] = lambda _key, _account, _cents: None
    """Called with an object, its account, and how much less it shows as being paid for it per hour."""
    on_changed: Callable[[ObjectKey, Entry | None, Entry | None], None] = lambda _key, _before, _after: None
    """Called with the entries of an object before and after every change of it; None if there is none."""
    installation: Installation = field(default_factory=Installation)
    """Set before the first object is put: it tells an object's own intent from another's."""
    urls: tuple[str, str] = ("", "")
    """The URLs of accounts that name none, of the management and of the inference API."""
    priced: frozenset[str] = frozenset()
    """Kinds with an hourly price."""
    without_account: frozenset[str] = frozenset()
    """Kinds that use no account; the kinds of accounts need not be in it."""
    _entries: dict[ObjectKey, Entry] = field(default_factory=dict)
    _tombstones: Tombstones = field(default_factory=Tombstones)
    _by_cloud_id: Index[str] = field(default_factory=Index)
    _by_token: Index[str] = field(default_factory=Index)
    _by_owner: Index[str] = field(default_factory=Index)
    _by_uid: Index[str] = field(default_factory=Index)
    _by_reference: Index[ObjectKey] = field(default_factory=Index)
    _by_claim: Index[str] = field(default_factory=Index)
    _claims: dict[ObjectKey, tuple[str, str]] = field(default_factory=dict)
    """The ids that are claimed, each with the endpoint of the cloud that showed it."""
    _users: AccountUsers = field(init=False)
    _searching: AccountUsers = field(init=False)
    _commitments: Commitments = field(default_factory=Commitments)
    _reserved: Commitments = field(default_factory=Commitments)

    def __post_init__(self) -> None:
        self._users = AccountUsers(self._entries.__contains__, self.without_account)
        self._searching = AccountUsers(self._entries.__contains__, self.without_account)

    def get(self, key: ObjectKey) -> Entry | None:
        return self._entries.get(key)

    def put(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> tuple[Entry | None, Entry]:
        """Keep the newer of the cached and the given object; returns the entries before and after.

        What is no news is not kept: both entries are the same then.
        """
        before = self._entries.get(key)
        if self.knows(key, raw):
            entry = before or self.entry_of(raw)
            return entry, entry
        entry = self.entry_of(raw)
        self._entries[key] = entry
        self._index(key, before, entry)
        return before, entry

    def entry_of(self, raw: Mapping[str, JsonValue]) -> Entry:
        """The entry of an object given as JSON, which is not kept."""
        return entry_of(raw, self.installation.name)

    def knows(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> bool:
        """Whether this is known already: the echo of an own write, or older than what is known, also of a namesake."""
        entry, version = self._entries.get(key), version_of(raw)
        known = entry is not None and 0 < version <= entry.version
        return known or self._tombstones.covers(key, version)

    def drop(self, key: ObjectKey, uid: str | None = None, version: int = 0) -> Entry | None:
        """Forget an object that was deleted at this version; with `uid`, only if its UID is this one.

        Returns the entry that was dropped.
        """
        entry = self._entries.get(key)
        if entry is None or (uid is not None and entry.uid != uid):
            self._tombstones.put(key, version)
            return None
        self._tombstones.put(key, max(version, entry.version))
        del self._entries[key]
        self.unclaim(key)
        self._index(key, entry, None)
        return entry

    def is_gone(self, key: ObjectKey) -> bool:
        """Whether the object was there not long ago, and is deleted by now."""
        return key not in self._entries and self._tombstones.covers(key, 1)

    def with_cloud_id(self, cloud_id: str) -> frozenset[ObjectKey]:
        """The objects of all clouds that record this id in status, as that of their resource or of a former one."""
        return self._by_cloud_id.of(cloud_id)

    def others(self, key: ObjectKey, cloud_id: str | None, token: str | None = None) -> frozenset[ObjectKey]:
        """The other objects that record this id of the object's cloud, or the create with this token."""
        known = self._by_cloud_id.of(cloud_id) if cloud_id else frozenset()
        recording = self._in_cloud_of(key, self._entries.get(key), known)
        return recording | self.creators(token, key) if token else recording

    def with_name(self, cloud_name: str, installation: str, *, but: str) -> frozenset[ObjectKey]:
        """The objects that give this name to a resource of theirs, except the one with the UID `but`."""
        if len(cloud_name) > MAX_NAME:  # no object gives it, and a cloud may send thousands that take long to look into
            return frozenset()
        known = [(key, self._entries[key].uid) for uid in uids_in(cloud_name) for key in self._by_uid.of(uid)]
        return frozenset(key for key, uid in known if uid != but and gave(key, uid, installation, cloud_name))

    def only_giver(self, key: ObjectKey, uid: str, cloud_name: str, installation: str) -> bool:
        """Whether this object, or an earlier one of its name, gives this name, and no other object does.

        Anybody can write an intent by hand, with the name of another object's resource.
        """
        given = any(gave(key, each, installation, cloud_name) for each in uids_in(cloud_name))
        return given and not self.with_name(cloud_name, installation, but=uid)

    def owned_by(self, owner: ObjectKey, uid: str) -> dict[ObjectKey, Entry]:
        """The objects that this object with this UID controls; in other namespaces, anybody can write that it does."""
        entries = ((key, self._entries[key]) for key in self._by_owner.of(uid))
        return {key: entry for key, entry in entries if entry.owned is not None and entry.owned.owner == owner}

    def with_token(self, token: str) -> frozenset[ObjectKey]:
        """The objects whose status records the create with this token."""
        return self._by_token.of(token)

    def creators(self, token: str, key: ObjectKey) -> frozenset[ObjectKey]:
        """The other objects of this kind and cloud that record this token.

        Except entries of this very object: vanished ones stand for resources that it could not record, or has too many.
        """
        own = self._entries.get(key)
        named, uid = key._replace(vanished=""), own.uid if own is not None else ""

        def is_its_own(other: ObjectKey) -> bool:
            return other._replace(vanished="") == named and self._entries[other].uid == uid

        recording = (other for other in self._by_token.of(token) if other.kind == key.kind)
        return self._in_cloud_of(key, own, frozenset(other for other in recording if not is_its_own(other)))

    def has_living(self, key: ObjectKey, uid: str) -> bool:
        """Whether the key is a vanished entry's, for a resource of this object, which itself lives on."""
        living = self._entries.get(key._replace(vanished="")) if key.vanished else None
        return living is not None and living.uid == uid

    def cloud_id_of(self, key: ObjectKey) -> str:
        """The cloud id that the object records; empty if it records none or does not exist."""
        entry = self._entries.get(key)
        return "" if entry is None else entry.cloud_id

    def holders(self, key: ObjectKey) -> frozenset[ObjectKey]:
        """The objects whose resource uses this object's resource, or may: this one must not be deleted before them."""
        referring = self._by_reference.of(key)
        return frozenset(other for other in referring if key in self._entries[other].held)

    def claim(self, cloud_id: str, key: ObjectKey, endpoint: str = "") -> frozenset[ObjectKey]:
        """Claim an id that the object is about to record; returns the other holders, empty if the claim succeeded.

        `endpoint` is the cloud that showed it; empty for that of the object. A claim lasts until `unclaim`, or until
        the object is dropped. It keeps two objects from recording one id.
        """
        self.unclaim(key)
        known = self.with_cloud_id(cloud_id) | self._by_claim.of(cloud_id)
        self._claims[key] = cloud_id, endpoint or self.endpoint(key)
        holders = self._in_cloud_of(key, self._entries.get(key), known)
        if holders:
            del self._claims[key]
        else:
            self._by_claim.move(key, None, cloud_id)
        return holders

    def unclaim(self, key: ObjectKey) -> None:
        """End the object's claim: from now on its status records the id."""
        claimed, _ = self._claims.pop(key, _NO_CLAIM)
        self._by_claim.move(key, claimed or None, None)

    def users(self, account: ObjectKey) -> tuple[tuple[ObjectKey, Entry], ...]:
        """The objects that use, or would use, the account, and that still need it."""
        return tuple((key, self._entries[key]) for key in self._users.of(account))

    def searching(self, account: ObjectKey) -> tuple[ObjectKey, ...]:
        """The objects with an open intent in this account: an id from a webhook may belong to one of them."""
        return tuple(self._searching.of(account))

    def committed(self, account: ObjectKey) -> dict[str, Commitment]:
        """The commitments in this account, summed by namespace."""
        return self._summed(self._commitments, account)

    def reserved(self, account: ObjectKey) -> dict[str, Commitment]:
        """The part of these that only intents tell, which anybody can write by hand; for namespaces that have any."""
        return self._summed(self._reserved, account)

    def account_of(self, key: ObjectKey) -> ObjectKey | None:
        """The account that the object uses, would use, or is; None if the object is unknown or has no account."""
        entry = self._entries.get(key)
        return None if entry is None else self.account_meant(key, entry)

    def account_meant(self, key: ObjectKey, entry: Entry) -> ObjectKey | None:
        """The same for an entry, which need not be the cached one any more."""
        return self._users.account_of(key, entry.account)

    def endpoint(self, key: ObjectKey) -> str:
        """Which cloud the object's resource is in, or would be; empty if unknown. An account's is the one it calls."""
        return self.endpoint_meant(key, self._entries.get(key))

    def endpoint_meant(self, key: ObjectKey, entry: Entry | None) -> str:
        """The same for an entry, which need not be the cached one any more."""
        return self._endpoints(key, entry).of(key.kind)

    def called_by(self, account: ObjectKey) -> Endpoints:
        """The clouds that the account calls; empty if there is no such account."""
        told = self._entries.get(account)
        if told is None:
            return NOWHERE
        base_url, inference_url = (own or default for own, default in zip(told.urls, self.urls, strict=True))
        return called(base_url, inference_url)

    def default_account(self, namespace: str) -> ObjectKey | None:
        """The account of objects in this namespace that do not name one; None without a default."""
        return self._users.default(namespace)

    def keys(self, kind: str | None = None) -> Iterator[ObjectKey]:
        return iter([key for key in self._entries if kind is None or key.kind == kind])

    def items(self) -> Iterator[tuple[ObjectKey, Entry]]:
        return iter(list(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)

    def _relate(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        """Update references, and call back the objects that wait for this one.

        An object that appears calls back only those that are not settled: at a start every object has a pass of its
        own.
        """
        former, present = _references(before), _references(after)
        if former != present:
            self._refer(key, former, present)
        if _offered(before) != _offered(after):
            for other in self._by_reference.of(key):
                if before is not None or not self._entries[other].settled:
                    self.on_related(other)

    def _summed(self, commitments: Commitments, account: ObjectKey) -> dict[str, Commitment]:
        sums = dict(commitments.naming(account))
        if account.name == DEFAULT_NAME:
            for namespace, total in commitments.defaulting(account.namespace):
                if self._users.default(namespace) == account:
                    sums[namespace] = sums.get(namespace, NOTHING) + total
        return sums

    def _commit(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        former, present = _shares(before), _shares(after)
        for sums, was, is_now in zip((self._commitments, self._reserved), former, present, strict=True):
            sums.move(key.namespace, was, is_now)
        (account_before, had), (account_after, has) = former[0], present[0]
        stays = has if account_before == account_after else NOTHING
        lapsed, freed = had.billed - stays.billed, not stays.covers(had)
        account = self.account_meant(key, before) if before is not None and (freed or lapsed > 0) else None
        if account is not None and lapsed > 0:
            self.on_lapsed(key, account, lapsed)
        if account is not None and freed:
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

    def _in_cloud_of(self, key: ObjectKey, entry: Entry | None, holders: frozenset[ObjectKey]) -> frozenset[ObjectKey]:
        """The others of these objects whose resources are in this one's cloud, or may be: an id is one of a cloud.

        What uses the same account or is in the same namespace always counts: nobody can hide a resource from its own
        namespace with another URL.
        """
        others = holders - {key}
        if not others:
            return others
        account, endpoints = self._account(key, entry), self._endpoints(key, entry)

        def counts(other: ObjectKey) -> bool:
            theirs = self._entries.get(other)
            if other.namespace == key.namespace or self._account(other, theirs) == account:
                return True
            mine, its_own = endpoints.of(other.kind), self.endpoint_meant(other, theirs)
            return mine == its_own or not (mine and its_own)

        return frozenset(filter(counts, others))

    def _account(self, key: ObjectKey, entry: Entry | None) -> ObjectKey | None:
        return None if entry is None else self.account_meant(key, entry)

    def _endpoints(self, key: ObjectKey, entry: Entry | None) -> Endpoints:
        """The clouds of the object's account; what the object records or claims stays in the one where it was."""
        account = self._account(key, entry)
        endpoints = self.called_by(account) if account is not None else NOWHERE
        known = (entry.endpoint if entry is not None else "") or self._claims.get(key, _NO_CLAIM)[1]
        return endpoints.but(key.kind, known) if known else endpoints

    def _record(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        former, present = _recorded(before), _recorded(after)
        for cloud_id in former ^ present:
            was, is_now = (cloud_id if cloud_id in ids else None for ids in (former, present))
            self._by_cloud_id.move(key, was, is_now)
            holders = self._by_cloud_id.of(cloud_id)
            others = self._in_cloud_of(key, before if was else after, holders)
            for holder in (others | holders & {key}) if others else ():
                self.on_shared(holder)

    def _index(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        if not unchanged(_NAMED, before, after):
            names = zip((self._by_token, self._by_uid, self._by_owner), _names(before), _names(after), strict=True)
            for index, gave, gives in names:
                index.move(key, gave, gives)
        if not unchanged(_RECORDED, before, after):
            self._record(key, before, after)
        if before is not None and before.cloud_id not in ("", after.cloud_id if after is not None else ""):
            self.on_left(key, before)
        if not unchanged(_ACCOUNTED, before, after):
            (left, sought), (joined, seeks) = _accounts(before), _accounts(after)
            self._users.move(key, left, joined)
            self._searching.move(key, sought, seeks)
        if not unchanged(_RELATED, before, after):
            self._relate(key, before, after)
        self.on_changed(key, before, after)
        if key.kind in self.priced and not unchanged(_COMMITTED, before, after):
            self._commit(key, before, after)
        was = None if before is None else before.owned
        is_now = None if after is None else after.owned
        begins_to_go = before is not None and after is not None and before.deleting != after.deleting
        if was != is_now or begins_to_go:
            for owner in {one.owner for one in (was, is_now) if one is not None}:
                self.on_owned(owner)


def _shares(entry: Entry | None) -> tuple[Share, Share]:
    """What the object has in its account, and the part of it that only its intent tells."""
    return _NO_SHARES if entry is None else ((entry.account, entry.committed), (entry.account, entry.reserved))


def _recorded(entry: Entry | None) -> frozenset[str]:
    """The ids of everything that the object has in the cloud, former resources included."""
    if entry is None or not (entry.cloud_id or entry.aside):
        return _NO_IDS
    return frozenset(filter(None, (entry.cloud_id, *entry.aside)))


def _names(entry: Entry | None) -> tuple[str | None, str | None, str | None]:
    """The entry's index names: token, the part of its UID that names carry, and its owner's UID."""
    if entry is None:
        return None, None, None
    owner = entry.owned.owner_uid if entry.owned is not None else None
    return entry.token or None, uid_part(entry.uid), owner


def _references(entry: Entry | None) -> References:
    return ((), ()) if entry is None else (entry.named, entry.held)


def _offered(entry: Entry | None) -> tuple[bool, str] | None:
    """What objects that refer to this one wait for: whether it is being deleted, and once ready its cloud id."""
    return None if entry is None else (entry.deleting, entry.cloud_id if entry.ready else "")


def _accounts(entry: Entry | None) -> tuple[Reference | None, Reference | None]:
    """The account that the object uses, and the one that it searches in; None for either if there is none."""
    if entry is None:
        return None, None
    return None if entry.over else entry.account, entry.account if entry.searching else None
