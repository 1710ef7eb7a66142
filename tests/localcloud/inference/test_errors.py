"""Every row of the inference API's table of errors (section 7), in the shape of the family that was called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.inference import CHAT, MESSAGES, call, chat, message, ok, refusal
from tests.localcloud.support.server import UNSENT, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Organization, Server

both_families = pytest.mark.parametrize("path", [CHAT, MESSAGES])


def body_of(path: str, model: str = "echo") -> dict[str, Any]:
    return (chat if path == CHAT else message)("hello", model)


@pytest.fixture(autouse=True)
async def _as_it_was(server: Server) -> AsyncIterator[None]:
    yield
    await server.ok("DELETE", "/faults")
    await server.ok("PATCH", "/settings", {"rateLimitPerSecond": None, "inferenceFloorCents": None})


@both_families
@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("refuse", (422, "invalid_request_error", None)),
        ("busy", (429, "rate_limit_error", "rate_limit_error")),
        ("down", (502, "api_error", "upstream_error")),
        ("full", (503, "api_error", "upstream_unavailable")),
        ("nothing-of-that-name", (404, "not_found_error", "model_not_found")),
    ],
)
async def test_models_fail_as_their_names_say(
    organization: Organization, path: str, model: str, row: tuple[int, str, str | None]
) -> None:
    assert refusal(await call(organization, "POST", path, body_of(path, model)), path) == row


@pytest.mark.parametrize(("path", "model"), [(CHAT, "messages-only"), (MESSAGES, "chat-only"), (MESSAGES, "tools")])
async def test_a_model_that_does_not_serve_the_family_is_400(organization: Organization, path: str, model: str) -> None:
    answer = await call(organization, "POST", path, body_of(path, model))
    assert refusal(answer, path) == (400, "invalid_request_error", "unsupported_api")


@both_families
async def test_a_bad_body_is_400_without_a_code(organization: Organization, path: str) -> None:
    answer = await call(organization, "POST", path, {"model": "echo"})
    assert refusal(answer, path) == (400, "invalid_request_error", None)


@both_families
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "missing_api_key"),
        ({"Authorization": ""}, "missing_api_key"),
        ({"Authorization": "Bearer "}, "missing_api_key"),
        ({"Authorization": "Basic eDp5"}, "missing_api_key"),
        ({"x-api-key": ""}, "missing_api_key"),
        ({"Authorization": "Bearer or_wrong"}, "invalid_api_key"),
        ({"Authorization": "Bearer sk-something"}, "invalid_api_key"),
        ({"Authorization": "Bearer \u00fc"}, "invalid_api_key"),
        ({"x-api-key": "vl_wrong"}, "invalid_api_key"),
        ({"Authorization": "Bearer unused", "x-api-key": "unused"}, "invalid_api_key"),
        ({"Authorization": "Bearer unused", "x-api-key": ""}, "invalid_api_key"),
    ],
)
async def test_a_missing_or_invalid_key_is_401(
    organization: Organization, path: str, headers: dict[str, str], code: str
) -> None:
    answer = await call(organization, "POST", path, body_of(path), headers=headers)
    assert refusal(answer, path) == (401, "authentication_error", code)
    assert answer.headers["www-authenticate"] == "Bearer"


@both_families
async def test_a_revoked_key_is_401(organization: Organization, path: str) -> None:
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k", "scopes": ["inference"]})
    assert (await call(organization, "POST", path, body_of(path), key=made["key"])).status == 200
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{made['id']}")
    answer = await call(organization, "POST", path, body_of(path), key=made["key"])
    assert refusal(answer, path) == (401, "authentication_error", "revoked_api_key")


@both_families
async def test_an_expired_key_is_401_on_the_clouds_clock(organization: Organization, path: str) -> None:
    body = {"name": "k", "scopes": ["inference"], "expiresInSeconds": 60}
    key = (await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", body))["key"]
    await organization.server.advance(59)
    assert (await call(organization, "POST", path, body_of(path), key=key)).status == 200
    await organization.server.advance(1)
    answer = await call(organization, "POST", path, body_of(path), key=key)
    assert refusal(answer, path) == (401, "authentication_error", "expired_api_key")


@both_families
async def test_a_user_session_is_no_api_key(organization: Organization, path: str) -> None:
    answer = await call(organization, "POST", path, body_of(path), key=organization.user_session_token)
    assert refusal(answer, path) == (401, "authentication_error", "invalid_api_key")


@both_families
async def test_a_balance_below_the_floor_is_402(organization: Organization, path: str) -> None:
    change = f"/orgs/{organization.id}"
    await organization.server.ok("PATCH", change, {"balanceCents": 0})
    assert (await call(organization, "POST", path, body_of(path))).status == 200
    await organization.server.ok("PATCH", change, {"balanceCents": -1})
    answer = await call(organization, "POST", path, body_of(path))
    assert refusal(answer, path) == (402, "insufficient_quota", "insufficient_balance")
    await organization.server.ok("PATCH", change, {"autoStopFloorCents": -10})
    assert (await call(organization, "POST", path, body_of(path))).status == 200


async def test_accrued_usage_counts_against_the_floor(organization: Organization) -> None:
    await organization.ok("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    await organization.server.advance(10 * 3600)
    available = (await organization.ok("GET", "/v1/orgs/{org}/billing/balance"))["availableCents"]
    assert available < 100_000
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"autoStopFloorCents": available + 1})
    answer = await call(organization, "POST", CHAT, chat("x"))
    assert refusal(answer) == (402, "insufficient_quota", "insufficient_balance")


async def test_the_floor_of_inference_is_a_setting(organization: Organization) -> None:
    await organization.server.ok("PATCH", "/settings", {"inferenceFloorCents": 100_001})
    answer = await call(organization, "POST", CHAT, chat("x"))
    assert refusal(answer) == (402, "insufficient_quota", "insufficient_balance")
    await organization.server.ok("PATCH", "/settings", {"inferenceFloorCents": 100_000})
    assert (await call(organization, "POST", CHAT, chat("x"))).status == 200


@pytest.mark.parametrize(("method", "path"), [("POST", CHAT), ("POST", MESSAGES), ("GET", "/v1/models")])
@pytest.mark.parametrize(("suspended", "code"), [(True, "account_suspended"), ("review", "account_unavailable")])
async def test_an_account_that_is_suspended_or_under_review_is_403(
    organization: Organization, method: str, path: str, suspended: object, code: str
) -> None:
    body = body_of(path) if method == "POST" else UNSENT
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"suspended": suspended})
    assert refusal(await call(organization, method, path, body), path) == (403, "permission_error", code)
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"suspended": False})
    assert (await call(organization, method, path, body)).status == 200


@pytest.mark.parametrize(("method", "path"), [("POST", CHAT), ("POST", MESSAGES), ("GET", "/v1/models")])
async def test_a_key_without_the_scope_is_403(organization: Organization, method: str, path: str) -> None:
    body = {"name": "k", "scopes": ["vms:read", "vms:write", "clusters:write", "billing:read"]}
    key = (await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", body))["key"]
    answer = await request(method, organization.server.ready["inferenceUrl"] + path, raw=b"not JSON", key=key)
    assert refusal(answer, path) == (403, "permission_error", "insufficient_scope")


@both_families
async def test_a_body_over_10_mib_is_413_and_one_of_10_mib_is_not(organization: Organization, path: str) -> None:
    limit = 10 * 1024 * 1024
    body = b'{"model":"echo","max_tokens":1,"messages":[{"role":"user","content":"x"}],"pad":"%s"}'
    fits = body % (b"x" * (limit - len(body) + 2))
    assert len(fits) == limit
    assert (await call(organization, "POST", path, raw=fits)).status == 200
    answer = await call(organization, "POST", path, raw=fits + b" ")
    assert refusal(answer, path) == (413, "invalid_request_error", "payload_too_large")
    answer = await call(organization, "POST", path, raw=b" " * (5 * limit))
    assert refusal(answer, path) == (413, "invalid_request_error", "payload_too_large")


@both_families
async def test_the_rate_limit_of_the_management_api_is_none_of_inference(organization: Organization, path: str) -> None:
    await organization.server.ok("PATCH", "/settings", {"rateLimitPerSecond": 0.001})
    assert [(await call(organization, "POST", path, body_of(path))).status for _ in range(3)] == [200, 200, 200]
    assert [(await organization.call("GET", "/v1/whoami")).status for _ in range(2)] == [200, 429]


@both_families
@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "authentication_error", "invalid_api_key"),
        (402, "insufficient_quota", "insufficient_balance"),
        (404, "not_found_error", None),
        (413, "invalid_request_error", "payload_too_large"),
        (422, "invalid_request_error", None),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "api_error", None),
        (502, "api_error", "upstream_error"),
        (503, "api_error", "upstream_unavailable"),
        (529, "api_error", None),
    ],
)
async def test_a_fault_answers_in_this_shape(
    organization: Organization, path: str, status: int, kind: str, code: str | None
) -> None:
    fault = {"operation": f"POST {path}", "effect": {"status": status, "headers": {"Retry-After": 3}}}
    await organization.server.ok("POST", "/faults", fault)
    answer = await call(organization, "POST", path, body_of(path))
    assert refusal(answer, path) == (status, kind, code)
    assert answer.headers["retry-after"] == "3"


@pytest.mark.parametrize(
    ("method", "path", "row"),
    [
        ("GET", "/v1/nothing", (404, "not_found_error", None)),
        ("GET", "/", (404, "not_found_error", None)),
        ("GET", "/v1/models/", (404, "not_found_error", None)),
        ("GET", "/v1/models/%00%ff", (404, "not_found_error", "model_not_found")),
        ("GET", "/v1/models/nope", (404, "not_found_error", "model_not_found")),
        ("GET", "/v1/models/someone%2Fmodel", (404, "not_found_error", "model_not_found")),
        ("GET", "/v1/whoami", (404, "not_found_error", None)),
        ("GET", "/_localcloud/clock", (404, "not_found_error", None)),
        ("GET", CHAT, (405, "invalid_request_error", None)),
        ("DELETE", MESSAGES, (405, "invalid_request_error", None)),
        ("POST", "/v1/models", (405, "invalid_request_error", None)),
    ],
)
async def test_a_bad_address_gets_the_shape_of_this_api(
    organization: Organization, method: str, path: str, row: tuple[int, str, str | None]
) -> None:
    answer = await call(organization, method, path)
    assert refusal(answer, path) == row
    assert row[0] != 405 or answer.headers["allow"]


async def test_the_management_port_does_not_serve_inference(organization: Organization) -> None:
    answer = await organization.call("POST", CHAT, chat("x"))
    assert answer.refusal == (404, "not_found")


async def test_the_account_is_looked_at_before_the_body(organization: Organization) -> None:
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": -1})
    assert (await call(organization, "POST", CHAT, raw=b"not JSON")).status == 402
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"suspended": True})
    assert (await call(organization, "POST", CHAT, raw=b"not JSON")).status == 403


async def test_models_can_be_listed_without_funds(organization: Organization) -> None:
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": -1})
    assert (await ok(organization, "GET", "/v1/models"))["data"]


async def test_405_names_every_method_that_is_served(organization: Organization) -> None:
    for path, allowed in (("/v1/batches", "GET, POST"), ("/v1/files/file-x", "DELETE, GET"), (CHAT, "POST")):
        assert (await call(organization, "PATCH", path)).headers["allow"] == allowed
