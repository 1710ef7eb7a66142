"""Money: the ledger, the meter of each organization, and one usage record per running stint.

Usage is never accrued by a timer: a meter is read forward when somebody asks (`accrual.py`). The only due item is the
auto-stop, set for the first second in which the available balance is below the floor, and set again whenever the burn,
the balance or the floor changes.
"""

from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection, RowMapping, bindparam, func, insert, or_, select, update

from relay_localcloud import accrual, tables
from relay_localcloud.accrual import MICROSECONDS, Meter
from relay_localcloud.errors import ApiError
from relay_localcloud.instants import LAST
from relay_localcloud.ledger import RECHARGE_DEFAULTS, accounts, transactions, usage_records
from relay_localcloud.prepared import Prepared
from relay_localcloud.store import Tx
from relay_wire.billing import AutoRecharge, AutoRechargeUpdate

AUTO_STOP = "billing.auto_stop"
SHOWN_TRANSACTIONS = 200

_ACCOUNT = Prepared(
    select(
        accounts.c.balance_cents,
        accounts.c.read_at,
        accounts.c.month_start,
        accounts.c.month_units,
        accounts.c.earlier_units,
        accounts.c.burn,
        accounts.c.funded_at,
        tables.organizations.c.auto_stop_floor_cents,
        tables.organizations.c.deposit_cap_cents,
        tables.organizations.c.monthly_spend_limit_cents,
    )
    .join_from(tables.organizations, accounts, tables.organizations.c.id == accounts.c.organization_id, isouter=True)
    .where(tables.organizations.c.id == bindparam("organization"))
)
_OPEN_STINT = Prepared(insert(usage_records))
_CLOSE_STINT = Prepared(
    update(usage_records)
    .where(usage_records.c.holder_id == bindparam("holder"), usage_records.c.ended_at.is_(None))
    .values(ended_at=bindparam("second"))
    .returning(usage_records.c.rate_cents)
)
_SET_METER = Prepared(
    update(accounts)
    .where(accounts.c.organization_id == bindparam("organization"))
    .values(
        read_at=bindparam("read_at"),
        month_start=bindparam("month_start"),
        month_units=bindparam("month_units"),
        earlier_units=bindparam("earlier_units"),
        burn=bindparam("burn"),
    )
)


@dataclass(frozen=True, slots=True)
class Account:
    """An organization's money, its meter read at the time of asking."""

    organization_id: str
    balance_cents: int
    meter: Meter
    floor_cents: int
    deposit_cap_cents: int
    monthly_spend_limit_cents: int | None
    funded_at: int | None

    @property
    def available_cents(self) -> int:
        """What the deploy gate checks (section 2, "Balance")."""
        return self.balance_cents - accrual.cents(self.meter.accrued_units)

    @property
    def min_deposit_cents(self) -> int:
        """The smallest deposit allowed now."""
        return accrual.min_deposit_cents(
            self.available_cents, self.floor_cents, self.meter.burn, self.deposit_cap_cents
        )


@dataclass(frozen=True, slots=True)
class Billed:
    """Who a stint is billed for; the rate is for all of it, in cents an hour, and stays as it is."""

    organization_id: str
    holder_id: str
    resource_id: str
    kind: str
    name: str
    gpu_model_id: str | None
    rate_cents: int


def account(tx: Tx, organization_id: str) -> Account:
    """The organization's account as of `tx.now`; empty where nothing was ever posted or used."""
    row = _ACCOUNT.run(tx.connection, organization=organization_id).fetchone()
    if row is None:
        raise ApiError(404, f"There is no organization {organization_id!r}.")
    balance, read_at, started, month_units, earlier_units, burn, funded_at, floor, cap, limit = row
    second = tx.now // MICROSECONDS
    if balance is None:
        meter = Meter(second, accrual.month_start(second), 0, 0, 0)
    else:
        meter = accrual.read(Meter(read_at, started, month_units, earlier_units, burn), second)
    return Account(organization_id, balance or 0, meter, floor, cap, limit, funded_at)


def require_funds(tx: Tx, organization_id: str) -> None:
    """The deploy gate: refuses with 402 where nothing is available above the floor, or the month's limit is spent."""
    has = account(tx, organization_id)
    if has.available_cents <= has.floor_cents:
        raise ApiError(
            402,
            f"The available balance of {has.available_cents} cents is at or below the floor of {has.floor_cents}: "
            "add funds, then try again.",
            "INSUFFICIENT_BALANCE",
        )
    spent, limit = accrual.cents(has.meter.month_units), has.monthly_spend_limit_cents
    if limit is not None and spent >= limit:
        raise ApiError(
            402,
            f"The month's usage of {spent} cents has reached the spend limit of {limit}: what runs goes on, nothing "
            "else starts before the month is over or the limit is raised.",
            "SPEND_LIMIT_REACHED",
        )


def start_billing(tx: Tx, billed: Billed) -> None:
    """Open a usage record: a running stint begins now, at the rate given."""
    started_at = tx.now // MICROSECONDS
    _OPEN_STINT.run(tx.connection, sequence=None, started_at=started_at, ended_at=None, **asdict(billed))
    _change_burn(tx, billed.organization_id, billed.rate_cents)


