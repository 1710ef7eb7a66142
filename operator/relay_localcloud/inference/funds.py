"""What organizations can still spend on tokens, and what of that is reserved for requests under way.

A model is asked only if the greatest cost of its answer can be paid. That much stays reserved until the answer is
charged, so concurrent requests cannot cost more than the available balance. Reservations are in memory: they end with
the process, as its requests do.
"""

from collections import Counter
from types import TracebackType
from typing import Self

from relay_localcloud.inference.charges import NANO_USD_PER_CENT, Usage, carried
from relay_localcloud.inference.errors import INSUFFICIENT_BALANCE, InferenceError
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.money import billing


def require_funds(tx: Tx, organization_id: str) -> None:
    """InferenceError 402 if the available balance is below the spending floor."""
    available, floor = _cents(tx, organization_id)
    if available < floor:
        raise InferenceError(
            *INSUFFICIENT_BALANCE,
            f"The available balance of {available} cents is below the spending floor of {floor}: "
            "add funds, then try again.",
        )


class Funds:
    """The reservations of all organizations."""

    def __init__(self) -> None:
        self._reserved: Counter[str] = Counter()

    def left(self, tx: Tx, organization_id: str) -> int:
        """Nano-USD that can be spent before the available balance is below the floor; negative if it is below."""
        available, floor = _cents(tx, organization_id)
        last = (available - floor + 1) * NANO_USD_PER_CENT - 1
        return last - carried(tx, organization_id) - self._reserved[organization_id]

    def require(self, tx: Tx, organization_id: str, most: Usage) -> None:
        """Raise InferenceError 402 if that much cannot be paid."""
        left = self.left(tx, organization_id)
        if most.cost_nano_usd > left:
            raise InferenceError(
                *INSUFFICIENT_BALANCE,
                f"This can cost up to {most.cost_nano_usd} nano-USD, and {max(left, 0)} can be spent above the "
                "floor beside what is being answered: add funds, lower max_tokens, or wait.",
            )

    def reserve(self, organization_id: str, nano_usd: int) -> None:
        """Reserve more; less if `nano_usd` is negative."""
        self._reserved[organization_id] += nano_usd
        if not self._reserved[organization_id]:
            del self._reserved[organization_id]


class Hold:
    """The reservation for one request, or for one record of a batch, while the context lasts."""

    def __init__(self, funds: Funds, store: Store, organization_id: str) -> None:
        self._funds = funds
        self._store = store
        self._organization_id = organization_id
        self._taken = 0
        self._reserved = 0

    def __enter__(self) -> Self:
        """Reserve nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the reservation: the usage is charged, or never will be."""
        self._become(0)

    def reserve(self, most: Usage) -> None:
        """Reserve the most that an answer can use, before a model is asked; InferenceError 402 if that is not left."""
        with self._store.transaction() as tx:
            self._funds.require(tx, self._organization_id, most)
        self._become(self._taken + most.cost_nano_usd)

    def took(self, used: Usage) -> None:
        """After it answered: reserve what all answers so far used, which is yet to be charged."""
        self._taken += used.cost_nano_usd
        self._become(self._taken)

    def _become(self, nano_usd: int) -> None:
        self._funds.reserve(self._organization_id, nano_usd - self._reserved)
        self._reserved = nano_usd


def _cents(tx: Tx, organization_id: str) -> tuple[int, int]:
    """The available cents, and the floor."""
    has = billing.account(tx, organization_id)
    override = tx.settings.inference_floor_cents
    return has.available_cents, has.floor_cents if override is None else override
