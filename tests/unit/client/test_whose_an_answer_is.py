"""An answer is about the resource that was asked for, and an id is one that can be asked for again."""

import json
from collections.abc import AsyncIterator

import pytest
from pydantic import BaseModel, JsonValue, ValidationError

from relay_client import Cloud, NotFound, Outcome, Unreadable, operations
from relay_client.operations import CREATE_BATCH, CREATE_CLUSTER, CREATE_POD, NOTHING, OPERATIONS, AnyOperation
from relay_wire.batches import BatchCreate
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate
from tests.unit.client.conftest import KEY, Timeline
from tests.unit.client.scripted import Reply, ScriptedServer

CREATED = sorted(
    {each.result for each in OPERATIONS if each.method == "POST" and "id" in getattr(each.result, "model_fields", ())},
    key=lambda result: result.__name__,
)
UNFIT = {
    "a parent": "..",
    "the path itself": ".",
    "two segments": "pod_1/terminate",
    "a query": "pod_1?force=true",
    "a line": "pod_1\nadopted",
    "a letter that looks like another": "p\u043ed_1",
    "an option": "-rf",
    "nothing": "",
    "longer than a status may tell": "p" * 70_000,
}
ODD = ["p", "0", "_", "pod_1", "urn:pod:1", "a.b-c~d@e=f+g", "A" * 253]


def answer(**fields: JsonValue) -> Reply:
    """Whatever an operation of the cloud answers, under this id."""
    told: dict[str, JsonValue] = {"organizationId": "org_1", "name": "n", "status": "terminated", "replicaCount": 1}
    told |= {"gpusPerReplica": 1, "resourceSize": "s", "tier": "t", "allowFallback": False, "diskSizeGb": 1}
    told |= {"privileged": False, "replicas": [], "createdAt": "", "updatedAt": ""}
    return Reply(200, json.dumps({**told, **fields}).encode())


def both_apis(server: ScriptedServer) -> Cloud:
    runtime = Timeline().runtime()
    return Cloud(server.url, KEY, inference_url=server.url, organization_id="org_1", runtime=runtime)


def by_id(operation: AnyOperation) -> bool:
    reads = operation.method in {"GET", "DELETE"} and "{id}" in operation.path
    return reads and operation.result is not NOTHING and "id" in getattr(operation.result, "model_fields", {})


BY_ID = [each for each in OPERATIONS if by_id(each)]


def test_every_kind_of_resource_is_read_by_id() -> None:
    assert {each.name for each in BY_ID} == {
        "get_vm",
        "get_cluster",
        "get_cluster_detail",
        "get_file",
        "delete_file",
        "get_batch",
        "get_backend",
        "get_deployment",
    }


@pytest.mark.parametrize("operation", BY_ID, ids=lambda each: str(each.name))
async def test_an_answer_about_another_resource_is_unreadable(operation: AnyOperation, server: ScriptedServer) -> None:
    others = {"modelId": "llama"} if "{modelId}" in operation.path else {}
    server.will(answer(id="its-own"), answer(id="another"))
    async with both_apis(server) as cloud:
        await cloud.call(operation, query=None, large=False, id="its-own", **others)
        with pytest.raises(Unreadable, match="it is about another, and its-own was asked for") as unreadable:
            await cloud.call(operation, query=None, large=False, id="its-own", **others)
    assert unreadable.value.outcome is Outcome.UNKNOWN


async def test_a_number_is_the_same_id_as_its_digits(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(answer(id=7))
    assert (await cloud.call(operations.GET_VM, id="7")).id == "7"


async def test_what_says_that_it_is_not_there_is_about_nothing_else(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(404, b'{"error":"no such VM","code":"not_found","id":"another"}'))
    with pytest.raises(NotFound):
        await cloud.call(operations.GET_VM, id="pod_1")


@pytest.mark.parametrize("told", UNFIT.values(), ids=UNFIT)
async def test_a_create_that_is_answered_with_what_is_no_id_has_an_unknown_outcome(
    told: str, server: ScriptedServer
) -> None:
    server.will(answer(id=told))
    async with both_apis(server) as cloud:
        with pytest.raises(Unreadable) as pod:
            await cloud.call(CREATE_POD, PodCreate(image="busybox"))
        with pytest.raises(Unreadable) as cluster:
            await cloud.call(CREATE_CLUSTER, ClusterCreate(name="llm"))
        with pytest.raises(Unreadable) as batch:
            await cloud.call(CREATE_BATCH, BatchCreate(input_file_id="f", endpoint="/v1/messages"))
        with pytest.raises(Unreadable) as upload:
            await cloud.upload("in.jsonl", _pieces())
    for failed in (pod, cluster, batch, upload):
        assert failed.value.outcome is Outcome.UNKNOWN
        assert len(failed.value.message) <= 500


@pytest.mark.parametrize("told", UNFIT.values(), ids=UNFIT)
@pytest.mark.parametrize("created", CREATED, ids=[each.__name__ for each in CREATED])
def test_so_is_every_answer_to_a_create(created: type[BaseModel], told: str) -> None:
    with pytest.raises(ValidationError) as unreadable:
        created.model_validate({"id": told})
    assert ("id",) in {error["loc"] for error in unreadable.value.errors()}


@pytest.mark.parametrize("told", [each for each in UNFIT.values() if each], ids=[each for each in UNFIT if UNFIT[each]])
@pytest.mark.parametrize("name", ["input_file_id", "output_file_id", "error_file_id"])
async def test_files_of_a_batch_that_cannot_be_asked_for_make_it_unreadable(
    name: str, told: str, server: ScriptedServer
) -> None:
    server.will(answer(**{"id": "batch_1", name: ""}), answer(**{"id": "batch_1", name: told}))
    async with both_apis(server) as cloud:
        assert getattr(await cloud.call(operations.GET_BATCH, id="batch_1"), name) is None
        with pytest.raises(Unreadable):
            await cloud.call(operations.GET_BATCH, id="batch_1")


@pytest.mark.parametrize("told", ODD)
async def test_an_id_that_fits_is_opaque(told: str, cloud: Cloud, server: ScriptedServer) -> None:
    server.will(answer(id=told))
    made = await cloud.call(CREATE_POD, PodCreate(image="busybox"))
    assert (await cloud.call(operations.GET_VM, id=made.id)).id == told


async def _pieces() -> AsyncIterator[bytes]:
    yield b"{}\n"