def stop_billing(tx: Tx, organization_id: str, holder_id: str) -> None:
    """Close the open usage record of a holder; none open is fine."""
    closed = _CLOSE_STINT.run(tx.connection, holder=holder_id, second=tx.now // MICROSECONDS).fetchone()
    if closed is not None:
        _change_burn(tx, organization_id, -closed[0])


def post(tx: Tx, organization_id: str, kind: str, amount_cents: int, description: str) -> None:
    """Write a transaction and change the balance by it; money that comes in counts as funding."""
    _write(tx, organization_id, kind, amount_cents, description)
    _funded(tx, organization_id)


def debit(tx: Tx, organization_id: str, cents: int, description: str) -> None:
    """Settle usage with a transaction and take it off the balance."""
    _write(tx, organization_id, "usage", -cents, description)
    _set_auto_stop(tx, account(tx, organization_id))


def set_balance(tx: Tx, organization_id: str, balance_cents: int) -> None:
    """Make the balance this value, by a credit of the difference (control interface)."""
    difference = balance_cents - account(tx, organization_id).balance_cents
    if difference:
        post(tx, organization_id, "credit", difference, "Balance set through the control interface")
    else:
        _ensure_account(tx, organization_id)
        _funded(tx, organization_id)


def floor_changed(tx: Tx, organization_id: str) -> None:
    """Compute the auto-stop anew after the organization's floor was changed."""
    _set_auto_stop(tx, account(tx, organization_id))


def recharge_settings(tx: Tx, organization_id: str) -> AutoRecharge:
    """The auto-recharge settings; the defaults where they were never set."""
    a = accounts.c
    query = select(a.recharge_enabled, a.recharge_threshold_cents, a.recharge_amount_cents)
    row = tx.connection.execute(query.where(a.organization_id == organization_id)).first()
    if row is None:
        return RECHARGE_DEFAULTS
    return AutoRecharge(enabled=row[0], threshold_cents=row[1], amount_cents=row[2])


def save_recharge_settings(tx: Tx, organization_id: str, settings: AutoRechargeUpdate) -> None:
    """Keep other auto-recharge settings."""
    _ensure_account(tx, organization_id)
    tx.connection.execute(
        update(accounts)
        .where(accounts.c.organization_id == organization_id)
        .values(
            recharge_enabled=settings.enabled,
            recharge_threshold_cents=settings.threshold_cents,
            recharge_amount_cents=settings.amount_cents,
        )
    )


def recent_transactions(connection: Connection, organization_id: str) -> list[RowMapping]:
    """The newest transactions first."""
    query = select(transactions).where(transactions.c.organization_id == organization_id)
    query = query.order_by(transactions.c.sequence.desc()).limit(SHOWN_TRANSACTIONS)
    return list(connection.execute(query).mappings())


@dataclass(frozen=True, slots=True)
class Used:
    """What one resource used in a time, over all its stints."""

    resource_id: str
    kind: str
    name: str
    gpu_model_id: str | None
    seconds: int
    units: int


def used_between(connection: Connection, organization_id: str, since: int, until: int) -> list[Used]:
    """What each resource used in the seconds [since, until), the oldest resource first."""
    record = usage_records.c
    ended_at = func.min(func.coalesce(record.ended_at, until), until)
    seconds = func.max(0, ended_at - func.max(record.started_at, since))
    query = (
        select(
            record.resource_id,
            record.kind,
            record.name,
            record.gpu_model_id,
            func.sum(seconds),
            func.sum(seconds * record.rate_cents),
        )
        .where(record.organization_id == organization_id, or_(record.ended_at.is_(None), record.ended_at > since))
        .group_by(record.resource_id)
        .order_by(func.min(record.sequence))
    )
    return [Used(*row) for row in connection.execute(query).all()]


def _write(tx: Tx, organization_id: str, kind: str, amount_cents: int, description: str) -> None:
    tx.connection.execute(
        insert(transactions),
        {
            "id": tx.new_id("txn"),
            "organization_id": organization_id,
            "type": kind,
            "amount_cents": amount_cents,
            "created_at": tx.now,
            "description": description,
        },
    )
    _ensure_account(tx, organization_id)
    change = update(accounts).where(accounts.c.organization_id == organization_id)
    tx.connection.execute(change.values(balance_cents=accounts.c.balance_cents + amount_cents))


def _ensure_account(tx: Tx, organization_id: str) -> None:
    second = tx.now // MICROSECONDS
    empty = {
        "organization_id": organization_id,
        "balance_cents": 0,
        "read_at": second,
        "month_start": accrual.month_start(second),
        "month_units": 0,
        "earlier_units": 0,
        "burn": 0,
    }
    tx.connection.execute(insert(accounts).prefix_with("OR IGNORE"), empty)


def _funded(tx: Tx, organization_id: str) -> None:
    has = account(tx, organization_id)
    if has.available_cents > has.floor_cents:
        change = update(accounts).where(accounts.c.organization_id == organization_id)
        tx.connection.execute(change.values(funded_at=tx.now))
    _set_auto_stop(tx, has)


def _change_burn(tx: Tx, organization_id: str, by: int) -> None:
    has = account(tx, organization_id)
    if has.funded_at is None and has.balance_cents == 0:
        _ensure_account(tx, organization_id)
    meter = replace(has.meter, burn=has.meter.burn + by)
    _SET_METER.run(tx.connection, organization=organization_id, **asdict(meter))
    _set_auto_stop(tx, replace(has, meter=meter))


def _set_auto_stop(tx: Tx, has: Account) -> None:
    second = accrual.second_below(has.meter, has.balance_cents, has.floor_cents) if has.meter.burn else None
    if second is None or second * MICROSECONDS > LAST:
        tx.cancel(AUTO_STOP, has.organization_id)
    else:
        tx.schedule(max(second * MICROSECONDS, tx.now), AUTO_STOP, has.organization_id)
