"""Owners of cloud ids: found by names, kept for this month and the last. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, Final, TypeAlias

import orjson
from pydantic import Field, ValidationError

from relay_client.crowding import is_crowded
from relay_operator.api.meta import Model, ObjectKey
from relay_operator.engine.identity import gave, of_here, uids_in
from relay_operator.flows.account.spend import Owner
from relay_wire.base import ResourceId

MOST_BYTES: Final = 900 * 1024
"""The longest text in a ConfigMap, which can hold a MiB."""
MOST_VALUES: Final = 21_000
"""The most brackets and commas of ids and owners in a text: an id has one of them, an owner four more."""
_OF_AN_OWNER: Final = 4
_OF_NO_OWNER: Final = 6
"""Those of the text without owners."""

_Word: TypeAlias = Annotated[str, Field(max_length=63)]


@dataclass(frozen=True, slots=True)
class Holder:
    """An object that records an id, or recorded it."""

    key: ObjectKey
    uid: str
    cost_center: str

    @property
    def owner(self) -> Owner:
        return Owner(self.key.namespace, self.cost_center)


@dataclass(frozen=True, slots=True)
class Owners:
    """The owners of one organization's ids."""

    organization: str
    month: str
    """The month, as `2026-11`."""
    current: Mapping[str, Owner] = field(default_factory=dict)
    """Owners of ids in this month's usage."""
    last: Mapping[str, Owner] = field(default_factory=dict)

    def at(self, organization: str, now: datetime) -> "Owners":
        """The same owners, moved on to the current month; empty for another organization, whose ids are different.

        They stay in the next month if the clock went back a little, or another replica's is behind.
        """
        month, before = _month(now), _month(now.replace(day=1) - timedelta(days=1))
        after = _month(now.replace(day=28) + timedelta(days=4))
        if self.organization == organization and self.month in {month, after}:
            return self
        follows = (self.organization, self.month) == (organization, before)
        return Owners(organization, month, last=self.current if follows else {})

    def with_those(self, found: Mapping[str, Owner]) -> "Owners":
        merged, alike = {**self.current, **found}, dict[Owner, Owner]()
        return replace(self, current={one: alike.setdefault(owner, owner) for one, owner in merged.items()})

    @property
    def values(self) -> int:
        """How much of `MOST_VALUES` they take."""
        return sum(len(ids) + _OF_AN_OWNER * len(set(ids.values())) for ids in (self.current, self.last))

    def fitting(
        self, cents: Mapping[str, int], most_bytes: int = MOST_BYTES, most_values: int = MOST_VALUES
    ) -> "Owners":
        """As many owners as fit: drops the last month first, then the ids that cost least, of these the newest."""
        if self.values <= most_values and _size(self) <= most_bytes:
            return self
        empty = Owners(self.organization, self.month)
        dearest = sorted(self.current, key=lambda one: -cents.get(one, 0))
        room = most_bytes - _size(empty) + 1  # no comma before the first id
        return replace(empty, current=_first(self.current, dearest, room, most_values))

    def text(self) -> str:
        """The text for the ConfigMap; equal owners give equal texts."""
        kept = {
            "organization": self.organization,
            "month": self.month,
            "current": _grouped(self.current),
            "last": _grouped(self.last),
        }
        return orjson.dumps(kept).decode()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What identifies the owner of a resource."""

    name: str
    """The resource's name in the cloud."""
    living: Sequence[Holder]
    """Objects that record its id, or gave it its name."""
    departed: Sequence[Holder]
    """Objects that recorded its id and no longer do."""
    known: Owner | None
    """Its owner in this month so far."""
    before: Owner | None
    """Its owner in the last month."""


