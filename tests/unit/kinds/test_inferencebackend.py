"""How an InferenceBackend maps to a backend of a model, which is known by its fields alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud, NotFound, Unreadable
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebackend import InferenceBackend, InferenceBackendStatus
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Inputs, Look, Progress
from relay_operator.kinds.inferencebackend import InferenceBackends
from relay_wire.inference import Backend
from tests.unit.client.scripted import Reply, page, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


REQUIRED: dict[str, JsonValue] = {
    "modelId": "llama",
    "provider": "openai_compatible",
    "ref": "llama-3",
    "endpoint": "https://llama.example/v1",
    "nativeFamilies": ["messages", "chat_completions"],
}
WHOLE: dict[str, JsonValue] = {
    "auth": "api_key",
    "apiKeySecretRef": {"name": "upstream", "key": "key"},
    "transport": "tunnel",
    "weight": 3,
    "maxConcurrency": 8,
}
INTENT = intent("team-a-llama", "llama")
PATH = "/v1/inference/models/llama/backends"
ABSENT = Reply(404, b'{"error": "no such thing", "code": "not_found"}')


def kind() -> InferenceBackends:
    return InferenceBackends(parts())


def backing(part_of: str | None = None, /, **spec: JsonValue) -> InferenceBackend:
    metadata, status = {"name": "eu", "namespace": "team-a"}, {"partOf": part_of}
    return InferenceBackend.model_validate({"metadata": metadata, "spec": REQUIRED | spec, "status": status})


def row(**fields: JsonValue) -> Backend:
    told = {
        **REQUIRED,
        "id": "bke_1",
        "nativeFamilies": ["chat_completions", "messages"],
        "auth": "none",
        "transport": "direct",
        "weight": 0,
        "maxConcurrency": 0,
        "createdAt": "2026-01-01T00:00:00Z",
        **fields,
    }
    return Backend.model_validate(told)


def one(each: Backend) -> Reply:
    return Reply(body=each.model_dump_json(by_alias=True).encode())


@pytest.mark.parametrize("whole", [True, False])
async def test_every_field_is_sent_to_the_model_with_its_default(whole: bool) -> None:
    spec = WHOLE if whole else {}
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "bke_1", "nativeFamilies": null}'))
        inputs = Inputs(texts={"apiKeySecretRef": "s3cret\n"} if whole else {})
        made = await kind().create(cloud, backing(**spec), INTENT, inputs)
    assert (server.seen[0].method, server.seen[0].target, kind().identity(made)) == ("POST", PATH, ("bke_1", ""))
    chosen = WHOLE if whole else {"auth": "none", "transport": "direct", "weight": 0, "maxConcurrency": 0}
    sent = {name: value for name, value in (REQUIRED | chosen).items() if name not in {"modelId", "apiKeySecretRef"}}
    sent["nativeFamilies"] = ["chat_completions", "messages"]
    assert json.loads(server.seen[0].body) == sent | ({"apiKey": "s3cret"} if whole else {})


FIELDS: dict[str, JsonValue] = {
    "provider": "vertex",
    "ref": "llama-4",
    "endpoint": "https://other.example/v1",
    "nativeFamilies": ["messages"],
    "auth": "gcp_oauth",
    "transport": "privatelink",
    "weight": 1,
    "maxConcurrency": 1,
}


async def test_alike_is_what_has_every_field_that_is_sent_in_the_model_that_it_was_sent_to() -> None:
    others = [row(id=f"bke_{name}", **{name: value}) for name, value in FIELDS.items()]
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        backends, unbound = kind(), row(id="bke_2", maxConcurrency=None)
        server.will(page(row(), *others, cursor="1"), page(unbound))
        assert await backends.alike(cloud, backing("llama")) == (row(), unbound)
        for name, value in FIELDS.items():
            server.will(page(row(), *others))
            assert [each.id for each in await backends.alike(cloud, backing(**{name: value}))] == [f"bke_{name}"]
        server.will(ABSENT)
        assert await backends.alike(cloud, backing()) == ()
        assert await backends.find(cloud, "team-a-llama", UnclaimedIds()) == CannotTell()
        assert await backends.existing(cloud, backing()) is None
        assert await backends.living(cloud, UnclaimedIds()) == {}
    assert {each.target for each in server.seen} == {PATH, f"{PATH}?cursor=1"}
    assert kind().whole(backing()) == "llama"
    assert kind().made_at(row()) == datetime(2026, 1, 1, tzinfo=UTC)
    assert kind().made_at(row(createdAt=None)) is None


async def test_those_of_a_model_are_read_by_one_list_and_each_model_has_its_own() -> None:
    status = InferenceBackendStatus()
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        backends = kind()
        server.will(page(row(), row(id="bke_2")))
        assert await backends.observe(cloud, "llama/bke_1", status, Look.ROUTINE) == row()
        assert (await backends.observe(cloud, "llama/bke_2", status, Look.ROUTINE)).id == "bke_2"
        server.will(one(row(id="bke_3")))
        assert (await backends.observe(cloud, "llama/bke_3", status, Look.ROUTINE)).id == "bke_3"
        server.will(one(row()))
        assert await backends.observe(cloud, "llama/bke_1", status, Look.EXACT) == row()
        server.will(ABSENT, page(row()))
        assert await backends.observe(cloud, "llama/bke_1", status, Look.EXACT) == row(), "a cloud without that GET"
        server.will(ABSENT, ABSENT, ABSENT)
        with pytest.raises(NotFound):
            await backends.observe(cloud, "other/bke_1", status, Look.ROUTINE)
        with pytest.raises(Unreadable, match="does not name the model of bke_1"):
            await backends.observe(cloud, "bke_1", status, Look.EXACT)
    other = PATH.replace("llama", "other")
    assert [each.target for each in server.seen] == [
        *(PATH, f"{PATH}/bke_3", f"{PATH}/bke_1"),
        *(f"{PATH}/bke_1", PATH),
        *(other, f"{other}/bke_1", other),
    ]


async def test_what_differs_is_changed_in_place_and_nothing_else_is_sent() -> None:
    backends = kind()
    assert backends.changes(backing(), row(), running=True) == ()
    assert backends.changes(backing(weight=1), row(weight=None), running=True) == ()
    (change,) = backends.changes(backing(weight=2, ref="llama-4"), row(), running=True)
    assert (change.name, change.reason, json.loads(change.to)) == (
        "update",
        Reason.UPDATING,
        {"ref": "llama-4", "weight": 2},
    )
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(one(row()), Reply(status=204))
        await change.send(cloud)
        await backends.delete(cloud, "llama/bke_1")
    assert [(each.method, each.target) for each in server.seen] == [
        ("PATCH", f"{PATH}/bke_1"),
        ("DELETE", f"{PATH}/bke_1"),
    ]
    assert json.loads(server.seen[0].body) == {"ref": "llama-4", "weight": 2}


def test_the_model_and_how_it_is_authenticated_to_cannot_be_changed() -> None:
    backends = kind()
    assert backends.immutable(backing()) == {"modelId": "llama", "auth": "none", "apiKeySecretRef": False}
    assert backends.immutable(backing(**WHOLE))["apiKeySecretRef"] is True
    assert backends.differences(backing(), row()) == backends.differences(backing(), row(auth=None)) == ()
    assert backends.differences(backing(), row(modelId="x", auth="api_key")) == (
        "modelId: asked llama, has x",
        "auth: asked none, has api_key",
    )


@pytest.mark.parametrize(
    ("key", "fits"),
    [("k", True), ("k" * 10_000, True), ("k" * 10_001, False), ("", False), ("a b", False), ("ü", False)],
)
def test_what_is_no_key_is_told_and_not_shown(key: str, fits: bool) -> None:
    told = kind().unusable(backing(**WHOLE), Inputs(texts={"apiKeySecretRef": f"{key}\n"}))
    wrong = "apiKeySecretRef: the key key of the Secret upstream is not a key: a key has "
    assert told is None if fits else told == f"{wrong}1 to 10000 printable ASCII characters and no spaces"
    assert kind().unusable(backing(), Inputs()) is None
    assert not kind().input_refs(backing()).any
    assert kind().input_refs(backing(**WHOLE)).texts.keys() == {"apiKeySecretRef"}


def test_status_shows_what_the_cloud_has() -> None:
    seen = row(weight=2, transport="x" * 80)
    status = kind().status(backing(), seen)
    assert status.model_dump(mode="json", exclude_none=True, exclude={"conditions", "observed_generation"}) == {
        "provider": "openai_compatible",
        "ref": "llama-3",
        "endpoint": "https://llama.example/v1",
        "auth": "none",
        "transport": "x" * 63 + "…",
        "weight": 2,
        "maxConcurrency": 0,
        "createdAt": "2026-01-01T00:00:00Z",
    }
    assert kind().detail(seen) == "the cloud has it as bke_1, with the weight 2"
    assert kind().progress(seen) is Progress.READY


@pytest.mark.parametrize("field", ["provider", "ref", "endpoint", "modelId"])
def test_an_answer_that_shows_another_backend_is_about_another(field: str) -> None:
    made = {"id": "bck_1", **REQUIRED}
    assert kind().of_another(backing(), INTENT, Backend.model_validate(made | {"weight": 99})) == ()
    (differs,) = kind().of_another(backing(), INTENT, Backend.model_validate(made | {field: "another"}))
    assert differs == f"{field}: asked {REQUIRED[field]}, has another"
