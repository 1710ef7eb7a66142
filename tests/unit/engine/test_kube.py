"""The Kubernetes API as calls: pages, preconditions, patience, and what every failure is called."""

import json
from dataclasses import replace

import pytest

from relay_kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Refused, Unavailable
from relay_kube.kube import (
    CONFIG_MAPS,
    LARGEST_PAGE,
    NAMESPACES,
    PAGE_SIZE,
    SECRETS,
    THROTTLED_ATTEMPTS,
    Kube,
    ResourceType,
)
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.world import NAMESPACE, World

PODS = ResourceType("gpupods", "gpurelay.dev", "v1alpha1")
SECRET: Json = {"metadata": {"name": "keys"}, "data": {"a": "Yg=="}}

PATHS: dict[str, tuple[str, str]] = {
    "core": (SECRETS.path("team-a", "keys"), "/api/v1/namespaces/team-a/secrets/keys"),
    "a group": (PODS.path("team-a", "x", "status"), "/apis/gpurelay.dev/v1alpha1/namespaces/team-a/gpupods/x/status"),
    "all namespaces": (PODS.path(), "/apis/gpurelay.dev/v1alpha1/gpupods"),
    "cluster-scoped": (NAMESPACES.path("ignored", "team-a"), "/api/v1/namespaces/team-a"),
    "odd names": (SECRETS.path("a/b", "c?d"), "/api/v1/namespaces/a%2Fb/secrets/c%3Fd"),
}


@pytest.mark.parametrize(("path", "expected"), PATHS.values(), ids=PATHS)
def test_where_an_object_lives(path: str, expected: str) -> None:
    assert path == expected


async def test_what_is_created_is_read_changed_and_deleted(world: World) -> None:
    made = await world.kube.create(SECRETS, NAMESPACE, SECRET)
    uid = str(_metadata(made)["uid"])
    await world.kube.patch(SECRETS, NAMESPACE, "keys", {"data": {"a": None, "b": "Yw=="}})
    assert (await world.kube.get(SECRETS, NAMESPACE, "keys"))["data"] == {"b": "Yw=="}
    await world.kube.delete(SECRETS, NAMESPACE, "keys", uid=uid)
    with pytest.raises(NotFound):
        await world.kube.get(SECRETS, NAMESPACE, "keys")
    await world.kube.delete(SECRETS, NAMESPACE, "keys", uid=uid)


async def test_writes_name_their_manager_and_patches_are_merged(world: World) -> None:
    await world.kube.create(SECRETS, NAMESPACE, SECRET)
    await world.kube.patch(SECRETS, NAMESPACE, "keys", {"data": {}})
    kinds = [{name.lower(): value for name, value in call.headers}["content-type"] for call in world.server.calls]
    assert kinds == ["application/json", "application/merge-patch+json"]
    assert [call.query for call in world.server.calls] == [(("fieldManager", "relay-operator"),)] * 2


async def test_half_a_surrogate_pair_is_sent_escaped(world: World) -> None:
    world.server.faults.append(Fault(201, body="{}"))
    await world.kube.create(CONFIG_MAPS, NAMESPACE, {"data": {"half": "\ud800"}})
    assert world.server.calls[0].body == '{"data": {"half": "\\ud800"}}'


async def test_a_status_write_leaves_the_spec_alone(world: World) -> None:
    world.apply()
    body: Json = {"status": {"state": "running"}, "spec": {"image": "other"}}
    await world.kube.patch(PODS, NAMESPACE, "train", body, subresource="status")
    assert (world.status().state, world.obj().spec.image) == ("running", "pytorch/pytorch")


async def test_a_precondition_that_does_not_hold_is_a_conflict(world: World) -> None:
    await world.kube.create(SECRETS, NAMESPACE, SECRET)
    with pytest.raises(Conflict) as caught:
        await world.kube.patch(SECRETS, NAMESPACE, "keys", {"metadata": {"resourceVersion": "another"}, "data": {}})
    assert not isinstance(caught.value, AlreadyExists)
    with pytest.raises(Conflict):
        await world.kube.delete(SECRETS, NAMESPACE, "keys", uid="another")


async def test_the_uid_of_a_patch_is_no_precondition(world: World) -> None:
    world.apply()
    other: Json = {"metadata": {"uid": "another"}, "status": {"state": "running"}}
    with pytest.raises(Refused):
        await world.kube.patch(PODS, NAMESPACE, "train", other)
    await world.kube.patch(PODS, NAMESPACE, "train", other, subresource="status")
    assert world.status().state == "running"


