"""IP addresses: every pod and VM on a machine and every replica has one; a setting limits their number."""

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
    """An assigned address."""

    sequence: int
    holder_id: str  # a pod, a VM or a replica


ADDRESSES: Final = Rows(Address, "addresses", UniqueConstraint("holder_id"))
_TAKEN: Final = "addresses"
COUNTED: Final[Totals] = {_TAKEN: (Counted(ADDRESSES.table.name, owner=None),)}
"""The number of assigned addresses, which each assignment reads."""


def free(tx: Tx) -> int:
    """How many more addresses may be assigned."""
    return max(tx.settings.ip_addresses - counts.of_organization(tx.connection, EVERYBODY).get(_TAKEN, 0), 0)


def is_one_free(tx: Tx) -> bool:
    """Whether one more address may be assigned."""
    return free(tx) > 0


def none_free(tx: Tx) -> ApiError:
    """The refusal if no address is left."""
    return saturated(tx, "INSUFFICIENT_IP_CAPACITY", "All IP addresses are in use: try again later.")


def take(tx: Tx, *holder_ids: str) -> None:
    """Assign an address to each holder; ApiError INSUFFICIENT_IP_CAPACITY if too few are free."""
    if free(tx) < len(holder_ids):
        raise none_free(tx)
    ADDRESSES.insert_all(tx, ({"holder_id": holder_id} for holder_id in holder_ids))


def give_back(tx: Tx, *holder_ids: str) -> None:
    """Release the addresses of these holders, as far as they have any, for those that wait for one."""
    had_none = not is_one_free(tx)
    if sum(ADDRESSES.remove(tx, holder_id=holder_id) for holder_id in holder_ids) and had_none:
        vacancies.announce_address(tx)
