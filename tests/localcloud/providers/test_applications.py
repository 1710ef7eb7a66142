"""How an organization becomes a provider: its application and what the platform makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.provider import community_node, enrol, new_token, provider_nodes
from tests.localcloud.support.workloads import emails, set_organization

if TYPE_CHECKING:
    from tests.localcloud.support.server import Answer, Organization

APPLY = "/v1/orgs/{org}/provider/apply"
BAD_NOTES = [None, "", " \n\t", 1, True, ["why"], {"text": "why"}, "x" * 10_001]


async def apply(organization: Organization, note: str = "We have 40 racks.\nThey are idle.") -> Answer:
    return await organization.call("POST", APPLY, {"note": note})


async def standing(organization: Organization) -> Any:
    return await organization.ok("GET", "/v1/orgs/{org}/provider/status")


async def subjects(organization: Organization) -> list[str]:
    return [mail["subject"] for mail in await emails(organization)]


async def test_who_never_applied_is_no_provider_and_has_no_application(organization: Organization) -> None:
    assert await standing(organization) == {
        "isProvider": False,
        "applicationStatus": None,
        "appliedAt": None,
        "decidedAt": None,
    }


async def test_an_application_is_pending_until_it_is_approved(organization: Organization) -> None:
    answer = await apply(organization)
    assert (answer.status, answer.raw) == (204, b"")
    applied_at = await organization.server.advance(0)
    pending = {"isProvider": False, "applicationStatus": "pending", "appliedAt": applied_at, "decidedAt": None}
    assert await standing(organization) == pending
    decided_at = await organization.server.advance(3600)
    await set_organization(organization, provider=True)
    approved = {"isProvider": True, "applicationStatus": "approved", "appliedAt": applied_at, "decidedAt": decided_at}
    assert await standing(organization) == approved
    assert await subjects(organization) == ["Test is a provider"]


async def test_a_rejected_organization_may_apply_again(organization: Organization) -> None:
    await apply(organization)
    await set_organization(organization, provider=False)
    rejected = await standing(organization)
    assert (rejected["isProvider"], rejected["applicationStatus"]) == (False, "rejected")
    assert await subjects(organization) == ["Test did not become a provider"]
    applied_at = await organization.server.advance(60)
    assert (await apply(organization)).status == 204
    again = {"isProvider": False, "applicationStatus": "pending", "appliedAt": applied_at, "decidedAt": None}
    assert await standing(organization) == again


async def test_applying_again_while_pending_keeps_one_application(organization: Organization) -> None:
    await apply(organization)
    first = await standing(organization)
    await organization.server.advance(60)
    assert (await apply(organization, "We have 41 racks.")).status == 204
    assert await standing(organization) == first


async def test_a_provider_cannot_apply(organization: Organization) -> None:
    await set_organization(organization, provider=True)
    assert (await apply(organization)).refusal == (409, "conflict")
    assert (await standing(organization))["applicationStatus"] is None, "made a provider without having applied"


async def test_a_decision_that_changes_nothing_is_told_to_nobody(organization: Organization) -> None:
    await set_organization(organization, provider=False)
    await set_organization(organization, provider=True)
    await set_organization(organization, provider=True)
    assert await subjects(organization) == ["Test is a provider"]


async def test_who_is_no_longer_a_provider_keeps_its_nodes_and_enrols_no_more(provider: Organization) -> None:
    node_id = await community_node(provider)
    token = await new_token(provider)
    await set_organization(provider, provider=False)
    assert (await standing(provider))["isProvider"] is False
    assert [node["id"] for node in await provider_nodes(provider)] == [node_id]
    assert (await enrol(provider, token["token"])).refusal == (403, "forbidden")
    assert (await provider.call("GET", "/v1/orgs/{org}/provider/tokens")).refusal == (403, "forbidden")
    assert (await subjects(provider))[-1] == "Test is no longer a provider"
    assert (await apply(provider)).status == 204


@pytest.mark.parametrize("note", BAD_NOTES)
async def test_a_note_that_says_nothing_is_400(organization: Organization, note: object) -> None:
    assert (await organization.call("POST", APPLY, {"note": note})).refusal == (400, "invalid_request")
    assert (await standing(organization))["applicationStatus"] is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'"note"', b"[" * 100_000, b'{"note": "\xff"}'])
async def test_a_body_that_is_no_application_is_400(organization: Organization, raw: bytes) -> None:
    assert (await organization.call("POST", APPLY, raw=raw)).refusal == (400, "invalid_request")


async def test_an_unknown_field_of_an_application_is_overlooked(organization: Organization) -> None:
    assert (await organization.call("POST", APPLY, {"note": "Racks.", "racks": 40})).status == 204


async def test_the_application_of_another_organization_is_403(organization: Organization) -> None:
    other = await organization.server.organization()
    path = f"/v1/orgs/{other.id}/provider"
    assert (await organization.call("POST", f"{path}/apply", {"note": "Racks."})).refusal == (403, "forbidden")
    assert (await organization.call("GET", f"{path}/status")).refusal == (403, "forbidden")
