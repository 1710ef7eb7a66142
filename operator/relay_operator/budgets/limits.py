"""Whether a need fits into an account's budget. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.engine.commitment import Commitment


@dataclass(frozen=True, slots=True)
class Funds:
    """What the last look at the account showed of its organization; None if that could not be read."""

    budget: AccountBudget | None
    """The account's budget at that time; after a change, the account needs another look."""
    available_cents: int | None
    burn_cents: int | None
    """What the organization pays per hour."""
    ours: Mapping[str, int]
    """What objects showed as being paid before the look, by namespace, as far as it counts for the account."""

    def others(self, lapsed: Mapping[str, int]) -> int | None:
        """What the organization may pay per hour for resources outside this cluster.

        `lapsed`, by namespace: what objects have ceased to show since. It may have ended before the look, and others
        may have been paid in its place.
        """
        if self.burn_cents is None:
            return None
        ours = sum(max(cents - lapsed.get(namespace, 0), 0) for namespace, cents in self.ours.items())
        return max(self.burn_cents - ours, 0)


def of_namespace(budget: AccountBudget | None) -> NamespaceBudget | None:
    """The limits of each namespace."""
    return budget.per_namespace if isinstance(budget, SharedBudget) else None


def can_fit(budget: AccountBudget, need: Commitment) -> bool:
    """Whether the need would fit into an empty budget; no object waits behind a need that never fits."""
    each = of_namespace(budget)
    burns = [budget.max_burn_per_hour_cents, each.max_burn_per_hour_cents if each is not None else None]
    gpus = each.max_gpus if each is not None else None
    return all(most is None or need.cents <= most for most in burns) and (gpus is None or need.gpus <= gpus)


def beyond_namespace(limit: NamespaceBudget, others: Commitment, need: Commitment) -> str:
    """Which limits of the namespace the need exceeds, and by how much; empty if none. `others` excludes this object."""
    if limit.max_gpus is not None and need.gpus and others.gpus + need.gpus > limit.max_gpus:
        excess = others.gpus + need.gpus - limit.max_gpus
        return (
            f"it needs {need.gpus} GPU(s), and the namespace may have {limit.max_gpus} of the account, of which "
            f"{others.gpus} are taken: {excess} too many"
        )
    if limit.max_burn_per_hour_cents is None:
        return ""
    if others.unpriced:
        return f"the price of {others.unpriced} other object(s) of the namespace is not known yet"
    return _beyond("the namespace", limit.max_burn_per_hour_cents, others.cents, need)


def counted(limit: NamespaceBudget | None, total: Commitment) -> Commitment:
    """The part of a namespace's commitments that counts for the account: at most its limit, whatever its objects show.

    Thus a user who may write annotations and statuses there cannot take room from other namespaces. A resource without
    a known price counts in the organization's burn instead.
    """
    most = None if limit is None else limit.max_burn_per_hour_cents
    if most is None:
        return total
    return Commitment(min(total.cents, most), total.gpus, min(total.billed, most))


def beyond_account(
    budget: AccountBudget, funds: Funds | None, lapsed: Mapping[str, int], ours: Commitment, need: Commitment
) -> str:
    """Which limits of the account would be exceeded, and by how much; an unknown value allows nothing.

    `ours` is the sum over the other objects, `lapsed` that of `Funds.others`.
    """
    if budget.min_available_cents is None and budget.max_burn_per_hour_cents is None:
        return ""
    if funds is None or funds.budget != budget:
        return "the account's balance is not known yet"
    if budget.min_available_cents is not None:
        if funds.available_cents is None:
            return "the account's balance cannot be read, so that minAvailableCents cannot be kept"
        if funds.available_cents < budget.min_available_cents:
            missing = budget.min_available_cents - funds.available_cents
            return f"{funds.available_cents} cents are available, {missing} less than the account's minAvailableCents"
    if budget.max_burn_per_hour_cents is None:
        return ""
    others = funds.others(lapsed)
    if others is None:
        return "the account's usage cannot be read, so that maxBurnPerHourCents cannot be kept"
    return _beyond("the account", budget.max_burn_per_hour_cents, ours.cents + others, need)


def _beyond(whose: str, limit: int, taken: int, need: Commitment) -> str:
    excess = taken + need.cents - limit
    if excess <= 0:
        return ""
    return (
        f"it costs {need.cents} cents/h, and of the {limit} cents/h that {whose} may pay, {taken} are taken: "
        f"{excess} too much"
    )
