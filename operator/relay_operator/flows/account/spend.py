"""What was spent this month, and by whom. Pure."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

from relay_operator.api.cloudaccount_status import MAX_SPENDERS, Spend, Spent
from relay_operator.engine.fit_schema import fit_schema
from relay_wire.base import RESOURCE_ID
from relay_wire.billing import CurrentUsage

UNATTRIBUTED: Final = "unattributed"
"""Stands for ids without a known object; among cost centres also for objects without one."""
OTHERS: Final = "others"
"""Stands for the owners that spent least, if there are too many to list."""
_CENTERS_EACH = 16
"""The most cost centres of one namespace: whoever may label objects must not fill the list for everybody."""
_DRIFT_CENTS = 100
_DRIFT_SHARE = 0.01
_NOT_BEFORE = timedelta(minutes=15)
_AT_LATEST = timedelta(hours=1)


class Owner(NamedTuple):
    """Who something belongs to; the cost centre is empty if there is none."""

    namespace: str
    cost_center: str


@dataclass(frozen=True, slots=True)
class Month:
    """What an account's organization spent this month."""

    spend: Spend
    shares: tuple[tuple[str, str, int], ...]
    """(namespace, cost centre, cents) of each share; their number is bounded too."""


NameT = TypeVar("NameT", bound=Hashable)


def month_of(usage: CurrentUsage, owners: Mapping[str, Owner], now: datetime) -> Month:
    """The month by owner; what the breakdown lacks is unattributed, as are ids without an entry in `owners`."""
    spent, named = Counter[Owner](), Counter[Owner]()
    for cloud_id, cents in cents_by_id(usage).items():
        owner = owners.get(cloud_id)
        if owner is not None and cents > 0:
            spent[owner] += cents
    for owner, cents in spent.items():  # owners are fewer than ids
        named[owner._replace(cost_center=owner.cost_center or UNATTRIBUTED)] += cents
    unattributed = max(usage.usage_cents - spent.total(), 0)
    fair = _fair(named)
    spend = Spend(
        since=now.replace(day=1, hour=0, minute=0, second=0, microsecond=0),
        observed_time=now.replace(microsecond=0),
        by_namespace=_told(((owner.namespace, cents) for owner, cents in fair.items()), unattributed),
        by_cost_center=_told(((owner.cost_center, cents) for owner, cents in fair.items()), unattributed),
    )
    shares = Counter(_largest(fair, MAX_SPENDERS - 1, Owner(OTHERS, OTHERS)))
    if unattributed:
        shares[Owner(UNATTRIBUTED, UNATTRIBUTED)] += unattributed
    return Month(spend, tuple((*owner, cents) for owner, cents in shares.items()))


def cents_by_id(usage: CurrentUsage) -> Counter[str]:
    """The cents of each resource in the breakdown, over all its lines."""
    cents = Counter[str]()
    for item in usage.breakdown or ():
        if item.resource_id:
            cents[item.resource_id] += max(item.cents or 0, 0)
    return cents


def names_by_id(usage: CurrentUsage) -> dict[str, str]:
    """The name of each resource in the breakdown, the last one told; empty if none is."""
    names = dict[str, str]()
    for item in usage.breakdown or ():
        cloud_id = item.resource_id
        if cloud_id and (item.name or cloud_id not in names) and RESOURCE_ID.fullmatch(cloud_id):
            names[cloud_id] = item.name or ""
    return names


def worth_telling(before: Spend | None, after: Spend | None) -> bool:
    """Whether the change is worth writing: at once in a new month, later if much grew, finally in any case."""
    if before is None or after is None:
        return before is not after
    known, found = _figures(before), _figures(after)
    age = after.observed_time - before.observed_time
    if before.since != after.since:
        return True
    if not known or age >= _AT_LATEST:
        return known != found
    return age >= _NOT_BEFORE and any(
        abs(found.get(name, 0) - known.get(name, 0)) > max(_DRIFT_CENTS, _DRIFT_SHARE * known.get(name, 0))
        for name in known.keys() | found.keys()
    )


def _figures(spend: Spend) -> dict[tuple[str, str], int]:
    lists = {"namespace": spend.by_namespace, "cost centre": spend.by_cost_center}
    return {(by, one.name): one.cents for by, told in lists.items() for one in told}


def _fair(spent: Mapping[Owner, int]) -> dict[Owner, int]:
    """The same cents, with at most `_CENTERS_EACH` cost centres in each namespace."""
    by_namespace: defaultdict[str, dict[Owner, int]] = defaultdict(dict)
    for owner, cents in spent.items():
        by_namespace[owner.namespace][owner] = cents
    return {
        owner: cents
        for namespace, own in by_namespace.items()
        for owner, cents in _largest(own, _CENTERS_EACH, Owner(namespace, OTHERS)).items()
    }


def _told(parts: Iterable[tuple[str, int]], unattributed: int) -> list[Spent]:
    sums = Counter[str]()
    for name, cents in parts:
        sums[name] += cents
    # Always list what is unattributed, so that the list adds up.
    known = Counter(_largest(sums, MAX_SPENDERS - 1, OTHERS))
    if unattributed:
        known[UNATTRIBUTED] += unattributed
    told = ({"name": name, "cents": cents} for name, cents in sorted(known.items()))
    return [Spent.model_validate(fit_schema(Spent, one)) for one in told]


def _largest(spent: Mapping[NameT, int], most: int, rest: NameT) -> dict[NameT, int]:
    """The largest `most` entries; the others are added up under `rest`, which counts as one."""
    if len(spent) <= most:
        return dict(spent)

    def rank(name: NameT) -> tuple[int, Any]:
        return -spent[name], name

    ranked = sorted(spent, key=rank)
    kept = Counter({name: spent[name] for name in ranked[: most - 1]})
    kept[rest] += sum(spent[name] for name in ranked[most - 1 :])
    return dict(kept)