async def test_a_list_is_read_to_its_end_page_by_page(world: World) -> None:
    for number in range(PAGE_SIZE * 2 + 1):
        world.server.put("secrets", {"metadata": {"name": f"s{number}", "namespace": NAMESPACE}})
    pages = [len(page) async for page in world.kube.pages(SECRETS)]
    assert pages == [PAGE_SIZE, PAGE_SIZE, 1]
    assert [dict(call.query).get("continue") for call in world.server.calls] == [
        None,
        str(PAGE_SIZE),
        str(PAGE_SIZE * 2),
    ]


@pytest.mark.parametrize(
    ("sizes", "limits"),
    [([2**20] * 6, ["100", "25", "6", "1", "2", "4"]), ([1, LARGEST_PAGE, 1], ["100", "25", "6", "1", "2", "1", "2"])],
    ids=["many", "one"],
)
async def test_a_page_that_is_too_large_is_read_in_smaller_ones(
    world: World, sizes: list[int], limits: list[str]
) -> None:
    for number, size in enumerate(sizes):
        metadata: Json = {"name": f"s{number}", "namespace": NAMESPACE}
        world.server.put("secrets", {"metadata": metadata, "data": {"text": "x" * size}})
    found = [part(raw, "metadata")["name"] async for page in world.kube.pages(SECRETS) for raw in page]
    assert found == [f"s{number}" for number in range(len(sizes))]
    assert [dict(call.query)["limit"] for call in world.server.calls] == limits


async def test_whether_a_kind_can_be_listed_is_asked_with_one_object(world: World) -> None:
    await world.kube.look(PODS, NAMESPACE)
    assert dict(world.server.calls[-1].query)["limit"] == "1"
    world.server.faults.append(Fault(403, method="GET"))
    with pytest.raises(Refused):
        await world.kube.look(PODS)


@pytest.mark.parametrize(
    ("fault", "is_there"),
    [
        (Fault(200, body='{"resources": [{"name": "gpupods"}]}'), True),
        (Fault(200, body='{"resources": [{"name": "gpupods/status"}, 5]}'), False),
        (Fault(404, body="404 page not found"), False),
    ],
)
async def test_a_kind_is_there_if_its_group_lists_it(world: World, fault: Fault, is_there: bool) -> None:
    world.server.faults.append(fault)
    assert await world.kube.serves(PODS) is is_there


@pytest.mark.parametrize("fault", [Fault(503), Fault(200, body='{"resources": 5}')])
async def test_whether_a_kind_is_there_is_unknown_without_an_answer(world: World, fault: Fault) -> None:
    world.server.faults.append(fault)
    with pytest.raises(Unavailable):
        await world.kube.serves(PODS)


async def test_an_empty_list_is_one_empty_page(world: World) -> None:
    assert [page async for page in world.kube.pages(SECRETS, NAMESPACE)] == [[]]


async def test_a_list_of_another_shape_reads_as_empty(world: World) -> None:
    world.server.faults.append(Fault(200, body='{"items": 5, "metadata": 5}'))
    assert [page async for page in world.kube.pages(SECRETS)] == [[]]


async def test_a_list_that_fails_midway_raises(world: World) -> None:
    for number in range(PAGE_SIZE + 1):
        world.server.put("secrets", {"metadata": {"name": f"s{number}", "namespace": NAMESPACE}})
    pages = world.kube.pages(SECRETS)
    assert len(await anext(pages)) == PAGE_SIZE
    world.server.faults.append(Fault(500))
    with pytest.raises(Unavailable):
        await anext(pages)


FAILURES: dict[str, tuple[Fault, type[KubeError], str]] = {
    "bad request": (Fault(400), Refused, "Scripted: scripted"),
    "no credentials": (Fault(401), Refused, "Scripted: scripted"),
    "not allowed": (Fault(403), Refused, "Scripted: scripted"),
    "invalid": (Fault(422), Refused, "Scripted: scripted"),
    "conflict": (Fault(409), Conflict, "Scripted: scripted"),
    "not found": (Fault(404, body='{"reason": "NotFound"}'), NotFound, "NotFound"),
    "a 404 of something else": (Fault(404, body="404 page not found"), Unavailable, "Unreadable: the API server's"),
    "more than etcd takes": (
        Fault(500, body='{"message":"etcdserver: request is too large"}'),
        Refused,
        "RequestEntityTooLarge: etcdserver",
    ),
    "an error": (Fault(500), Unavailable, "Scripted: scripted"),
    "a gateway's page": (Fault(502, body="<html>"), Unavailable, "Unreadable: the API server's answer is not JSON"),
    "a list for an answer": (
        Fault(503, body="[]"),
        Unavailable,
        "Unreadable: the API server's answer is not an object",
    ),
    "no reason": (Fault(500, body="{}"), Unavailable, "Unknown"),
    "a page instead of an object": (Fault(200, body="<html>"), Unavailable, "Unreadable: GET /api/v1"),
    "a list instead of an object": (Fault(200, body="[]"), Unavailable, "Unreadable: GET /api/v1"),
    "a connection that breaks": (Fault(0), Unavailable, "Unreachable: GET /api/v1"),
}


