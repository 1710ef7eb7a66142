"""What tokens cost: 100 nano-USD each, summed exactly, debited in whole cents, the rest carried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, chat, message, ok

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

A_CENT_OF_TOKENS = 100_000


def words(count: int) -> str:
    return "w " * count


def costs(tokens: int, path: str = CHAT, **more: Any) -> dict[str, Any]:
    """A request that costs so many tokens: all but one are asked, one is answered."""
    return (chat if path == CHAT else message)(words(tokens - 1), **{"max_tokens": 1, **more})


async def debits(organization: Organization) -> list[int]:
    shown = await balance(organization)
    assert shown["accruedUsageCents"] == shown["currentMonthUsageCents"] == 0
    return [entry["amountCents"] for entry in shown["transactions"] if entry["type"] == "usage"]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_cent_is_debited_when_it_is_full_and_not_before(organization: Organization, path: str) -> None:
    await ok(organization, "POST", path, costs(A_CENT_OF_TOKENS - 2, path))
    assert await debits(organization) == []
    await ok(organization, "POST", path, costs(2, path))
    assert await debits(organization) == [-1]
    assert (await balance(organization))["balanceCents"] == 99_999


async def test_a_stream_costs_what_its_answer_costs(organization: Organization) -> None:
    await ok(organization, "POST", CHAT, costs(A_CENT_OF_TOKENS - 2))
    answer = await call(organization, "POST", CHAT, costs(2, stream=True))
    assert answer.raw.endswith(b"data: [DONE]\n\n")
    assert await debits(organization) == [-1]


async def test_the_rest_is_carried_over_families_and_requests(organization: Organization) -> None:
    for path in (CHAT, MESSAGES, CHAT, MESSAGES):
        await ok(organization, "POST", path, costs(A_CENT_OF_TOKENS * 3 // 4, path))
    assert await debits(organization) == [-1, -1, -1]


async def test_many_cents_of_one_request_are_one_debit(organization: Organization) -> None:
    answer = await ok(organization, "POST", CHAT, chat(words(A_CENT_OF_TOKENS), max_tokens=A_CENT_OF_TOKENS // 2, n=4))
    assert answer["usage"]["total_tokens"] == 3 * A_CENT_OF_TOKENS
    assert await debits(organization) == [-3]


async def test_a_debit_says_what_it_is_for(organization: Organization) -> None:
    await ok(organization, "POST", CHAT, costs(A_CENT_OF_TOKENS))
    newest = (await balance(organization))["transactions"][0]
    now = (await organization.server.ok("GET", "/clock"))["now"]
    assert newest.pop("id").startswith("txn_")
    assert newest == {"type": "usage", "amountCents": -1, "createdAt": now, "description": "Inference tokens"}


@pytest.mark.parametrize("model", ["refuse", "busy", "down", "full", "nothing"])
async def test_a_refusal_costs_nothing(organization: Organization, model: str) -> None:
    await call(organization, "POST", CHAT, chat(words(2 * A_CENT_OF_TOKENS), model))
    await ok(organization, "POST", CHAT, costs(A_CENT_OF_TOKENS - 1))
    assert await debits(organization) == []


async def test_tokens_and_workloads_are_paid_from_one_balance(organization: Organization) -> None:
    await organization.ok("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    await organization.server.advance(3600 + 2)
    before = await balance(organization)
    await ok(organization, "POST", CHAT, costs(5 * A_CENT_OF_TOKENS))
    after = await balance(organization)
    for field, change in {
        "balanceCents": -5,
        "availableCents": -5,
        "accruedUsageCents": 0,
        "currentMonthUsageCents": 0,
    }.items():
        assert after[field] == before[field] + change, field


async def test_a_debit_moves_the_auto_stop_to_the_second_below_the_floor(organization: Organization) -> None:
    pod = await organization.ok("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    await organization.server.advance(2)
    price = (await organization.ok("GET", f"/v1/vms/{pod['id']}"))["pricePerHourCents"]
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": 3})
    await ok(organization, "POST", CHAT, costs(2 * A_CENT_OF_TOKENS))
    seconds_to_two_cents = -(-2 * 3600 // price)
    await organization.server.advance(seconds_to_two_cents - 1)
    assert (await organization.ok("GET", f"/v1/vms/{pod['id']}"))["status"] == "running"
    await organization.server.advance(1)
    assert (await organization.ok("GET", f"/v1/vms/{pod['id']}"))["status"] == "stopping"


async def test_what_is_carried_survives_a_kill_and_an_export(tmp_path: Path, start_server: StartServer) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    await ok(server.seeded(), "POST", CHAT, costs(A_CENT_OF_TOKENS - 2))
    server.kill()
    server = start_server("--state", str(tmp_path))
    state = await server.ok("GET", "/export")
    elsewhere = start_server("--ephemeral")
    await elsewhere.ok("POST", "/import", state)
    for place in (server, elsewhere):
        organization = server.seeded() if place is server else elsewhere.seeded()
        key = server.ready["apiKey"]
        await ok(organization, "POST", CHAT, costs(2), key=key)
        shown = await place.seeded().call("GET", f"/v1/orgs/{server.ready['organizationId']}/billing/balance", key=key)
        assert shown.body["balanceCents"] == 99_999
