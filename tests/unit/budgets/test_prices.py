"""What something would cost an hour."""

import sys
import time

import orjson
import pytest
from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.budgets.prices import Capacity, ListedPrices, Prices, quote
from relay_operator.engine.shared_lists import SharedLists
from tests.unit.client.scripted import Reply, scripted_server

PRICES = Prices({"h100": 200, "b200": 500}, {"small": 5, "large": 50})


@pytest.mark.parametrize(
    ("asked", "cents", "words"),
    [
        (Capacity("h100", 1), 200, "1 x h100"),
        (Capacity("h100", 4, replicas=3), 2400, "3 replicas of 4 x h100"),
        (Capacity("", 2), 1000, "2 x any GPU"),
        (Capacity("a9", 1), None, "1 x a9"),
        (Capacity(size="small"), 5, "a machine of the size small"),
        (Capacity(size="", replicas=2), 100, "2 replicas of a machine of the size any"),
        (Capacity(size="huge"), None, "a machine of the size huge"),
    ],
)
def test_a_quote(asked: Capacity, cents: int | None, words: str) -> None:
    assert (quote(PRICES, asked), str(asked)) == (cents, words)


def test_one_unknown_price_leaves_the_others_and_hides_what_the_cloud_would_choose() -> None:
    prices = Prices({"h100": 200, "b200": None}, {"small": 5, "large": None})
    asked = [Capacity("h100", 1), Capacity("b200", 1), Capacity("", 1), Capacity(size="small"), Capacity(size="")]
    assert [quote(prices, each) for each in asked] == [200, None, None, 5, None]


def test_an_empty_catalog_has_no_price() -> None:
    assert quote(Prices({}, {}), Capacity("", 1)) is None


def test_what_costs_nothing_has_a_price() -> None:
    assert quote(Prices({"free": 0}, {}), Capacity("", 1)) == 0


async def test_one_request_tells_the_prices_to_all() -> None:
    gpu: JsonValue = {"gpuModelId": "h100", "name": "H100", "pricePerHourCents": 200}
    cpu: JsonValue = {"resourceSize": "s", "pricePerHourCents": 5, "vcpu": 1, "ramMb": 1}
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=orjson.dumps({"gpu": [gpu], "cpu": [cpu]})))
        pricing = ListedPrices(SharedLists(60.0, time.monotonic))
        prices = await pricing.of(cloud)
        assert await pricing.of(cloud) is prices
    assert (quote(prices, Capacity("h100", 2)), quote(prices, Capacity(size="s"))) == (400, 5)


async def test_of_a_huge_catalog_so_much_is_kept_and_what_the_cloud_would_choose_has_no_price() -> None:
    gpu: list[JsonValue] = [{"gpuModelId": f"m{number}", "pricePerHourCents": 200} for number in range(3_000)]
    sizes: tuple[str, ...] = ("s", "x" * 254, "dear")
    cpu: list[JsonValue] = [{"resourceSize": size, "pricePerHourCents": 5, "vcpu": 1, "ramMb": 1} for size in sizes]
    dear = b'"dear","pricePerHourCents":'
    text = orjson.dumps({"gpu": gpu, "cpu": cpu}).replace(dear, dear + b"9" * 99)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=text))
        prices = await ListedPrices(SharedLists(60.0, time.monotonic)).of(cloud)
        weights = [weight for weight, _ in cloud.lists.kept.values()]
    assert (len(prices.gpu), len(prices.cpu)) == (2_001, 3)
    assert weights[-1] > sum(map(sys.getsizeof, (*prices.gpu, *prices.cpu)))
    asked = [Capacity("m0", 1), Capacity("m2999", 1), Capacity("", 1), Capacity(size="s"), Capacity(size="")]
    assert [quote(prices, each) for each in asked] == [200, None, None, 5, None]
    assert quote(prices, Capacity(size="dear")) == 10**15
