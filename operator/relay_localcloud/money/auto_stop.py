"""The auto-stop: what happens when an organization's balance falls below its floor (sections 3 and 8)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing

REASON: Final = "The balance ran out: add funds, then restart it."

Stop = Callable[[Tx, str, str], None]
"""Stops all of a kind that an organization runs: its id, and what its people are told."""


def handlers(stops: Sequence[Stop]) -> Mapping[str, DueHandler]:
    """The handler of the alarm, which stops one kind after the other."""

    def auto_stop(tx: Tx, item: DueItem) -> None:
        for stop in stops:
            stop(tx, item.subject, REASON)

    return {billing.AUTO_STOP: auto_stop}
