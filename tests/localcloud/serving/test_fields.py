"""Every field of a deployment and what is refused (section 2, "Serving deployment"; section 7)."""

from __future__ import annotations

import pytest

from tests.localcloud.support.deployments import (
    BACKENDS,
    DEPLOYMENTS,
    create,
    own_model,
    running,
    try_change,
    try_create,
    wanted,
)
from tests.localcloud.support.server import Organization
from tests.localcloud.support.workloads import free_gpus, set_organization

REQUIRED = [
    "organizationId",
    "publicModelId",
    "engine",
    "servedModelId",
    "gpuModelId",
    "gpuCountPerReplica",
    "replicasMin",
    "replicasMax",
    "replicasDesired",
]
OF_THE_WRONG_KIND = [
    ("engine", "llamacpp"),
    ("engine", ""),
    ("engine", 1),
    ("servedModelId", ""),
    ("gpuModelId", 1),
    ("gpuCountPerReplica", 0),
    ("gpuCountPerReplica", -1),
    ("gpuCountPerReplica", "1"),
    ("replicasMin", -1),
    ("replicasMin", 9),
    ("replicasMax", 0),
    ("replicasMax", 1001),
    ("replicasMax", 2**31),
    ("replicasDesired", 9),
    ("replicasDesired", -1),
    ("replicasDesired", 1.5),
    ("version", 1),
    ("version", "x" * 201),
    ("engineImage", "x" * 2001),
    ("maxModelLen", 0),
    ("env", {"A": 1}),
    ("env", ["A=b"]),
    ("env", {"": "1"}),
    ("env", {"A=B": "1"}),
    ("env", {"A": "x" * 2**17}),
    ("env", {f"V{number}": "" for number in range(1001)}),
    ("env", {"NVIDIA_VISIBLE_DEVICES": "all"}),
    ("extraArgs", "--x"),
    ("extraArgs", [1]),
    ("extraArgs", ["x"] * 1001),
    ("nativeFamilies", []),
    ("nativeFamilies", ["embeddings"]),
    ("nativeFamilies", "messages"),
    ("maxConcurrencyPerReplica", -1),
    ("backendWeight", -1),
    ("backendWeight", 2**40),
    ("nodePool", 1),
    ("nodePool", "x" * 64),
    ("minPromptBytes", -1),
    ("maxPromptBytes", -1),
    ("isolated", "yes"),
    ("replicaRuntime", "container"),
    ("rolloutRole", "blue"),
    ("rolloutStrategy", "canary"),
    ("maxUnavailable", 0),
    ("acknowledgeLaneJoin", 1),
]
TOGETHER = [
    ({"replicasMin": 2, "replicasMax": 1, "replicasDesired": 1}, "replicasMin"),
    ({"replicasMin": 2, "replicasDesired": 1}, "replicasDesired"),
    ({"minPromptBytes": 10, "maxPromptBytes": 10}, "minPromptBytes"),
    ({"minPromptBytes": 11, "maxPromptBytes": 10}, "minPromptBytes"),
    ({"isolated": True, "backendWeight": 1}, "backendWeight"),
    ({"isolated": True, "rolloutRole": "green"}, "rolloutRole"),
    ({"replicaRuntime": "pod"}, "weightsRef"),
    ({"replicaRuntime": "pod", "weightsRef": ""}, "weightsRef"),
    ({"rolloutRole": "green", "backendWeight": 1}, "backendWeight"),
    ({"rolloutStrategy": "blue_green", "maxUnavailable": 0}, "maxUnavailable"),
]


async def nothing_was_made(organization: Organization) -> bool:
    """Whether there is no deployment."""
    return not (await organization.ok("GET", DEPLOYMENTS))["items"]


@pytest.mark.parametrize("field", REQUIRED)
@pytest.mark.parametrize("missing", [False, True])
async def test_a_required_field_that_is_missing_or_null_is_400(
    organization: Organization, field: str, *, missing: bool
) -> None:
    body = wanted(organization, **{field: None})
    if missing:
        del body[field]
    answer = await organization.call("POST", DEPLOYMENTS, body)
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith(field)
    assert await nothing_was_made(organization)


@pytest.mark.parametrize(("field", "value"), OF_THE_WRONG_KIND)
async def test_a_field_of_the_wrong_kind_is_400(organization: Organization, field: str, value: object) -> None:
    answer = await try_create(organization, **{field: value})
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith(field)
    assert await nothing_was_made(organization)


@pytest.mark.parametrize(("fields", "named"), TOGETHER)
async def test_fields_that_contradict_each_other_are_400(
    organization: Organization, fields: dict[str, object], named: str
) -> None:
    answer = await try_create(organization, **fields)
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith(named)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
async def test_each_known_engine_is_taken(organization: Organization, engine: str) -> None:
    assert (await create(organization, engine=engine))["engine"] == engine


