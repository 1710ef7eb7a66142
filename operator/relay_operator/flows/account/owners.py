"""Owners of cloud ids: found by names, kept for this month and the last. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, Final, TypeAlias

from pydantic import Field, ValidationError

from relay_operator.api.meta import Model, ObjectKey
from relay_operator.engine.identity import gave, of_here, uids_in
from relay_operator.flows.account.spend import Owner

MOST_BYTES: Final = 900 * 1024
"""The longest text in a ConfigMap, which can hold a MiB."""

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
        return replace(self, current={**self.current, **found})

    def fitting(self, cents: Mapping[str, int], most: int = MOST_BYTES) -> "Owners":
        """As many owners as fit: drops the last month first, then the ids that cost least."""
        owners = self if _size(self) <= most else replace(self, last={})
        while owners.current and (size := _size(owners)) > most:
            number = len(owners.current)
            dearest = sorted(owners.current, key=lambda one: (-cents.get(one, 0), one))
            kept = dearest[: min(number * most // size, number - 1)]
            owners = replace(owners, current={one: owners.current[one] for one in kept})
        return owners

    def text(self) -> str:
        """The text for the ConfigMap; equal owners give equal texts."""
        kept = _Kept(
            organization=self.organization,
            month=self.month,
            current=_grouped(self.current),
            last=_grouped(self.last),
        )
        return kept.model_dump_json()


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
    """Parse a ConfigMap's text; None if it is malformed.

    With a namespace, the account is that namespace's, and so is everything it pays for: whoever edits the ConfigMap
    cannot charge another namespace.
    """
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
    ids: list[str]


class _Kept(Model):
    organization: str
    month: str
    current: list[_Group]
    last: list[_Group]


def _grouped(owners: Mapping[str, Owner]) -> list[_Group]:
    groups: dict[Owner, list[str]] = {}
    for cloud_id, owner in sorted(owners.items()):
        groups.setdefault(owner, []).append(cloud_id)
    return [_Group(namespace=one.namespace, cost_center=one.cost_center, ids=groups[one]) for one in sorted(groups)]


def _flat(groups: Iterable[_Group], namespace: str) -> dict[str, Owner]:
    own = (group for group in groups if namespace in ("", group.namespace))
    return {cloud_id: Owner(group.namespace, group.cost_center) for group in own for cloud_id in group.ids}


def _size(owners: Owners) -> int:
    return len(owners.text().encode(errors="replace"))


def _month(moment: datetime) -> str:
    return moment.strftime("%Y-%m")
