"""The ledger's transactions: what came in, and what was settled."""

from typing import Final, Literal

from sqlalchemy import Connection, RowMapping, insert, select

from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.ledger import transactions

Kind = Literal["deposit", "usage", "credit", "refund"]

SHOWN: Final = 200
"""How many of them a balance shows (assumed)."""


def write(tx: Tx, organization_id: str, kind: Kind, amount_cents: int, description: str) -> None:
    """Write a transaction; `billing.py` changes the balance by it."""
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


def recent(connection: Connection, organization_id: str) -> list[RowMapping]:
    """The newest transactions first."""
    query = select(transactions).where(transactions.c.organization_id == organization_id)
    query = query.order_by(transactions.c.sequence.desc()).limit(SHOWN)
    return list(connection.execute(query).mappings())
