"""Who may pass to a workload: section 5, "Workload endpoints"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support import clusters
from tests.localcloud.support.gateway import Workload, running
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import own_node

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

KEY_HEADERS = [("Authorization", "Bearer {key}"), ("authorization", "bearer {key}"), ("x-api-key", "{key}")]


@pytest.mark.parametrize(("name", "value"), KEY_HEADERS)
async def test_a_private_endpoint_takes_the_key_and_keeps_it_to_itself(
    organization: Organization, name: str, value: str
) -> None:
    workload = await running(organization)
    key = organization.api_key
    seen = await workload.echoed("GET", "/", headers={name: value.format(key=key), "X-Other": "stays"})
    assert seen["headers"]["x-other"] == "stays"
    assert seen["headers"].keys().isdisjoint({"authorization", "x-api-key"})
    assert key not in str(seen)


async def test_of_two_keys_the_bearer_token_decides_and_neither_is_forwarded(organization: Organization) -> None:
    workload = await running(organization)
    key = organization.api_key
    for other in (key, "or_wrong", "of-nobody"):
        seen = await workload.echoed("GET", "/", headers={"Authorization": f"Bearer {key}", "x-api-key": other})
        assert seen["headers"].keys().isdisjoint({"authorization", "x-api-key"})
    for wrong in ("or_wrong", "vl_wrong", organization.user_session_token):
        answer = await workload.call("GET", "/", headers={"Authorization": f"Bearer {wrong}", "x-api-key": key})
        assert answer.refusal == (401, "unauthorized")


@pytest.mark.parametrize("token", ["of-the-application", "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVk", "OR_", "a b"])
async def test_beside_x_api_key_a_bearer_token_that_is_no_key_is_the_applications_own(
    organization: Organization, token: str
) -> None:
    workload = await running(organization)
    own = {"Authorization": f"Bearer {token}", "x-api-key": organization.api_key}
    seen = (await workload.echoed("GET", "/", headers=own))["headers"]
    assert seen["authorization"] == f"Bearer {token}"
    assert "x-api-key" not in seen


async def test_beside_x_api_key_an_empty_bearer_token_is_nobodys(organization: Organization) -> None:
    workload = await running(organization)
    headers = {"Authorization": "Bearer ", "x-api-key": organization.api_key}
    assert (
        (await workload.echoed("GET", "/", headers=headers))["headers"]
        .keys()
        .isdisjoint({"authorization", "x-api-key"})
    )


@pytest.mark.parametrize("key", ["", "or_wrong", "of-nobody"])
async def test_the_applications_own_token_admits_nobody(organization: Organization, key: str) -> None:
    workload = await running(organization)
    own = {"Authorization": "Bearer of-the-application", "x-api-key": key}
    assert (await workload.call("GET", "/", headers=own)).refusal == (401, "unauthorized")


async def test_beside_x_api_key_of_another_organization_the_applications_own_token_is_403(
    organization: Organization, server: Server
) -> None:
    workload = await running(organization)
    own = {"Authorization": "Bearer of-the-application", "x-api-key": (await server.organization()).api_key}
    assert (await workload.call("GET", "/", headers=own)).refusal == (403, "forbidden")


async def test_an_authorization_that_is_no_bearer_token_is_the_applications_own(organization: Organization) -> None:
    workload = await running(organization)
    own = {"Authorization": "Basic dTpw", "x-api-key": organization.api_key}
    assert (await workload.echoed("GET", "/", headers=own))["headers"]["authorization"] == "Basic dTpw"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer or_" + "0" * 48},
        {"x-api-key": "or_" + "0" * 48},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer of-the-application"},
        {"Authorization": "Basic dTpw"},
        {"x-api-key": "or_\N{LATIN SMALL LETTER E WITH ACUTE}"},
    ],
)
async def test_a_private_endpoint_is_401_without_a_valid_key(
    organization: Organization, headers: dict[str, str]
) -> None:
    workload = await running(organization)
    answer = await workload.call("GET", "/", headers=headers)
    assert (answer.refusal, answer.headers["www-authenticate"]) == ((401, "unauthorized"), "Bearer")


async def test_a_user_session_is_no_key_for_an_endpoint(organization: Organization) -> None:
    workload = await running(organization)
    assert (await workload.call("GET", "/", key=organization.user_session_token)).refusal == (401, "unauthorized")


async def test_a_legacy_key_opens_an_endpoint(organization: Organization) -> None:
    legacy = (await organization.server.ok("POST", f"/orgs/{organization.id}/legacy-key"))["apiKey"]
    assert (await (await running(organization)).call("GET", "/", key=legacy)).status == 200


async def test_a_key_needs_no_scope_for_an_endpoint(organization: Organization) -> None:
    narrow = await organization.ok(
        "POST", "/v1/orgs/{org}/api-keys/create", {"name": "narrow", "scopes": ["billing:read"]}
    )
    assert (await (await running(organization)).call("GET", "/", key=narrow["key"])).status == 200


async def test_a_key_of_another_organization_is_403(organization: Organization, server: Server) -> None:
    workload = await running(organization)
    stranger = await server.organization()
    assert (await workload.call("GET", "/", key=stranger.api_key)).refusal == (403, "forbidden")


async def test_a_revoked_key_opens_nothing_from_the_next_request_on(organization: Organization) -> None:
    workload = await running(organization)
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "short", "scopes": []})
    assert (await workload.call("GET", "/", key=made["key"])).status == 200
    await organization.call("DELETE", f"/v1/orgs/{{org}}/api-keys/{made['id']}")
    assert (await workload.call("GET", "/", key=made["key"])).refusal == (401, "unauthorized")


async def test_a_key_expires_on_the_clouds_clock_also_where_it_was_just_used(organization: Organization) -> None:
    workload = await running(organization)
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "short", "expiresInSeconds": 10})
    assert (await workload.call("GET", "/", key=made["key"])).status == 200
    await organization.server.advance(9)
    assert (await workload.call("GET", "/", key=made["key"])).status == 200
    await organization.server.advance(1)
    assert (await workload.call("GET", "/", key=made["key"])).refusal == (401, "unauthorized")


async def test_use_at_an_endpoint_shows_as_the_keys_last_use(organization: Organization) -> None:
    workload = await running(organization)
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "seen"})
    assert (await workload.call("GET", "/", key=made["key"])).status == 200
    used = await organization.server.advance(60)
    assert (await workload.call("GET", "/", key=made["key"])).status == 200
    keys = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    assert next(key["lastUsedAt"] for key in keys if key["id"] == made["id"]) == used


async def test_a_public_endpoint_takes_anything_and_leaves_authorization_alone(organization: Organization) -> None:
    workload = await running(organization, public=True)
    assert (await workload.call("GET", "/", headers={})).status == 200
    own = {"Authorization": "Bearer of-the-application", "x-api-key": "too"}
    seen = (await workload.echoed("GET", "/", headers=own))["headers"]
    assert (seen["authorization"], seen["x-api-key"]) == ("Bearer of-the-application", "too")


async def test_visibility_changes_with_the_next_request(organization: Organization) -> None:
    workload = await running(organization)
    for public, status in ((True, 200), (False, 401), (True, 200)):
        await organization.ok("POST", f"/v1/vms/{workload.id}/visibility", {"public": public})
        assert (await workload.call("GET", "/", headers={})).status == status


async def test_a_cluster_takes_its_deploy_token_and_keys_of_its_organization(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await clusters.running(organization)
    detail = await clusters.detail(organization, cluster_id)
    other = await clusters.detail(organization, await clusters.running(organization, name="other"))
    workload = Workload(organization, cluster_id, detail["endpointUrl"].split("/")[2])
    for key in (detail["deployToken"], organization.api_key):
        seen = await workload.echoed("GET", "/", key=key)
        assert "authorization" not in seen["headers"]
    assert (await workload.call("GET", "/", headers={"x-api-key": detail["deployToken"]})).status == 200
    both = {"Authorization": f"Bearer {detail['deployToken']}", "x-api-key": "of-nobody"}
    assert (
        (await workload.echoed("GET", "/", headers=both))["headers"].keys().isdisjoint({"authorization", "x-api-key"})
    )
    own = {"Authorization": "Bearer of-the-application", "x-api-key": detail["deployToken"]}
    assert (await workload.echoed("GET", "/", headers=own))["headers"]["authorization"] == own["Authorization"]
    assert (await workload.call("GET", "/", key=other["deployToken"])).refusal == (401, "unauthorized")
    assert (await workload.call("GET", "/", headers={})).refusal == (401, "unauthorized")


async def test_an_imported_state_has_its_own_keys_and_endpoints(server: Server) -> None:
    before = await server.ok("GET", "/export")
    organization = await server.organization()
    workload = await running(organization)
    assert (await workload.call("GET", "/")).status == 200
    await server.ok("POST", "/import", before)
    assert (await workload.call("GET", "/")).refusal == (404, "not_found")


async def test_endpoints_have_no_faults_and_are_not_in_the_request_log(
    organization: Organization, server: Server
) -> None:
    workload = await running(organization)
    seen = (await server.ok("GET", "/requests"))["items"][-1]["seq"]
    await server.ok("POST", "/faults", {"operation": "GET /v1/vms/{id}", "effect": {"status": 500}})
    answer = await request(
        "GET", f"{workload.gateway}/v1/vms/{workload.id}", key=organization.api_key, headers={"Host": workload.host}
    )
    assert answer.status == 200
    assert (await server.ok("GET", f"/requests?after={seen}"))["items"] == []
    await server.ok("DELETE", "/faults")
