"""A batch without funds waits: what is done is paid, and the rest is done once there are funds, or expires."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.batches import batch_of, create, errors, lines, record
from tests.localcloud.support.inference import CHAT, balance, call, chat, ok
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.workloads import set_organization
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

WORDS = 2000
A_RECORD = 2 * WORDS * 50
"""Nano-USD: the words are asked and answered, at half the price."""

A_CENT = 10_000_000
PAID = (2 * A_CENT - 1) // A_RECORD
"""Records that a balance of one cent pays: a cent is debited once it is full, and the next would be below the floor."""


def records(count: int, model: str = "echo", **more: Any) -> list[Any]:
    return [record(str(number), " ".join(["w"] * WORDS), model, **more) for number in range(count)]


async def starving(organization: Organization, count: int = 500) -> Any:
    """A batch whose organization had a cent, as it is when that is spent."""
    await set_organization(organization, balanceCents=1)
    batch = await create(organization, records(count))
    await organization.server.advance(600)
    return await batch_of(organization, batch["id"])


async def test_a_batch_does_no_more_than_is_paid(organization: Organization) -> None:
    batch = await starving(organization)
    assert batch["status"] == "in_progress"
    assert batch["request_counts"] == {"total": 500, "completed": PAID, "failed": 0}
    assert batch["usage"]["cost_nano_usd"] == PAID * A_RECORD
    assert (await balance(organization))["balanceCents"] == 0


@pytest.mark.parametrize("missing", [-1, 0, 1])
async def test_the_last_record_that_can_be_paid_is_done(organization: Organization, missing: int) -> None:
    """`missing` tokens at half the price, of what three records cost at the end of the cent."""
    await set_organization(organization, balanceCents=0)
    spare = (A_CENT - 1 - 3 * A_RECORD) // 100 + missing
    await ok(organization, "POST", CHAT, chat("w " * (spare - 1), max_tokens=1))
    batch = await create(organization, records(3))
    await organization.server.advance(600)
    assert (await batch_of(organization, batch["id"]))["request_counts"]["completed"] == (2 if missing > 0 else 3)


async def test_it_goes_on_within_a_minute_of_new_funds(organization: Organization) -> None:
    batch = await starving(organization)
    await set_organization(organization, balanceCents=1000)
    await organization.server.advance(61 + 0.1 * 500 + 2)
    done = await batch_of(organization, batch["id"])
    assert done["status"] == "completed"
    assert done["request_counts"] == {"total": 500, "completed": 500, "failed": 0}
    assert sorted(line["custom_id"] for line in await lines(organization, done)) == sorted(map(str, range(500)))


async def test_without_funds_it_expires_with_what_was_done(organization: Organization) -> None:
    batch = await starving(organization)
    await organization.server.advance(24 * 3600)
    done = await batch_of(organization, batch["id"])
    assert (done["status"], done["request_counts"]["completed"]) == ("expired", PAID)
    assert len(await lines(organization, done)) == PAID
    assert {line["error"]["code"] for line in await errors(organization, done)} == {"batch_expired"}


async def test_it_can_be_cancelled_while_it_waits(organization: Organization) -> None:
    batch = await starving(organization)
    await ok(organization, "POST", f"/v1/batches/{batch['id']}/cancel")
    await organization.server.advance(5)
    done = await batch_of(organization, batch["id"])
    assert (done["status"], done["request_counts"]["completed"]) == ("cancelled", PAID)
    assert len(await lines(organization, done)) == PAID
    assert (await balance(organization))["balanceCents"] == 0


async def test_records_that_cost_nothing_need_no_funds_above_the_floor(organization: Organization) -> None:
    await starving(organization)
    batch = await create(organization, [record("a", model="refuse"), record("b", model="refuse", stream=True)])
    await organization.server.advance(600)
    done = await batch_of(organization, batch["id"])
    assert (done["status"], done["request_counts"]["failed"]) == ("completed", 2)


async def test_records_that_cost_nothing_need_no_funds_at_all(organization: Organization) -> None:
    batch = await create(organization, [record("a", model="refuse"), record("b", model="refuse", stream=True)])
    await set_organization(organization, balanceCents=-100)
    await organization.server.advance(600)
    done = await batch_of(organization, batch["id"])
    assert (done["status"], done["request_counts"]["failed"]) == ("completed", 2)


async def test_a_server_is_not_asked_before_its_longest_answer_can_be_paid(
    organization: Organization, behind: ModelServer
) -> None:
    batch = await create(organization, [record("a", "hello", "mine", max_tokens=10**9, n=4)])
    await set_organization(organization, balanceCents=1)
    await organization.server.advance(600)
    assert (await batch_of(organization, batch["id"]))["request_counts"]["failed"] == 0
    assert behind.received == []
    await set_organization(organization, balanceCents=2)
    await organization.server.advance(61)
    assert (await batch_of(organization, batch["id"]))["request_counts"]["completed"] == 1
    assert len(behind.received) == 1


async def test_a_record_under_way_reserves_what_it_can_cost(organization: Organization, behind: ModelServer) -> None:
    behind.hang = asyncio.Event()
    await create(organization, [record("a", "hello", "mine", max_tokens=120_000, n=3)])
    await set_organization(organization, balanceCents=1)
    moving = asyncio.create_task(organization.server.advance(10))
    await behind.arrived.wait()
    answer = await call(organization, "POST", CHAT, chat("w " * 30_000))
    assert answer.status == 402
    behind.hang.set()
    await moving

    async def again() -> int:
        return (await call(organization, "POST", CHAT, chat("w " * 30_000))).status

    await eventually(again, lambda status: status == 200, what="the end of the record")
