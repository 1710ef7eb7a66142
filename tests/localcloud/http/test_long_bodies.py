"""A request whose body takes its time is refused if its caller has lost their rights by the end of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.http.authentication import LONG_SECONDS
from tests.localcloud.support.inference import CHAT, call, chat
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.localcloud.support.server import Answer, Organization

POD = {"image": "nginx", "gpuModelId": "h100"}
PODS = "POST /v1/pods"

pytestmark = pytest.mark.usefixtures("no_faults_left")


async def begun(organization: Organization, operation: str, sent: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
    """A request that has been admitted, and whose body is read only after LONG_SECONDS."""
    server = organization.server
    whose = {"organizationId": organization.id, "operation": operation}
    made = await server.ok("POST", "/faults", {**whose, "effect": {"delaySeconds": LONG_SECONDS + 0.5}})
    answer = asyncio.create_task(sent)

    async def seen() -> int:
        faults = (await server.ok("GET", "/faults"))["items"]
        return sum(fault["seen"] for fault in faults if fault["id"] == made["id"])

    await eventually(seen, lambda count: count == 1)
    return answer


async def another_key(organization: Organization) -> tuple[str, str]:
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "stolen"})
    return made["id"], made["key"]


async def test_it_is_answered_as_ever_if_the_key_is_still_valid(organization: Organization) -> None:
    answer = await begun(organization, PODS, organization.call("POST", "/v1/pods", POD))
    assert (await answer).status == 200


async def test_a_key_that_is_revoked_meanwhile_creates_nothing(organization: Organization) -> None:
    key_id, key = await another_key(organization)
    answer = await begun(organization, PODS, organization.call("POST", "/v1/pods", POD, key=key))
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key_id}")
    assert (await answer).refusal == (401, "unauthorized")
    assert (await organization.ok("GET", "/v1/orgs/{org}/billing/usage"))["burnPerHourCents"] == 0


async def test_a_key_that_is_revoked_meanwhile_asks_no_model(organization: Organization) -> None:
    key_id, key = await another_key(organization)
    answer = await begun(organization, f"POST {CHAT}", call(organization, "POST", CHAT, chat("hello"), key=key))
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key_id}")
    assert (await answer).body["error"]["code"] == "revoked_api_key"


async def test_a_role_that_is_taken_meanwhile_counts_no_more(organization: Organization) -> None:
    made = await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": "member"})
    answer = await begun(organization, PODS, organization.call("POST", "/v1/pods", POD, key=made["userSessionToken"]))
    path = f"/v1/orgs/{{org}}/members/{made['userId']}"
    await organization.ok("PATCH", path, {"role": "viewer"}, key=organization.user_session_token)
    assert (await answer).refusal == (403, "forbidden")
