"""The objects of ours that an object refers to, and those that refer to it, from the cache. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.conditions import some
from relay_operator.engine.entry import Entry


@dataclass(frozen=True, slots=True)
class Links:
    """What is known of the objects that one refers to."""

    ids: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Cloud ids of those that can be used."""
    unmet: Reason | None = None
    """Why one that is needed cannot be used."""
    message: str = ""


def links(cache: Cache, key: ObjectKey, wanted: Iterable[ObjectKey], given: frozenset[tuple[str, str]]) -> Links:
    """What is known of the `wanted` objects; one whose kind and name are in `given` is not waited for."""
    ids, unmet = dict[ObjectKey, str](), list[tuple[Reason, str]]()
    for other in wanted:
        problem = _problem(cache, key, other)
        if problem is None:
            ids[other] = cache.cloud_id_of(other)
        elif (other.kind, other.name) not in given:
            unmet.append(problem)
    reason, message = unmet[0] if unmet else (None, "")
    return Links(ids, reason, message)


def _problem(cache: Cache, key: ObjectKey, other: ObjectKey) -> tuple[Reason, str] | None:
    entry, who = cache.get(other), f"{other.kind} {other.name}"
    if entry is None:
        return Reason.REFERENCE_NOT_FOUND, f"there is no {who} in the namespace {other.namespace}"
    if entry.deleting:
        return Reason.REFERENCE_DELETING, f"{who} is being deleted"
    mine, its = cache.account_of(key), cache.account_of(other)
    if mine != its:
        return Reason.REFERENCE_OTHER_ACCOUNT, f"{who} is made with {its}, and this object with {mine}"
    if not (entry.ready and entry.cloud_id):
        return Reason.REFERENCE_NOT_READY, f"{who} is not Ready yet"
    return None


def users(cache: Cache, key: ObjectKey) -> str:
    """The message that names the objects that use this one; empty if there are none."""
    holders = cache.holders(key)
    return f"in use by {_named(holders)}: delete what uses it first" if holders else ""


def made_of(cache: Cache, key: ObjectKey) -> str:
    """The message that names what is being made from it; empty if nothing is, or if nothing makes progress."""
    made = [other for other in cache.holders(key) if _goes_on(cache.get(other))]
    return f"in use by {_named(made)}, being made of it: it is stopped or ended after that" if made else ""


def _goes_on(entry: Entry | None) -> bool:
    return entry is not None and not (entry.deleting or entry.paused or entry.reason == Reason.KIND_DISABLED)


def _named(holders: Collection[ObjectKey]) -> str:
    return some(sorted(f"{other.kind} {other.name}" for other in holders))
