"""Saved cards and setup intents (section 4, "Billing")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.billing import (
    CARDS,
    DEPOSIT,
    NOTIFIED,
    RECHARGE,
    SETUP_INTENT,
    balance_cents,
    charges,
    confirm,
    deposit,
    try_deposit,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


async def cards(organization: Organization) -> list[Any]:
    items: list[Any] = (await organization.ok("GET", CARDS))["items"]
    return items


async def save_card(organization: Organization, **card: object) -> str:
    return str((await organization.server.ok("POST", f"/orgs/{organization.id}/cards", card))["id"])


async def test_a_fresh_organization_has_one_saved_card(organization: Organization) -> None:
    [card] = await cards(organization)
    assert card.pop("id").startswith("pm_")
    assert card == {"brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2099}


async def test_a_card_is_saved_through_the_control_interface(organization: Organization) -> None:
    card_id = await save_card(organization, brand="mastercard", last4="4444", expMonth=1, expYear=2031)
    assert (await cards(organization))[1] == {
        "id": card_id,
        "brand": "mastercard",
        "last4": "4444",
        "expMonth": 1,
        "expYear": 2031,
    }
    answer = await organization.server.control("POST", f"/orgs/{organization.id}/cards")
    assert sorted(answer.body) == ["id"]


@pytest.mark.parametrize(
    "card",
    [
        {"brand": ""},
        {"brand": None},
        {"last4": "123"},
        {"last4": "12345"},
        {"last4": "1234\n"},
        {"last4": "12a4"},
        {"last4": 4242},
        {"expMonth": 0},
        {"expMonth": 13},
        {"expYear": 10_000},
        {"expYear": "2031"},
        {"requiresAction": 1},
        {"number": "4242424242424242"},
    ],
    ids=repr,
)
async def test_a_card_that_makes_no_sense_is_400(organization: Organization, card: object) -> None:
    answer = await organization.server.control("POST", f"/orgs/{organization.id}/cards", card)
    assert answer.refusal == (400, "invalid_request")
    assert len(await cards(organization)) == 1


async def test_a_card_needs_an_organization(server: Server) -> None:
    assert (await server.control("POST", "/orgs/org_nothing/cards", {})).refusal == (404, "not_found")


async def test_a_card_is_forgotten_and_then_nothing_can_be_charged(organization: Organization) -> None:
    [card] = await cards(organization)
    answer = await organization.call("DELETE", f"{CARDS}/{card['id']}")
    assert (answer.status, answer.raw) == (204, b"")
    assert await cards(organization) == []
    assert (await try_deposit(organization, 1000)).refusal == (400, "NO_PAYMENT_METHOD")
    assert (await organization.call("DELETE", f"{CARDS}/{card['id']}")).refusal == (404, "not_found")
    await save_card(organization)
    await deposit(organization, 1000)
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 101_000


async def test_the_oldest_card_is_charged(server: Server, organization: Organization) -> None:
    await save_card(organization, requiresAction=True)
    assert (await deposit(organization, 1000))["status"] == "processing"
    [first, _] = await cards(organization)
    await organization.ok("DELETE", f"{CARDS}/{first['id']}")
    made = await deposit(organization, 2000)
    assert made["status"] == "requires_action"
    await server.advance(3600)
    assert await balance_cents(organization) == 101_000
    await confirm(server, made["chargeId"])
    assert await balance_cents(organization) == 103_000


async def test_a_card_forgotten_after_its_charge_changes_nothing(organization: Organization) -> None:
    await deposit(organization, 1000)
    [card] = await cards(organization)
    await organization.ok("DELETE", f"{CARDS}/{card['id']}")
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 101_000


async def test_a_setup_intent_has_what_a_browser_needs(organization: Organization) -> None:
    first, second = [await organization.ok("POST", SETUP_INTENT) for _ in range(2)]
    assert sorted(first) == ["clientSecret", "publishableKey"]
    assert first["clientSecret"].startswith("seti_")
    assert "_secret_" in first["clientSecret"]
    assert first["clientSecret"] != second["clientSecret"]
    assert first["publishableKey"] == second["publishableKey"] == "pk_test_localcloud"


@pytest.mark.parametrize("card_id", ["pm_nothing", "%00", "..%2f", "x" * 2000, "%F0%9F%92%B3"])
async def test_an_unknown_card_is_404(organization: Organization, card_id: str) -> None:
    assert (await organization.call("DELETE", f"{CARDS}/{card_id}")).refusal == (404, "not_found")


async def test_a_card_of_another_organization_is_404_and_stays(organization: Organization) -> None:
    other = await organization.server.organization()
    [card] = await cards(other)
    assert (await organization.call("DELETE", f"{CARDS}/{card['id']}")).refusal == (404, "not_found")
    assert await cards(other) == [card]


ACTIONS = [
    ("POST", DEPOSIT, {"amountCents": 1000}),
    ("POST", SETUP_INTENT, {}),
    ("DELETE", f"{CARDS}/pm_any", {}),
    ("PUT", RECHARGE, {"enabled": True, "thresholdCents": 1000, "amountCents": 1000}),
]
READS = ["balance", "usage", "usage/daily", "payment-methods", "auto-recharge"]


@pytest.mark.parametrize(("method", "path", "body"), ACTIONS, ids=[path for _, path, _ in ACTIONS])
async def test_changes_need_org_write_or_an_admin(
    organization: Organization, method: str, path: str, body: object
) -> None:
    made = await organization.ok(
        "POST", "/v1/orgs/{org}/api-keys/create", {"name": "k", "scopes": ["billing:read", "vms:write"]}
    )
    viewer, admin = [
        (await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": role}))["userSessionToken"]
        for role in ("member", "admin")
    ]
    for key in (made["key"], viewer):
        assert (await organization.call(method, path, body, key=key)).refusal == (403, "forbidden")
    assert await charges(organization) == []
    assert (await organization.call(method, path, body, key=admin)).status in {200, 404}
    assert (await organization.call(method, path, body, key=None)).refusal == (401, "unauthorized")


@pytest.mark.parametrize("read", READS)
async def test_reads_need_billing_read_or_any_member(organization: Organization, read: str) -> None:
    path = f"/v1/orgs/{{org}}/billing/{read}"
    keys = {
        scope: (await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": scope, "scopes": [scope]}))[
            "key"
        ]
        for scope in ("billing:read", "org:write")
    }
    viewer = await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": "viewer"})
    await organization.ok("GET", path, key=keys["billing:read"])
    await organization.ok("GET", path, key=viewer["userSessionToken"])
    assert (await organization.call("GET", path, key=keys["org:write"])).refusal == (403, "forbidden")


async def test_another_organizations_billing_is_403(organization: Organization) -> None:
    other = await organization.server.organization()
    for method, path, body in [*ACTIONS, *(("GET", f"/v1/orgs/{{org}}/billing/{read}", {}) for read in READS)]:
        answer = await organization.call(method, path.replace("{org}", other.id), body)
        assert answer.refusal == (403, "forbidden"), path
    assert await charges(other) == []