@pytest.mark.parametrize("runtime", ["", "vm", "pod"])
async def test_each_replica_runtime_is_taken(organization: Organization, runtime: str) -> None:
    made = await create(organization, replicaRuntime=runtime, weightsRef="weights")
    assert (made["replicaRuntime"], made["weightsRef"]) == (runtime, "weights")


async def test_a_range_of_prompts_may_be_open_at_either_end(organization: Organization) -> None:
    for floor, ceiling in ((0, 0), (0, 1), (5, 0), (5, 6)):
        made = await create(organization, minPromptBytes=floor, maxPromptBytes=ceiling)
        assert (made["minPromptBytes"], made["maxPromptBytes"]) == (floor, ceiling)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"publicModelId": "nothing"}, "publicModelId"),
        ({"servedModelId": "chat-only"}, "servedModelId"),
        ({"gpuModelId": "tpu"}, "gpuModelId"),
        ({"gpuCountPerReplica": 9}, "gpuCount"),
        ({"gpuCountPerReplica": 9, "replicasMin": 0, "replicasDesired": 0}, "gpuCount"),
    ],
)
async def test_what_the_catalog_does_not_have_is_422(
    organization: Organization, fields: dict[str, object], named: str
) -> None:
    answer = await try_create(organization, **fields)
    assert answer.status == 422
    assert answer.body["error"].startswith(named)
    assert await nothing_was_made(organization)


async def test_the_served_model_is_the_ref_of_any_backend_of_the_model(organization: Organization) -> None:
    body = {
        "provider": "vertex",
        "ref": "theirs-8b",
        "endpoint": "https://models.example/v1",
        "nativeFamilies": ["messages"],
    }
    await organization.ok("POST", BACKENDS.format(model="echo"), body)
    assert (await create(organization, servedModelId="theirs-8b"))["servedModelId"] == "theirs-8b"
    answer = await try_create(organization, servedModelId="theirs", acknowledgeLaneJoin=True)
    assert (answer.status, "'echo', 'theirs-8b'" in answer.body["error"]) == (422, True)


async def test_a_model_of_another_organizations_is_not_in_the_catalog(
    organization: Organization, other: Organization
) -> None:
    await own_model(other)
    answer = await try_create(organization, publicModelId="own", servedModelId="own")
    assert (answer.status, answer.body["error"].startswith("publicModelId")) == (422, True)
    assert (await create(other, publicModelId="own", servedModelId="own"))["publicModelId"] == "own"


async def test_a_deployment_for_another_organization_is_403(organization: Organization, other: Organization) -> None:
    assert (await try_create(organization, organizationId=other.id)).refusal == (403, "forbidden")
    assert (await try_create(organization, organizationId="org_x")).refusal == (403, "forbidden")


async def test_without_funds_nothing_is_deployed_or_scaled_up(organization: Organization) -> None:
    deployment = await running(organization)
    await set_organization(organization, balanceCents=0, autoStopFloorCents=-1000)
    await set_organization(organization, autoStopFloorCents=0)
    answer = await try_create(organization, acknowledgeLaneJoin=True)
    assert answer.refusal == (402, "INSUFFICIENT_BALANCE")
    free = await free_gpus(organization)
    assert (await try_change(organization, deployment, replicasDesired=2)).refusal == (402, "INSUFFICIENT_BALANCE")
    assert await free_gpus(organization) == free


async def test_a_field_that_is_not_known_is_accepted_and_flagged(organization: Organization) -> None:
    assert (await try_create(organization, surplus=1)).status == 200
    entry = (await organization.server.ok("GET", f"/requests?after=0&organizationId={organization.id}"))["items"][-1]
    assert (entry["operation"], entry["unreadFields"]) == ("POST /v1/serving/deployments", ["surplus"])


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b'{"a":' * 1000])
async def test_a_body_that_is_no_object_is_400_for_deployments(organization: Organization, raw: bytes) -> None:
    made = await create(organization)
    for method, path in (("POST", DEPLOYMENTS), ("PATCH", f"{DEPLOYMENTS}/{made['id']}")):
        assert (await organization.call(method, path, raw=raw)).refusal == (400, "invalid_request")


async def test_a_deployment_of_another_organization_is_404(organization: Organization, other: Organization) -> None:
    path = f"{DEPLOYMENTS}/{(await create(organization))['id']}"
    for method, body in (("GET", None), ("PATCH", {"backendWeight": 1}), ("DELETE", None)):
        assert (await other.call(method, path, body)).refusal == (404, "not_found")
        assert (await other.call(method, f"{DEPLOYMENTS}/dep_x", body)).refusal == (404, "not_found")
    assert (await other.ok("GET", DEPLOYMENTS))["items"] == []
    assert (await organization.ok("GET", path))["backendWeight"] == 0