def owner_of(evidence: Evidence, installation: str, *, adoptable: bool) -> Owner | None:
    """The owner of the resource; None if it cannot be determined.

    If its name shows the object that gave it, that one is the owner, whatever statuses say. Statuses can be forged, so
    a resource with another name, or an adopted one, stays with the first owner found in a month. `adoptable`: an object
    may have adopted a resource that carries another object's name.
    """
    name, known = evidence.name, evidence.known
    for holder in (*evidence.living, *evidence.departed):
        if gave(holder.key, holder.uid, installation, name):
            return holder.owner
    given, uids = of_here(name, installation), uids_in(name)

    def may_have_it(holder: Holder) -> bool:
        # An object restored from a backup gave the name with its former UID.
        return not given or adoptable or any(gave(holder.key, uid, installation, name) for uid in uids)

    claims = [
        [holder.owner for holder in those if may_have_it(holder)] for those in (evidence.living, evidence.departed)
    ]
    if known is not None:
        return next((owner for owners in claims for owner in owners if owner.namespace == known.namespace), known)
    first = next((owners for owners in claims if owners), [])
    return first[0] if len({owner.namespace for owner in first}) == 1 else evidence.before


def read(text: str, namespace: str) -> Owners | None:
    """Parse a ConfigMap's text; None if it is malformed, or has more values than `MOST_VALUES`.

    With a namespace, the account is that namespace's, and so is everything it pays for: whoever edits the ConfigMap
    cannot charge another namespace.
    """
    if is_crowded(text.encode(), MOST_VALUES + _OF_NO_OWNER):
        return None
    try:
        kept = _Kept.model_validate_json(text)
    except ValidationError:
        return None
    current, last = (_flat(groups, namespace) for groups in (kept.current, kept.last))
    return Owners(kept.organization, kept.month, current, last)


class _Group(Model):
    """The ids of one owner, grouped because owners are few."""

    namespace: _Word
    cost_center: _Word
    ids: Annotated[list[ResourceId], Field(fail_fast=True)]


class _Kept(Model):
    organization: str
    month: str
    current: Annotated[list[_Group], Field(fail_fast=True)]
    last: Annotated[list[_Group], Field(fail_fast=True)]


_Written: TypeAlias = dict[str, str | list[str]]


def _group(owner: Owner, ids: list[str]) -> _Written:
    """A group as it is written."""
    return {"namespace": owner.namespace, "costCenter": owner.cost_center, "ids": ids}


def _grouped(owners: Mapping[str, Owner]) -> list[_Written]:
    groups: dict[Owner, list[str]] = {}
    for cloud_id in sorted(owners):
        groups.setdefault(owners[cloud_id], []).append(cloud_id)
    return [_group(one, groups[one]) for one in sorted(groups)]


def _flat(groups: Iterable[_Group], namespace: str) -> dict[str, Owner]:
    found: dict[str, Owner] = {}
    for group in groups:
        if namespace in ("", group.namespace):
            found |= dict.fromkeys(group.ids, Owner(group.namespace, group.cost_center))
    return found


def _size(owners: Owners) -> int:
    """The bytes of the text, in which a comma comes before each id and each group but the first."""
    size = len(replace(owners, current={}, last={}).text().encode())
    for ids in (owners.current, owners.last):
        size += sum(map(_bytes_of_id, ids)) + sum(map(_bytes_of_owner, set(ids.values()))) - bool(ids)
    return size


def _bytes_of_id(cloud_id: str) -> int:
    return len(cloud_id) + len('"",')


def _bytes_of_owner(owner: Owner) -> int:
    return len(orjson.dumps(_group(owner, [])))


def _first(owners: Mapping[str, Owner], ids: Iterable[str], room: int, values: int) -> dict[str, Owner]:
    """The first of these ids that have room, and their owners."""
    kept, known = dict[str, Owner](), set[Owner]()
    for cloud_id in ids:
        owner = owners[cloud_id]
        if owner not in known:
            known.add(owner)
            room, values = room - _bytes_of_owner(owner), values - _OF_AN_OWNER
        room, values = room - _bytes_of_id(cloud_id), values - 1
        if min(room, values) < 0:
            break
        kept[cloud_id] = owner
    return kept


def _month(moment: datetime) -> str:
    return moment.strftime("%Y-%m")
