"""What a resource would cost per hour, by the cloud's catalog."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from relay_client import Cloud
from relay_client.operations import GET_PRICING
from relay_client.paging import weigh
from relay_operator.engine.shared_lists import SharedLists

_MOST_PRICES = 2_000
"""For each of the two lists; a catalog has a few dozen."""
_LONGEST_NAME = 253
DEAREST: Final = 10**15
"""More than any budget; a number in an answer may have thousands of digits."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The part of a request that is paid for by the hour."""

    model: str = ""
    """The GPU model; empty if the cloud chooses."""
    gpus: int = 0
    """GPUs of each replica."""
    size: str = ""
    """The size of a machine without GPUs; empty if the cloud chooses."""
    replicas: int = 1

    def __str__(self) -> str:
        what = (
            f"{self.gpus} x {self.model or 'any GPU'}" if self.gpus else f"a machine of the size {self.size or 'any'}"
        )
        return what if self.replicas == 1 else f"{self.replicas} replicas of {what}"


@dataclass(frozen=True, slots=True)
class Prices:
    """Cents per hour: of one GPU by its model, and of a machine without GPUs by its size; None if unknown."""

    gpu: Mapping[str, int | None]
    cpu: Mapping[str, int | None]


def quote(prices: Prices, asked: Capacity) -> int | None:
    """Cents per hour; the highest price if the cloud chooses. None if the catalog lacks a price for that."""
    of, name, count = (prices.gpu, asked.model, asked.gpus) if asked.gpus else (prices.cpu, asked.size, 1)
    price = of.get(name) if name else _highest(of.values())
    return None if price is None else min(price * count * asked.replicas, DEAREST)


def _highest(prices: Collection[int | None]) -> int | None:
    """The highest price; None if there is none, or if one is unknown."""
    known = [price for price in prices if price is not None]
    return max(known, default=None) if len(known) == len(prices) else None


class Pricing(Protocol):
    """The prices of each account's cloud."""

    async def of(self, cloud: Cloud) -> Prices:
        """The cloud's prices. Raises CloudError."""


@dataclass(frozen=True, slots=True)
class ListedPrices(Pricing):
    """Prices from the catalog; one request serves all callers within some minutes."""

    lists: SharedLists[Prices]

    async def of(self, cloud: Cloud) -> Prices:
        """The cloud's prices, perhaps some minutes old. Raises CloudError."""
        return await self.lists.recent(cloud, lambda: _read(cloud))


async def _read(cloud: Cloud) -> Prices:
    listed = await cloud.call(GET_PRICING, large=True)
    prices = Prices(
        _kept((one.gpu_model_id, one.price_per_hour_cents) for one in listed.gpu),
        _kept((one.resource_size, one.price_per_hour_cents) for one in listed.cpu),
    )
    weigh((*prices.gpu.items(), *prices.cpu.items()))
    return prices


def _kept(told: Iterable[tuple[str, int | None]]) -> Mapping[str, int | None]:
    """At most so many prices. One that is left out is unknown, and so is the highest: no request has an empty name."""
    prices = {name: None if price is None else min(price, DEAREST) for name, price in told}
    fitting = ((name, price) for name, price in prices.items() if len(name) <= _LONGEST_NAME)
    kept = dict(islice(fitting, _MOST_PRICES))
    return kept if len(kept) == len(prices) else {**kept, "": None}
