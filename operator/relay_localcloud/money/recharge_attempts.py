"""When auto-recharge may charge next: one charge at a time, once a minute, and less and less often while declined."""

from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import func, insert, select, update

from relay_localcloud.kernel.instants import HOUR, MINUTE
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.ledger import recharge_attempts

PAUSE: Final = MINUTE
"""Between two recharges (assumed): section 2 speaks of ticks."""

FIRST_RETRY: Final = HOUR
"""After a declined one (assumed), and twice as long after each further one."""

_MOST_DOUBLINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Attempts:
    """How it went last: the charge under way, how many were declined in a row, and when the next may be."""

    charge_id: str | None = None
    declined: int = 0
    not_before: int = 0


def of(tx: Tx, organization_id: str) -> Attempts:
    """The attempts of an organization."""
    a = recharge_attempts.c
    query = select(a.charge_id, a.declined, a.not_before).where(a.organization_id == organization_id)
    row = tx.connection.execute(query).first()
    return Attempts() if row is None else Attempts(*row)


def after(attempts: Attempts, at: int, charge_id: str | None) -> Attempts:
    """What follows an attempt at an instant; `charge_id` is None where it was declined."""
    if charge_id is not None:
        return Attempts(charge_id, attempts.declined, at + PAUSE)
    wait = FIRST_RETRY * 2 ** min(attempts.declined, _MOST_DOUBLINGS)
    return Attempts(None, attempts.declined + 1, at + wait)


def keep(tx: Tx, organization_id: str, attempts: Attempts) -> None:
    """Remember how it went."""
    values = {"organization_id": organization_id, **asdict(attempts)}
    tx.connection.execute(insert(recharge_attempts).prefix_with("OR REPLACE"), values)


def retry_soon(tx: Tx, organization_id: str) -> None:
    """Forget what was declined: the card is another or was charged since, or the settings are saved again."""
    a = recharge_attempts.c
    soon = update(recharge_attempts).where(a.organization_id == organization_id)
    tx.connection.execute(soon.values(declined=0, not_before=func.min(a.not_before, tx.now + PAUSE)))


def paid(tx: Tx, charge_id: str) -> None:
    """Note that a charge is no longer under way."""
    over = update(recharge_attempts).where(recharge_attempts.c.charge_id == charge_id)
    tx.connection.execute(over.values(charge_id=None))
