"""IP addresses: every pod and VM on a machine and every replica has one, and a setting says how many there are."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import UniqueConstraint

from relay_localcloud.capacity import vacancies
from relay_localcloud.capacity.claims import saturated
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel import counts
from relay_localcloud.kernel.counts import EVERYBODY, Counted, Totals
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True, slots=True)
class Address:
    """An address that is taken."""

    sequence: int
    holder_id: str  # a pod, a VM or a replica


ADDRESSES: Final = Rows(Address, "addresses", UniqueConstraint("holder_id"))
_TAKEN: Final = "addresses"
COUNTED: Final[Totals] = {_TAKEN: (Counted(ADDRESSES.table.name, owner=None),)}
"""How many are taken, which is asked for each that is taken or given back."""


def free(tx: Tx) -> int:
    """How many more may be taken."""
    return max(tx.settings.ip_addresses - counts.of_organization(tx.connection, EVERYBODY).get(_TAKEN, 0), 0)


def is_one_free(tx: Tx) -> bool:
    """Whether one more may be taken."""
    return free(tx) > 0


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