@pytest.mark.parametrize(("fault", "kind", "text"), FAILURES.values(), ids=FAILURES)
async def test_every_failure_has_its_kind_and_a_sentence(
    world: World, fault: Fault, kind: type[KubeError], text: str
) -> None:
    world.server.faults.append(replace(fault, times=2))  # aiohttp sends a GET once more where a connection broke
    with pytest.raises(KubeError) as caught:
        await world.kube.get(SECRETS, NAMESPACE, "keys")
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)


async def test_a_name_that_is_taken_is_told_apart_from_other_conflicts(world: World) -> None:
    await world.kube.create(SECRETS, NAMESPACE, SECRET)
    with pytest.raises(AlreadyExists):
        await world.kube.create(SECRETS, NAMESPACE, SECRET)
    world.server.faults.append(Fault(409))
    with pytest.raises(Conflict) as caught:
        await world.kube.create(SECRETS, NAMESPACE, SECRET)
    assert type(caught.value) is Conflict


async def test_a_long_message_is_cut(world: World) -> None:
    world.server.faults.append(Fault(500, body=json.dumps({"message": "x" * 9000})))
    with pytest.raises(Unavailable) as caught:
        await world.kube.get(SECRETS, NAMESPACE, "keys")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("header", "waited"), [("3", 3.0), (None, 1.0), ("60", 5.0), ("soon", 1.0)], ids=["said", "unsaid", "long", "odd"]
)
async def test_a_throttled_request_is_sent_again_after_a_while(world: World, header: str | None, waited: float) -> None:
    await world.kube.create(SECRETS, NAMESPACE, SECRET)
    world.server.faults.append(Fault(429, headers={} if header is None else {"Retry-After": header}))
    assert (await world.kube.get(SECRETS, NAMESPACE, "keys"))["data"] == {"a": "Yg=="}
    assert world.clock.seconds == waited


async def test_throttling_that_does_not_end_is_given_up(world: World) -> None:
    world.server.faults.append(Fault(429, times=100))
    with pytest.raises(Unavailable):
        await world.kube.get(SECRETS, NAMESPACE, "keys")
    assert len(world.server.calls) == THROTTLED_ATTEMPTS


async def test_every_write_is_counted_with_what_became_of_it_and_no_read(world: World) -> None:
    counted: list[tuple[str, str, int]] = []
    kube = Kube(world.kube._api, on_write=lambda *write: counted.append(write))
    made = await kube.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "conf"}})
    await kube.get(CONFIG_MAPS, NAMESPACE, "conf")
    world.server.faults += [Fault(409), Fault(0)]
    for _ in range(2):
        with pytest.raises(KubeError):
            await kube.patch(CONFIG_MAPS, NAMESPACE, "conf", {"data": {}})
    await kube.delete(CONFIG_MAPS, NAMESPACE, "conf", uid=str(_metadata(made)["uid"]))
    assert [(verb, status) for _, verb, status in counted] == [
        ("post", 200),
        ("patch", 409),
        ("patch", 0),
        ("delete", 200),
    ]


async def test_rotating_credentials_are_read_anew_for_every_request(world: World) -> None:
    tokens = iter(["one", "two"])
    api = replace(world.kube._api, headers=lambda: {"Authorization": f"Bearer {next(tokens)}"})
    for _ in range(2):
        with pytest.raises(NotFound):
            await Kube(api).get(SECRETS, NAMESPACE, "keys")
    sent = [{name.lower(): value for name, value in call.headers}["authorization"] for call in world.server.calls]
    assert sent == ["Bearer one", "Bearer two"]


def _metadata(raw: Json) -> Json:
    metadata = raw["metadata"]
    assert isinstance(metadata, dict)
    return metadata
