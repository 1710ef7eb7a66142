"""Saved cards: what is shown of them, and which one is charged."""

from dataclasses import asdict, dataclass

from sqlalchemy import RowMapping, delete, insert, select

from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.ledger import payment_methods


@dataclass(frozen=True, slots=True)
class Card:
    """A card as it is saved; `requires_action` makes each charge wait for its owner, as a bank may."""

    brand: str = "visa"
    last4: str = "4242"
    exp_month: int = 12
    exp_year: int = 2099
    requires_action: bool = False


def add(tx: Tx, organization_id: str, card: Card) -> str:
    """Save a card, and return its id."""
    card_id = tx.new_id("pm")
    tx.connection.execute(insert(payment_methods), {"id": card_id, "organization_id": organization_id, **asdict(card)})
    return card_id


def saved(tx: Tx, organization_id: str) -> list[RowMapping]:
    """An organization's cards, the oldest first; the oldest is the default one, which is charged."""
    query = select(payment_methods).where(payment_methods.c.organization_id == organization_id)
    return list(tx.connection.execute(query.order_by(payment_methods.c.sequence)).mappings())


def remove(tx: Tx, organization_id: str, card_id: str) -> bool:
    """Forget a card; False where the organization has none of this id."""
    card = payment_methods.c
    forgotten = delete(payment_methods).where(card.organization_id == organization_id, card.id == card_id)
    return tx.connection.execute(forgotten).rowcount == 1
