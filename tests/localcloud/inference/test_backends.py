"""Catalog backends: what is kept of the servers behind a model id (section 2, "misc requests")."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localcloud.support.deployments import BACKENDS
from tests.localcloud.support.inference import CHAT, chat, ok
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.server import UNSENT, Organization


async def add(organization: Organization, endpoint: str, model: str = "mine", /, **more: Any) -> Any:
    body = {
        "provider": "openai_compatible",
        "ref": "echo",
        "endpoint": endpoint,
        "nativeFamilies": ["chat_completions", "messages"],
        **more,
    }
    return await organization.ok("POST", BACKENDS.format(model=model), body)


async def test_a_backend_is_shown_without_its_key(organization: Organization) -> None:
    made = await add(
        organization,
        "https://models.example/v1",
        provider="bedrock",
        auth="api_key",
        apiKey="secret-of-the-server",
        transport="privatelink",
        weight=3,
        maxConcurrency=8,
        nativeFamilies=["messages"],
    )
    now = (await organization.server.ok("GET", "/clock"))["now"]
    assert made.pop("id").startswith("bke_")
    assert made == {
        "modelId": "mine",
        "provider": "bedrock",
        "ref": "echo",
        "endpoint": "https://models.example/v1",
        "nativeFamilies": ["messages"],
        "auth": "api_key",
        "transport": "privatelink",
        "weight": 3,
        "maxConcurrency": 8,
        "createdAt": now,
    }


async def test_backends_are_listed_read_and_removed(organization: Organization) -> None:
    path = BACKENDS.format(model="mine")
    assert (await organization.call("GET", path)).refusal == (404, "not_found")
    made = [await add(organization, f"http://127.0.0.1:{port}/v1") for port in (1, 2)]
    assert await organization.ok("GET", path) == {"items": made}
    assert await organization.ok("GET", f"{path}/{made[1]['id']}") == made[1]
    answer = await organization.call("DELETE", f"{path}/{made[0]['id']}")
    assert (answer.status, answer.raw) == (204, b"")
    assert await organization.ok("GET", path) == {"items": made[1:]}
    for method, body in (("GET", UNSENT), ("PATCH", {}), ("DELETE", UNSENT)):
        for absent in (f"{path}/{made[0]['id']}", f"/v1/inference/models/other/backends/{made[1]['id']}"):
            assert (await organization.call(method, absent, body)).refusal == (404, "not_found")


async def test_a_backend_is_changed_field_by_field(organization: Organization) -> None:
    made = await add(organization, "http://127.0.0.1:9/v1", weight=3)
    path = f"{BACKENDS.format(model='mine')}/{made['id']}"
    assert await organization.ok("PATCH", path, {}) == made
    assert await organization.ok("PATCH", path, dict.fromkeys(("provider", "ref", "weight", "auth"))) == made
    change = {
        "provider": "vertex",
        "ref": "other",
        "endpoint": "https://models.example/v1",
        "nativeFamilies": ["messages"],
        "auth": "gcp_oauth",
        "transport": "tunnel",
        "weight": 0,
        "maxConcurrency": 7,
    }
    for field, value in change.items():
        made[field] = value
        assert await organization.ok("PATCH", path, {field: value}) == made
    assert await organization.ok("GET", path) == made
    for field, wrong in (
        ("weight", -1),
        ("endpoint", "nowhere"),
        ("nativeFamilies", []),
        ("auth", "guess"),
        ("ref", 7),
    ):
        assert (await organization.call("PATCH", path, {field: wrong})).refusal == (400, "invalid_request")
    assert await organization.ok("GET", path) == made


async def test_a_backend_has_defaults(organization: Organization) -> None:
    made = await add(organization, "http://127.0.0.1:9/v1")
    assert (made["auth"], made["transport"], made["weight"], made["maxConcurrency"]) == ("none", "direct", 0, 0)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("provider", ["azure_openai", "bedrock", "vertex", "openai_compatible"]),
        ("auth", ["none", "api_key", "aws_sigv4", "gcp_oauth"]),
        ("transport", ["direct", "tunnel", "privatelink"]),
    ],
)
async def test_every_choice_of_a_backend_is_taken(organization: Organization, field: str, values: list[str]) -> None:
    made = [await add(organization, "http://127.0.0.1:9/v1", **{field: value}) for value in values]
    assert [one[field] for one in made] == values


async def test_a_built_in_model_has_a_backend_that_stays(organization: Organization) -> None:
    path = BACKENDS.format(model="chat-only")
    (built_in,) = (await organization.ok("GET", path))["items"]
    assert (built_in["ref"], built_in["weight"], built_in["nativeFamilies"]) == ("chat-only", 0, ["chat_completions"])
    assert await organization.ok("GET", f"{path}/{built_in['id']}") == built_in
    assert (await organization.call("DELETE", f"{path}/{built_in['id']}")).refusal == (409, "conflict")
    assert (await organization.call("PATCH", f"{path}/{built_in['id']}", {"weight": 1})).refusal == (409, "conflict")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("provider", "mine"),
        ("provider", None),
        ("ref", None),
        ("endpoint", None),
        ("nativeFamilies", None),
        ("ref", ""),
        ("ref", "x" * 2001),
        ("endpoint", ""),
        ("endpoint", "models.example/v1"),
        ("endpoint", "ftp://models.example/v1"),
        ("endpoint", "http:///v1"),
        ("endpoint", "http://models.example:99999/v1"),
        ("endpoint", "http://models.example/v1?x=1"),
        ("endpoint", "http://models.example/v 1"),
        ("endpoint", "http://me:secret@models.example/v1"),
        ("nativeFamilies", []),
        ("nativeFamilies", ["embeddings"]),
        ("nativeFamilies", "messages"),
        ("auth", "basic"),
        ("apiKey", "a\nb"),
        ("apiKey", "k" * 10_001),
        ("transport", "pigeon"),
        ("weight", -1),
        ("weight", "1"),
        ("weight", 2**40),
        ("maxConcurrency", -1),
        ("maxConcurrency", 1.5),
    ],
)
async def test_a_bad_field_is_400(organization: Organization, field: str, value: object) -> None:
    body = {
        "provider": "vertex",
        "ref": "r",
        "endpoint": "https://models.example/v1",
        "nativeFamilies": ["messages"],
        field: value,
    }
    answer = await organization.call("POST", BACKENDS.format(model="mine"), body)
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith(field)


async def test_a_model_id_may_have_slashes(organization: Organization) -> None:
    model, quoted = "meta-llama/Llama-3", "meta-llama%2FLlama-3"
    async with ModelServer() as behind:
        made = await add(organization, behind.url, quoted)
        assert made["modelId"] == model
        path = BACKENDS.format(model=quoted)
        assert await organization.ok("GET", path) == {"items": [made]}
        assert (await organization.ok("PATCH", f"{path}/{made['id']}", {"weight": 1}))["weight"] == 1
        assert (await ok(organization, "GET", f"/v1/models/{quoted}"))["id"] == model
        assert model in [each["id"] for each in (await ok(organization, "GET", "/v1/models"))["data"]]
        assert (await ok(organization, "POST", CHAT, chat("x", model)))["model"] == model
    assert (await organization.call("DELETE", f"{path}/{made['id']}")).status == 204


_BAD_PATHS = ["%2Fa", "a%2F", "a%2F%2Fb", "a%2F.", "a%2F..", "a%2F..%2Fb", "%2E%2E%2Fa", "%2F"]


@pytest.mark.parametrize("model", ["%00", "a%20b", "-x", "x" * 201, "x%2F" * 67, *_BAD_PATHS])
async def test_a_bad_model_id_is_400(organization: Organization, model: str) -> None:
    answer = await organization.call("GET", BACKENDS.format(model=model))
    assert answer.refusal == (400, "invalid_request")


async def test_backends_take_org_write_or_an_admin(organization: Organization) -> None:
    path = BACKENDS.format(model="echo")
    for scopes, status in ((["org:write"], 200), (["inference", "clusters:write"], 403)):
        body = {"name": "k", "scopes": scopes}
        key = (await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", body))["key"]
        assert (await organization.call("GET", path, key=key)).status == status
    for role, status in (("owner", 200), ("admin", 200), ("member", 403), ("viewer", 403)):
        session = await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": role})
        assert (await organization.call("GET", path, key=session["userSessionToken"])).status == status
