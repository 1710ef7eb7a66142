"""How a ProviderNode maps to a node: what is sent, what is never sent, and what is shown."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import BadRequest, Cloud, NotFound, NotServed, Outcome
from relay_client.paging import MAX_KEPT_ITEMS
from relay_operator.api.conditions import Reason
from relay_operator.api.parts import DeletionPolicy
from relay_operator.api.providernode import SHOWN_GPUS, NodeGpu, ProviderNode, ProviderNodeStatus
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.abilities import brought_in
from relay_operator.flows.managed.ending import parse
from relay_operator.flows.managed.resource import Found, Inputs, Look, Progress
from relay_operator.kinds.providernode import EarningMachine, ProviderNodes
from relay_wire.provider import ProviderNode as Machine
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


INTENT = intent("node_1")
ROW: dict[str, JsonValue] = {
    "id": "node_1",
    "status": "online",
    "gpus": [{"id": "node_1-gpu0", "gpuModelId": "h100"}, {"id": "node_1-gpu1", "gpuModelId": "h100"}],
    "workloads": 3,
    "location": "sjc1",
    "region": "us-west",
    "nodePool": "community",
    "createdAt": "2026-02-28T12:00:00Z",
}
EARNED: dict[str, JsonValue] = {"totalCents": 9, "items": [{"nodeId": "node_1", "cents": 9}], "payouts": []}
PATH = "/v1/orgs/org-1/provider"


def kind() -> ProviderNodes:
    return ProviderNodes(parts())


def node(status: str = "online", *, earned: int | None = None, **spec: JsonValue) -> ProviderNode:
    asked = {"nodeId": "node_1", "status": status, **spec}
    return ProviderNode.model_validate(
        {"metadata": {"name": "rack1"}, "spec": asked, "status": {"earningsCents": earned}}
    )


def machine(status: str = "online", **more: JsonValue) -> Machine:
    return Machine.model_validate(ROW | {"status": status} | more)


def listed(*rows: dict[str, JsonValue]) -> Reply:
    return Reply(body=json.dumps({"items": [*rows]}).encode())


async def test_all_nodes_and_what_they_earned_are_read_by_one_list_each_removed_ones_too() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        nodes = kind()
        server.will(listed(ROW, ROW | {"id": "node_2", "status": "removed"}), Reply(body=json.dumps(EARNED).encode()))
        first = await nodes.observe(cloud, "node_1", ProviderNodeStatus(), Look.ROUTINE)
        second = await nodes.observe(cloud, "node_2", ProviderNodeStatus(), Look.ROUTINE)
        server.will(listed(ROW))
        assert await nodes.find(cloud, "node_1", UnclaimedIds()) == Found(first)
        assert await nodes.living(cloud, UnclaimedIds()) == {}
        assert [each.target for each in server.seen] == [
            f"{PATH}/nodes?includeRemoved=true",
            f"{PATH}/earnings",
            f"{PATH}/nodes?includeRemoved=true",
        ]
    assert [nodes.progress(each) for each in (first, second)] == [Progress.READY, Progress.GONE]
    status = nodes.status(node(), first)
    assert status.model_dump(by_alias=True, exclude_none=True, exclude={"conditions", "observed_generation"}) == {
        "state": "online",
        "gpus": ROW["gpus"],
        "gpuCount": 2,
        "workloads": 3,
        "earningsCents": 9,
        "location": "sjc1",
        "region": "us-west",
        "nodePool": "community",
    }


async def test_only_the_node_that_is_asked_for_is_told_what_it_earned(monkeypatch: pytest.MonkeyPatch) -> None:
    made, whole = list[object](), EarningMachine.model_validate

    def noted(row: dict[str, JsonValue]) -> Machine:
        made.append(row["id"])
        return whole(row)

    monkeypatch.setattr(EarningMachine, "model_validate", noted)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(listed(*(ROW | {"id": f"node_{n}"} for n in range(9))), Reply(body=json.dumps(EARNED).encode()))
        await kind().observe(cloud, "node_1", ProviderNodeStatus(), Look.ROUTINE)
    assert made == ["node_1"]


async def test_a_key_that_may_not_know_what_was_earned_sees_the_nodes_and_asks_no_more_often() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        nodes = kind()
        server.will(listed(ROW), Reply(status=403, body=b'{"error": "no"}'), listed())
        seen = await nodes.observe(cloud, "node_1", ProviderNodeStatus(), Look.EXACT)
        with pytest.raises(NotFound):
            await nodes.observe(cloud, "node_1", ProviderNodeStatus(), Look.EXACT)
        assert [each.target for each in server.seen].count(f"{PATH}/earnings") == 1
    assert nodes.status(node(earned=7), seen).earnings_cents == 7


async def test_of_earnings_so_many_ids_are_kept_and_their_memory_counts() -> None:
    ids = ["node_1", "n" * 254, "not/an/id", *(f"n{number}" for number in range(MAX_KEPT_ITEMS))]
    rows: list[JsonValue] = [{"nodeId": each, "cents": 9} for each in ids]
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        nodes = kind()
        server.will(listed(ROW), Reply(body=json.dumps({"items": rows}).encode()))
        await nodes.observe(cloud, "node_1", ProviderNodeStatus(), Look.ROUTINE)
        earned = await nodes._earnings.recent(cloud, cast("Any", None))
        sizes = [size for size, _ in cloud.lists.kept.values()]
    assert (len(earned), [each in earned for each in ids[:4]]) == (MAX_KEPT_ITEMS, [True, False, False, True])
    assert sizes[-1] > sum(map(sys.getsizeof, earned))


async def test_a_list_that_is_not_there_says_nothing_of_the_node() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=404, body=b'{"error": "no", "code": "not_found"}'))
        with pytest.raises(NotServed):
            await kind().observe(cloud, "node_1", ProviderNodeStatus(), Look.EXACT)


@pytest.mark.parametrize("asked", ["online", "draining", "maintenance", "removed"])
@pytest.mark.parametrize("has", ["online", "offline", "draining", "maintenance", "removed", "rebooting", ""])
async def test_a_status_is_set_where_the_cloud_has_another(asked: str, has: str) -> None:
    changes = kind().changes(node(asked, confirmRemoval="node_1"), machine(has), running=True)
    is_set = {
        "online": has in {"draining", "maintenance"},
        "draining": has in {"online", "offline", "maintenance", "rebooting"},
        "maintenance": has in {"online", "offline", "draining", "rebooting"},
        "removed": has not in {"removed", ""},
    }
    assert [(each.name, each.to, each.reason) for each in changes] == (
        [("status", asked, Reason.UPDATING)] if is_set[asked] else []
    )


async def test_what_is_sent_is_the_status_alone() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        (change,) = kind().changes(node("draining"), machine(), running=True)
        server.will(Reply(body=b"{}"))
        await change.send(cloud)
        (sent,) = server.seen
        assert (sent.method, sent.target, json.loads(sent.body)) == (
            "PATCH",
            f"{PATH}/nodes/node_1",
            {"status": "draining"},
        )


@pytest.mark.parametrize("confirmed", [None, "", "node_2", "NODE_1"])
def test_a_node_is_not_removed_unless_its_id_is_repeated(confirmed: str | None) -> None:
    assert kind().changes(node("removed", confirmRemoval=confirmed), machine(), running=True) == ()
    another = kind().changes(node("removed", confirmRemoval="node_1"), machine(id="node_2"), running=True)
    assert another == (), "what is confirmed is the removal of this one"


async def test_nothing_is_ever_created_or_ended() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        for attempt in (kind().create(cloud, node(), INTENT, Inputs()), kind().delete(cloud, "node_1")):
            with pytest.raises(BadRequest, match="enrol with a ProvisioningToken") as told:
                await attempt
            assert told.value.outcome is Outcome.NOT_SENT
        assert server.seen == []


def test_it_is_adopted_by_the_id_in_its_spec() -> None:
    assert brought_in(kind())
    nodes = kind()
    assert (nodes.given_id(node()), nodes.identity(machine())) == ("node_1", ("node_1", "node_1"))
    assert [nodes.end_asked(node(status)) for status in ("online", "removed")] == [False, True]
    assert nodes.differences(node(), machine()) == ()
    assert nodes.differences(node(), machine(id="node_2")) == ("nodeId: asked node_1, has node_2",)
    assert nodes.immutable(node()) == nodes.immutable(node("draining")) == {"nodeId": "node_1"}


@pytest.mark.parametrize(
    ("status", "progress"),
    [
        ("online", Progress.READY),
        ("draining", Progress.READY),
        ("maintenance", Progress.READY),
        ("offline", Progress.OFFLINE),
        ("removed", Progress.GONE),
        ("rebooting", Progress.PENDING),
        ("", Progress.PENDING),
    ],
)
def test_what_a_status_means(status: str, progress: Progress) -> None:
    assert kind().progress(machine(status)) is progress


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (machine("draining"), "the cloud says draining; workloads that hold GPUs of it: 3"),
        (machine("offline", workloads=None), "the cloud says offline"),
        (machine(""), "the cloud does not say its status; workloads that hold GPUs of it: 3"),
    ],
)
def test_how_many_workloads_are_left_is_told(row: Machine, says: str) -> None:
    assert kind().detail(row) == says


def test_more_gpus_than_status_shows_are_counted_and_each_is_shown_once() -> None:
    many: list[JsonValue] = [{"id": f"gpu{number}"} for number in (0, *range(SHOWN_GPUS + 6))]
    status = kind().status(node(), machine(gpus=many))
    assert (status.gpu_count, len({gpu.id for gpu in status.gpus or ()})) == (SHOWN_GPUS + 6, SHOWN_GPUS)
    odd = kind().status(node(), machine(gpus="two", workloads="some", location=["here"]))
    assert (odd.gpus, odd.gpu_count, odd.workloads, odd.location) == (None, None, None, None)


def test_of_many_gpus_only_those_that_status_shows_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    made, whole = list[object](), NodeGpu.model_validate

    def noted(row: dict[str, JsonValue]) -> NodeGpu:
        made.append(row["id"])
        return whole(row)

    monkeypatch.setattr(NodeGpu, "model_validate", noted)
    many: list[JsonValue] = [{"id": f"gpu{number}"} for number in (*reversed(range(3 * SHOWN_GPUS)), 0)]
    many.append({"id": f"gpu{3 * SHOWN_GPUS - 1}", "gpuModelId": "h100"})
    status = kind().status(node(), machine(gpus=many))
    shown = [(gpu.id, gpu.gpu_model_id) for gpu in status.gpus or ()]
    assert [each[0] for each in shown] == [f"gpu{number}" for number in reversed(range(2 * SHOWN_GPUS, 3 * SHOWN_GPUS))]
    assert shown[0][1] == "h100", "the last row of an id counts"
    assert (status.gpu_count, len(made)) == (3 * SHOWN_GPUS, SHOWN_GPUS)


async def test_what_a_node_earned_is_told_without_its_gpus_being_read_anew() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        nodes, status = kind(), ProviderNodeStatus()
        server.will(listed(ROW), Reply(body=json.dumps(EARNED).encode()))
        first, second = [await nodes.observe(cloud, "node_1", status, Look.ROUTINE) for _ in range(2)]
    assert first == second == EarningMachine.model_validate(ROW | {"earned": 9})
    assert [id(gpu) for gpu in first.gpus or ()] == [id(gpu) for gpu in second.gpus or ()]


def test_deleting_leaves_the_node_even_if_the_rest_cannot_be_read() -> None:
    metadata = {"name": "rack1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    body = {"metadata": metadata, "spec": {"nodeId": 1, "status": "gone"}}
    assert parse(ProviderNode, json.dumps(body).encode()).spec.deletion_policy is DeletionPolicy.ORPHAN
