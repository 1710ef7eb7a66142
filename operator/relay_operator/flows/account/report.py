"""The status of an account. Pure; a drifting balance is not worth a write."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from relay_operator.api.cloudaccount import AnyAccount
from relay_operator.api.cloudaccount_status import AccountStatus, InUse, Ownerless, Spend, WebhookStatus
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import RECONCILE_AT
from relay_operator.engine import conditions
from relay_operator.engine.account import AccountReady, AccountState, below_floor
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.fit_schema import fit_schema
from relay_operator.engine.leftover import Leftover
from relay_operator.engine.report import MAY_COME, held_by, unrecorded
from relay_operator.flows.account import spend
from relay_wire.account import Whoami
from relay_wire.billing import Balance, CurrentUsage

LOW_RUNWAY_HOURS = 24
_LONGEST_ID = 253
_DRIFT_CENTS = 100
_DRIFT_SHARE = 0.02
_DRIFTING = ("balance_cents", "available_cents", "min_deposit_cents", "runway_hours", "spend")


@dataclass(frozen=True, slots=True)
class OrganizationSeen:
    """The result of a look at the cloud; None for what the key may not read or the cloud did not answer."""

    balance: Balance | None = None
    usage: CurrentUsage | None = None
    webhook: WebhookStatus | None = None
    webhook_trouble: str = ""
    """Why the wanted subscription does not exist; else empty."""
    deliveries_missing: str | None = ""
    """Why deliveries count as missing, empty if they arrive; None without evidence: the last verdict stays then."""
    notes: tuple[str, ...] = ()
    """What else a person should know, one sentence each."""
    passing: tuple[str, ...] = ()
    """What failed in a way that may pass by itself, likewise."""
    spend: Spend | None = None
    retry_after: float | None = None
    """Seconds after which the cloud wants to be asked again for that."""


@dataclass(frozen=True, slots=True)
class AccountFinding:
    """The findings of one pass over an account."""

    account: AnyAccount
    state: AccountState
    who: Whoami | None
    in_use: InUse
    now: datetime
    failures: int = 0
    """Consecutive attempts that the cloud did not answer."""
    unavailable_after: int = 3
    seen: OrganizationSeen | None = None
    """None if the cloud was not asked this time; status then keeps what it says about the cloud."""
    glimpse: OrganizationSeen | None = None
    """The balance alone, if nothing else was asked."""
    all_going: bool = False
    """Whether all objects that depend on it are being deleted."""
    ending_late: bool = False
    """Whether nothing but a late create still needs an account that is being deleted."""
    unheld: str = ""
    """Why the Secret of an account that ends cannot be released; else empty."""
    unclaimed: tuple[Ownerless, ...] = ()
    orphans: tuple[Ownerless, ...] = ()
    kept: tuple[Ownerless, ...] = ()
    deaf: str = ""
    """Why there is no webhook subscription, if the cloud did not answer; else empty."""
    unrecorded: str = ""
    """Why the last three fields, or their former values, cannot be recorded; empty if they can."""
    outdated: bool = False
    """Whether a CRD is older than this release."""


def new_status(finding: AccountFinding) -> AccountStatus:
    """The status after the pass."""
    metadata, before = finding.account.metadata, finding.account.status
    changed: dict[str, object] = {"observed_generation": metadata.generation}
    for name in ("unclaimed", "orphans", "kept"):
        changed[name] = list(getattr(finding, name)) or None
    if isinstance(finding.state, AccountReady) and finding.who is not None:
        organization = finding.who.organization_id
        # A truncated id is another id, so leave out one that does not fit.
        changed["organization_id"] = organization if len(organization) <= _LONGEST_ID else None
        if not finding.outdated or before.endpoint:  # an older CRD drops it, and each pass would write it again
            changed["endpoint"] = finding.state.endpoints.management or None
        changed["organization_name"] = finding.who.organization_name or None
        changed["scopes"] = finding.who.scopes or None
    if finding.seen is not None:
        changed["reconcile_at"] = metadata.echo(RECONCILE_AT)  # only a look does what it requests
        changed["in_use"] = finding.in_use
        changed["webhook"] = finding.seen.webhook
    money = finding.seen or finding.glimpse
    changed |= _money(money) if money is not None else {}
    after = before.model_copy(update=fit_schema(AccountStatus, changed))
    if money is not None and not _worth_telling(before, after):
        after = after.model_copy(update={name: getattr(before, name) for name in _DRIFTING})
    wanted = list(_conditions(before, after, finding))
    written = conditions.written(before.conditions, wanted, metadata.generation, finding.now)
    return after.model_copy(update={"conditions": written})


def _money(seen: OrganizationSeen) -> dict[str, object]:
    changed: dict[str, object] = {}
    if seen.balance is not None:
        changed["balance_cents"] = seen.balance.balance_cents
        changed["available_cents"] = seen.balance.available_cents
        changed["min_deposit_cents"] = seen.balance.min_deposit_cents
        changed["monthly_spend_limit_cents"] = seen.balance.monthly_spend_limit_cents
    if seen.spend is not None:
        changed["spend"] = seen.spend
    if seen.usage is not None:
        hours = seen.usage.projected_runway_hours
        finite = hours is not None and math.isfinite(hours)
        changed["burn_per_hour_cents"] = max(seen.usage.burn_per_hour_cents or 0, 0)
        changed["auto_stop_floor_cents"] = seen.usage.auto_stop_floor_cents
        changed["runway_hours"] = max(int(hours), 0) if finite and hours is not None else None
    return changed


def _worth_telling(before: AccountStatus, after: AccountStatus) -> bool:
    """Whether the money changed by more than running workloads change it from poll to poll."""
    if before.burn_per_hour_cents != after.burn_per_hour_cents or _is_low(before) != _is_low(after):
        return True
    if _is_below_floor(before) != _is_below_floor(after):
        return True
    if spend.worth_telling(before.spend, after.spend):
        return True
    if before.available_cents is None or after.available_cents is None:
        return before.available_cents is not after.available_cents
    moved = abs(after.available_cents - before.available_cents)
    return moved > max(_DRIFT_CENTS, _DRIFT_SHARE * abs(before.available_cents))


def _is_low(status: AccountStatus) -> bool:
    return _is_below_floor(status) or (status.runway_hours is not None and status.runway_hours < LOW_RUNWAY_HOURS)


def _is_below_floor(status: AccountStatus) -> bool:
    return below_floor(status.available_cents, status.auto_stop_floor_cents)


def _low_funds(status: AccountStatus) -> str:
    if _is_below_floor(status):
        floor = f", below the floor of {status.auto_stop_floor_cents}" if status.auto_stop_floor_cents else ""
        return f"the available balance is {status.available_cents} cents{floor}: add funds, or nothing starts"
    return f"the balance lasts for {status.runway_hours} hours at {status.burn_per_hour_cents} cents an hour"


def _conditions(before: AccountStatus, after: AccountStatus, finding: AccountFinding) -> Iterator[Wanted]:
    yield from _usable(before, finding)
    if finding.account.metadata.held:
        yield held_by(finding.account.metadata, watched=True)
    if finding.unrecorded:
        yield unrecorded(finding.unrecorded)
    if _is_low(after):
        yield Wanted(ConditionType.FUNDS_LOW, "True", Reason.RUNWAY_SHORT, _low_funds(after))
    yield from _webhook(before, finding)


def _usable(before: AccountStatus, finding: AccountFinding) -> Iterator[Wanted]:
    """`Ready` always; `Reconciling` while a Secret may still appear, `Stalled` while a person must act."""
    state, deleting = finding.state, finding.account.metadata.deletion_timestamp is not None
    depending = list(_counted(finding.in_use)) if deleting else []
    if depending:
        todo = "they are being deleted" if finding.all_going else "delete them first"
        message = f"it is kept while objects depend on it: {', '.join(depending)}; {todo}"
        yield Wanted(ConditionType.STALLED, "True", Reason.IN_USE, message)
    elif finding.unheld:
        yield Wanted(ConditionType.STALLED, "True", Reason.DELETING, finding.unheld)
    elif deleting and finding.ending_late:
        message = "kept until the late creates in status.unclaimed have ended, for a day at most"
        yield Wanted(ConditionType.RECONCILING, "True", Reason.DELETING, message)
    if isinstance(state, AccountReady):
        ready = conditions.find(before.conditions, ConditionType.READY)
        keeps = finding.seen is None and ready is not None and ready.status == "True"
        notes = finding.seen.notes if finding.seen is not None else ()
        message = ready.message if keeps and ready is not None else "; ".join(("the key works", *notes))
        yield Wanted(ConditionType.READY, "True", Reason.AVAILABLE, message)
        if finding.seen is None and finding.glimpse is None and not deleting:
            yield from _silence(before)
        return
    silent = state.reason is Reason.CLOUD_UNAVAILABLE
    ready = conditions.find(before.conditions, ConditionType.READY)
    if silent and ready is not None:
        yield conditions.as_it_was(ready)
    else:
        yield Wanted(ConditionType.READY, "Unknown" if silent else "False", state.reason, state.message)
    if deleting:
        return
    if silent and finding.failures < finding.unavailable_after:
        yield from _silence(before)
        return
    waits = state.reason in MAY_COME and not conditions.waited_out(before.conditions, state.reason, finding.now)
    trouble = ConditionType.RECONCILING if waits else ConditionType.STALLED
    yield Wanted(trouble, "True", state.reason, state.message)


def _silence(before: AccountStatus) -> Iterator[Wanted]:
    """What status says of a silent cloud, which holds until it answers: another process has to find it silent anew."""
    stalled = conditions.find(before.conditions, ConditionType.STALLED)
    if stalled is not None and stalled.reason == Reason.CLOUD_UNAVAILABLE:
        yield conditions.as_it_was(stalled)


def _counted(used: InUse) -> Iterator[str]:
    """Each kind of objects that depend on the account, with their number."""
    for name, field in type(used).model_fields.items():
        if count := getattr(used, name):
            yield f"{count} {(field.description or name).rstrip('.')}"


def _webhook(before: AccountStatus, finding: AccountFinding) -> Iterator[Wanted]:
    known = conditions.find(before.conditions, ConditionType.WEBHOOK_READY)
    if finding.seen is None:
        if known is not None:
            yield conditions.as_it_was(known)
        elif finding.deaf:
            yield Wanted(ConditionType.WEBHOOK_READY, "False", Reason.WEBHOOK_REFUSED, finding.deaf)
    elif finding.seen.webhook_trouble:
        yield Wanted(ConditionType.WEBHOOK_READY, "False", Reason.WEBHOOK_REFUSED, finding.seen.webhook_trouble)
    elif finding.seen.deliveries_missing:
        yield Wanted(ConditionType.WEBHOOK_READY, "False", Reason.DELIVERIES_MISSING, finding.seen.deliveries_missing)
    elif finding.seen.deliveries_missing is None and known is not None and known.reason == Reason.DELIVERIES_MISSING:
        yield conditions.as_it_was(known)
    elif finding.seen.webhook is not None:
        yield Wanted(ConditionType.WEBHOOK_READY, "True", Reason.SUBSCRIBED, "the cloud reports changes")


def left_over(record: Leftover) -> Ownerless:
    """The status entry of a leftover."""
    told = record.model_dump(include={"kind", "of", "id", "name", "since"})
    return Ownerless.model_validate(fit_schema(Ownerless, {name: value or None for name, value in told.items()}))
