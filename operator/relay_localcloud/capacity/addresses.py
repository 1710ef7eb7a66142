"""IP addresses: every pod and VM on a machine and every replica has one, and a setting says how many there are."""

from typing import Final

from sqlalchemy import Column, Integer, String, Table, bindparam, delete, func, insert, select

from relay_localcloud.capacity import vacancies
from relay_localcloud.capacity.saturation import saturated
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

addresses = Table(
    "addresses",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("holder_id", String, nullable=False, unique=True),  # a pod, a VM or a replica
)

_LAST: Final = Prepared(select(func.coalesce(func.max(addresses.c.sequence), 0)))
_TAKEN: Final = Prepared(select(func.count()).select_from(addresses))
_TAKE: Final = Prepared(insert(addresses))
_GIVE_BACK: Final = Prepared(delete(addresses).where(addresses.c.holder_id == bindparam("holder")))


def is_one_free(tx: Tx) -> bool:
    """Whether one more may be taken."""
    # They are counted only once so many rows were made that they might be too many: counting reads every one.
    most = tx.settings.ip_addresses
    return _one(_LAST, tx) < most or _one(_TAKEN, tx) < most


def none_free(tx: Tx) -> ApiError:
    """What who would need one more is told."""
    return saturated(tx, "INSUFFICIENT_IP_CAPACITY", "All IP addresses are in use: try again later.")


def take(tx: Tx, holder_id: str) -> None:
    """Give a holder an address; ApiError INSUFFICIENT_IP_CAPACITY where none is free."""
    if not is_one_free(tx):
        raise none_free(tx)
    _TAKE.run(tx.connection, sequence=None, holder_id=holder_id)


def give_back(tx: Tx, holder_id: str) -> None:
    """Take a holder's address back, for whoever waits for one; none held is fine."""
    had_none = not is_one_free(tx)
    if _GIVE_BACK.run(tx.connection, holder=holder_id).rowcount and had_none:
        vacancies.announce_address(tx)


def _one(query: Prepared, tx: Tx) -> int:
    return int(query.run(tx.connection).fetchone()[0])
