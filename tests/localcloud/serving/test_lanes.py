"""Lanes: who may enter one, and what joining takes (section 2, "Serving deployment")."""

from __future__ import annotations

import pytest

from tests.localcloud.support.deployments import (
    DEPLOYMENTS,
    change,
    create,
    delete,
    get,
    own_model,
    running,
    try_create,
)
from tests.localcloud.support.server import Organization

GREEN = {"rolloutRole": "green"}


async def test_joining_a_live_lane_takes_an_acknowledgement_and_the_refusal_names_its_members(
    organization: Organization,
) -> None:
    first = await create(organization)
    second = await create(organization, acknowledgeLaneJoin=True)
    answer = await try_create(organization)
    assert answer.refusal == (409, "LANE_INTENT_REQUIRED")
    assert first["id"] in answer.body["error"]
    assert second["id"] in answer.body["error"]
    assert (await try_create(organization, acknowledgeLaneJoin=False)).refusal == (409, "LANE_INTENT_REQUIRED")
    made = await create(organization, acknowledgeLaneJoin=True)
    assert "acknowledgeLaneJoin" not in made


async def test_the_refusal_names_the_members_of_a_crowded_lane_as_well(organization: Organization) -> None:
    lane = {"nodePool": "p" * 63, "replicasDesired": 0}
    made = [(await create(organization, **lane, acknowledgeLaneJoin=True))["id"] for _ in range(12)]
    answer = await try_create(organization, **lane)
    assert answer.refusal == (409, "LANE_INTENT_REQUIRED")
    assert [each for each in made if each not in answer.body["error"]] == []


async def test_the_first_of_a_lane_needs_no_acknowledgement_and_may_give_one(organization: Organization) -> None:
    await create(organization)
    await create(organization, maxPromptBytes=7, acknowledgeLaneJoin=True)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"publicModelId": "chat-only", "servedModelId": "chat-only"},
        {"nodePool": "gold"},
        {"minPromptBytes": 1},
        {"maxPromptBytes": 1000},
    ],
)
async def test_a_lane_is_a_model_a_pool_and_a_range_of_prompts(
    organization: Organization, elsewhere: dict[str, object]
) -> None:
    await create(organization)
    await create(organization, **elsewhere)
    assert (await try_create(organization, **elsewhere)).refusal == (409, "LANE_INTENT_REQUIRED")


async def test_no_pool_is_the_community_pool(organization: Organization) -> None:
    await create(organization)
    assert (await try_create(organization, nodePool="community")).refusal == (409, "LANE_INTENT_REQUIRED")


async def test_engine_and_gpus_make_no_other_lane(organization: Organization) -> None:
    await create(organization)
    answer = await try_create(organization, engine="sglang", gpuModelId="a100", version="v2")
    assert answer.refusal == (409, "LANE_INTENT_REQUIRED")


async def test_isolated_deployments_are_in_no_lane(organization: Organization) -> None:
    await create(organization, isolated=True)
    await create(organization)
    await create(organization, isolated=True)
    assert (await try_create(organization)).refusal == (409, "LANE_INTENT_REQUIRED")


async def test_a_draining_deployment_has_left_its_lane(organization: Organization) -> None:
    await delete(organization, await running(organization))
    await create(organization)


@pytest.mark.parametrize("model", ["own", "echo"])
async def test_lanes_are_an_organizations_own_and_show_nobody_elses_deployments(
    organization: Organization, other: Organization, model: str
) -> None:
    named = {"publicModelId": model, "servedModelId": model}
    for each in (organization, other):
        if model == "own":
            await own_model(each)
        answer = await try_create(each, **named, **GREEN)
        assert (answer.status, "dep_" in answer.body["error"]) == (400, False)
        await create(each, **named)
        await create(each, **named, **GREEN)
    answer = await try_create(other, **named)
    assert answer.refusal == (409, "LANE_INTENT_REQUIRED")
    theirs = [each["id"] for each in (await organization.ok("GET", DEPLOYMENTS))["items"]]
    assert [deployment for deployment in theirs if deployment in answer.body["error"]] == []


async def test_a_green_needs_a_lane_that_has_something_to_replace(organization: Organization) -> None:
    answer = await try_create(organization, **GREEN)
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith("rolloutRole")
    await create(organization, isolated=True)
    assert (await try_create(organization, **GREEN)).refusal == (400, "invalid_request")
    await create(organization)
    assert (await create(organization, **GREEN))["rolloutRole"] == "green"


async def test_a_lane_has_one_live_green(organization: Organization) -> None:
    await create(organization)
    green = await create(organization, **GREEN)
    answer = await try_create(organization, **GREEN)
    assert answer.refusal == (409, "conflict")
    assert green["id"] in answer.body["error"]
    await delete(organization, green["id"])
    second = await create(organization, **GREEN)
    await organization.server.advance(2)
    await change(organization, second["id"], rolloutRole="")
    assert (await get(organization, second["id"]))["rolloutRole"] == ""
    await create(organization, **GREEN)


async def test_a_lane_of_a_green_alone_is_live(organization: Organization) -> None:
    blue = await create(organization)
    green = await create(organization, **GREEN)
    await delete(organization, blue["id"])
    answer = await try_create(organization)
    assert answer.refusal == (409, "LANE_INTENT_REQUIRED")
    assert green["id"] in answer.body["error"]
