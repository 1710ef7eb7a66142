"""IP addresses: every pod and VM on a machine and every replica has one, and a setting says how many there are."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import UniqueConstraint, func, select

from relay_localcloud.capacity import vacancies
from relay_localcloud.capacity.claims import saturated
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True, slots=True)
class Address:
    """An address that is taken."""

    sequence: int
    holder_id: str  # a pod, a VM or a replica


ADDRESSES: Final = Rows(Address, "addresses", UniqueConstraint("holder_id"))
_LAST: Final = Prepared(select(func.coalesce(func.max(ADDRESSES.columns["sequence"]), 0)))
_TAKEN: Final = Prepared(select(func.count()).select_from(ADDRESSES.table))


def is_one_free(tx: Tx) -> bool:
    """Whether one more may be taken."""
    # They are counted only once so many rows were made that they might be too many: counting reads every one.
    most = tx.settings.ip_addresses
    return _one(_LAST, tx) < most or _one(_TAKEN, tx) < most


def none_free(tx: Tx) -> ApiError:
    """The refusal for whoever needs one more."""
    return saturated(tx, "INSUFFICIENT_IP_CAPACITY", "All IP addresses are in use: try again later.")


def take(tx: Tx, holder_id: str) -> None:
    """Give a holder an address; ApiError INSUFFICIENT_IP_CAPACITY if none is free."""
    if not is_one_free(tx):
        raise none_free(tx)
    ADDRESSES.insert(tx, holder_id=holder_id)


def give_back(tx: Tx, holder_id: str) -> None:
    """Take a holder's address back, for whoever waits for one; none held is fine."""
    had_none = not is_one_free(tx)
    if ADDRESSES.remove(tx, holder_id=holder_id) and had_none:
        vacancies.announce_address(tx)


def _one(query: Prepared, tx: Tx) -> int:
    return int(query.run(tx.connection).fetchone()[0])
