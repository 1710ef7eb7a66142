"""`GET /v1/models`: what there is, and which families each model serves (section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.inference import call, ok, refusal

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

CHAT_ONLY, BOTH = ["chat_completions"], ["chat_completions", "messages"]
BUILT_IN = {
    "echo": BOTH,
    "chat-only": CHAT_ONLY,
    "messages-only": ["messages"],
    "tools": CHAT_ONLY,
    "refuse": BOTH,
    "busy": BOTH,
    "down": BOTH,
    "full": BOTH,
}


async def test_the_list_has_every_built_in_model_with_its_families(organization: Organization) -> None:
    listed = await ok(organization, "GET", "/v1/models")
    assert (listed["object"], listed["has_more"]) == ("list", False)
    assert (listed["first_id"], listed["last_id"]) == ("echo", "full")
    assert {model["id"]: model["supported_apis"] for model in listed["data"]} == BUILT_IN


async def test_a_model_has_the_fields_of_both_clients(organization: Organization) -> None:
    model = await ok(organization, "GET", "/v1/models/chat-only")
    assert model == {
        "id": "chat-only",
        "object": "model",
        "created": 1767225600,
        "owned_by": "relay",
        "supported_apis": ["chat_completions"],
        "type": "model",
        "display_name": "chat-only",
        "created_at": "2026-01-01T00:00:00.000000Z",
    }
    assert model in (await ok(organization, "GET", "/v1/models"))["data"]


async def test_listing_models_needs_a_key(organization: Organization) -> None:
    for path in ("/v1/models", "/v1/models/echo"):
        answer = await call(organization, "GET", path, headers={})
        assert refusal(answer) == (401, "authentication_error", "missing_api_key")
        assert (await call(organization, "GET", path, headers={"x-api-key": organization.api_key})).status == 200


async def test_what_the_inference_port_serves_is_described_at_both_ports(organization: Organization) -> None:
    here = await ok(organization, "GET", "/openapi.json")
    everything = await organization.ok("GET", "/openapi.json")
    assert here["paths"].items() <= everything["paths"].items()
    chat = everything["paths"]["/v1/chat/completions"]["post"]
    assert chat["security"] == [{"key": []}, {"x-api-key": []}]
    assert "x-assumed" not in chat
    assert sorted(chat["responses"]["200"]["content"]) == ["application/json", "text/event-stream"]
    event = chat["responses"]["200"]["content"]["text/event-stream"]["schema"]
    assert (event["type"], event["required"]) == ("object", ["data"]), "a schema of each event, as clients read it"
    assert chat["responses"]["4XX"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/InferenceErrorBody"
    }
    assert everything["components"]["schemas"]["InferenceError"]["required"] == ["message", "type", "code"]
    assert everything["paths"]["/v1/messages"]["post"]["x-assumed"] is True
    schemas = everything["components"]["schemas"]
    assert schemas["ChatRequest"]["required"] == ["model", "messages"]
    assert schemas["MessagesRequest"]["required"] == ["model", "messages", "max_tokens"]
    assert schemas["ModelList"]["properties"].keys() >= {"object", "data"}
    assert "/v1/whoami" not in here["paths"]


async def test_a_stale_list_of_models_lacks_what_is_new(organization: Organization) -> None:
    fault = {
        "operation": "GET /v1/models",
        "organizationId": organization.id,
        "effect": {"staleSeconds": 5},
    }
    await organization.server.ok("POST", "/faults", fault)
    body = {"provider": "vertex", "ref": "r", "endpoint": "https://x.example/v1", "nativeFamilies": ["messages"]}
    await organization.ok("POST", "/v1/inference/models/new/backends", body)
    assert (await ok(organization, "GET", "/v1/models"))["last_id"] == "full"
    await organization.server.advance(5)
    assert (await ok(organization, "GET", "/v1/models"))["last_id"] == "new"
