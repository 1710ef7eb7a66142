"""How a ServingDeployment maps to a deployment: what is sent and shown, its lane, and what is like it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from relay_client import Cloud, Conflict, NotFound, NotServed, Unreadable
from relay_client.paging import MAX_PAGES
from relay_operator.api.conditions import Reason
from relay_operator.api.servingdeployment import SHOWN_MEMBERS, ServingDeploymentStatus
from relay_operator.engine.commitment import commitment
from relay_operator.engine.report import refusal
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Inputs, Look, Progress
from relay_operator.kinds import lanes
from relay_operator.kinds.servingdeployment import Seen
from relay_wire.serving import Deployment
from tests.unit.client.scripted import Reply, page, scripted_server
from tests.unit.kinds.deployments import ALL, INTENT, LASTING, PATH, SENT, kind, one, row, serving

if TYPE_CHECKING:
    from pydantic import JsonValue

WHOLE: dict[str, JsonValue] = {
    "rollout": {"role": "", "strategy": "rolling", "maxUnavailable": 3},
    "backendWeight": 5,
    "nodePool": "eu",
    "promptBytes": {"min": 1, "max": 9},
    "isolated": False,
    "acknowledgeLaneJoin": True,
    "replicaRuntime": "pod",
    "nativeFamilies": ["messages", "chat_completions"],
    "maxConcurrencyPerReplica": 7,
    "version": "1",
    "dtype": "fp8",
    "quantization": "awq",
    "maxModelLen": 4096,
    "engineImage": "vllm:1",
    "weightsRef": "s3://w",
    "extraArgs": ["--quick"],
    "env": [{"name": "MODE", "value": "fast"}],
}

SENT_WHOLE: dict[str, JsonValue] = {
    "rolloutStrategy": "rolling",
    "maxUnavailable": 3,
    "backendWeight": 5,
    "nodePool": "eu",
    "minPromptBytes": 1,
    "maxPromptBytes": 9,
    "acknowledgeLaneJoin": True,
    "replicaRuntime": "pod",
    "nativeFamilies": ["chat_completions", "messages"],
    "maxConcurrencyPerReplica": 7,
    "version": "1",
    "dtype": "fp8",
    "quantization": "awq",
    "maxModelLen": 4096,
    "engineImage": "vllm:1",
    "weightsRef": "s3://w",
    "extraArgs": ["--quick"],
    "env": {"MODE": "fast"},
}


@pytest.mark.parametrize("whole", [False, True])
async def test_every_field_is_sent_with_its_default(whole: bool) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "dep_1"}'))
        inputs = Inputs(env={"MODE": "fast"} if whole else {}, model_id="h200")
        made = await kind().create(cloud, serving(**(WHOLE if whole else {})), INTENT, inputs)
    assert (server.seen[0].method, server.seen[0].target, kind().identity(made)) == ("POST", PATH, ("dep_1", ""))
    assert json.loads(server.seen[0].body) == SENT | (SENT_WHOLE if whole else {})
    assert kind().progress(made) is Progress.PENDING


def test_a_lane_that_has_members_is_a_reason_of_its_own() -> None:
    refused = refusal(Conflict("create_deployment", "members: dep_1", code="LANE_INTENT_REQUIRED"))
    assert (refused.reason, refused.stalled) == (Reason.LANE_INTENT_REQUIRED, True)


async def test_alike_is_what_has_every_field_that_is_sent_and_no_other() -> None:
    obj = serving(
        env=[{"name": "MODE", "value": "fast"}, {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    )
    own = row(env={"MODE": "fast", "T": "t"})
    others = [
        row(id=f"dep_{name}", **{"env": own.env, name: value})
        for name, value in {
            **LASTING,
            "replicasDesired": 1,
            "backendWeight": 1,
            "rolloutRole": "green",
            "env": {"MODE": "slow"},
            "nodePool": "gold",
            "quantization": "fp8",
            "extraArgs": ["--quick"],
        }.items()
    ]
    others.append(row(id="dep_env", env={**(own.env or {}), "MORE": "m"}))
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        deployments = kind()
        server.will(page(own, *others))
        assert [each.row for each in await deployments.alike(cloud, obj)] == [own]
        assert await deployments.existing(cloud, obj) is None
        assert await deployments.find(cloud, "team-a-llama", UnclaimedIds()) == CannotTell()
        assert await deployments.living(cloud, UnclaimedIds()) == {}
    assert deployments.made_at(Seen(own)) == datetime(2026, 1, 1, tzinfo=UTC)
    assert deployments.made_at(Seen(row(createdAt=None))) is None


async def test_what_is_asked_is_worked_out_once_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    dumped, whole = list[str](), BaseModel.model_dump

    def noted(part: BaseModel, **how: Any) -> dict[str, Any]:
        dumped.append(type(part).__name__)
        return whole(part, **how)

    rows = [row(id=f"dep_{number}", env={"MODE": "fast"} if number else {}) for number in range(9)]
    answer = page(*rows)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(answer)
        monkeypatch.setattr(BaseModel, "model_dump", noted)
        alike = await kind().alike(cloud, serving(env=[{"name": "MODE", "value": "fast"}]))
    assert [each.row for each in alike] == rows[1:]
    assert dumped == ["ServingDeploymentSpec"]


async def test_all_are_read_by_one_list_and_what_it_lacks_is_asked_for() -> None:
    status = ServingDeploymentStatus()
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        deployments, other = kind(), row(id="dep_2")
        server.will(page(row(), other))
        for cloud_id in ("dep_1", "dep_2"):
            seen = await deployments.observe(cloud, cloud_id, status, Look.ROUTINE)
            assert (seen.row.id, seen.lane) == (cloud_id, (row(), other))
        server.will(one(row(id="dep_3")))
        assert len((await deployments.observe(cloud, "dep_3", status, Look.ROUTINE)).lane) == 3
        server.will(page(row()), Reply(404, b'{"error": "no such thing", "code": "not_found"}'))
        with pytest.raises(NotFound):
            await deployments.observe(cloud, "dep_2", status, Look.EXACT)
        server.will(Reply(404, b'{"error": "no such thing", "code": "not_found"}'))
        with pytest.raises(NotServed, match="has no list"):  # which says nothing of what would be in it
            await deployments.observe(cloud, "dep_1", status, Look.EXACT)
        server.will(Reply(status=204))
        await deployments.delete(cloud, "dep_1")
    assert [each.target for each in server.seen] == [ALL, f"{PATH}/dep_3", ALL, f"{PATH}/dep_2", ALL, f"{PATH}/dep_1"]


@pytest.mark.parametrize("status", [404, 405])
async def test_nothing_is_created_in_a_cloud_that_could_not_show_it(status: int) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status, b'{"error": "no such thing", "code": "not_found"}'))
        with pytest.raises(NotServed):
            await kind().existing(cloud, serving())
    assert [each.target for each in server.seen] == [ALL]


async def test_a_list_without_an_end_tells_nothing() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(*(page(cursor=str(number)) for number in range(MAX_PAGES)))
        with pytest.raises(Unreadable):
            await kind().alike(cloud, serving())


def test_a_lane_is_what_live_ones_have_in_common() -> None:
    own, other = row(backendWeight=1), row(id="dep_2", backendWeight=2, rolloutRole="green", status="degraded")
    elsewhere = [
        row(id="dep_3", nodePool="eu"),
        row(id="dep_4", maxPromptBytes=9),
        row(id="dep_5", publicModelId="other"),
        row(id="dep_6", isolated=True),
        row(id="dep_7", status="draining"),
    ]
    assert lanes.lane_of(own, (other, *elsewhere)) == (own, other)
    assert [lanes.lane_of(each, elsewhere) for each in elsewhere[-2:]] == [(), ()]
    status = kind().status(serving(), Seen(own, (own, other)))
    assert status.lane is not None
    assert status.lane.model_dump(mode="json") == {
        "nodePool": "community",
        "minPromptBytes": 0,
        "maxPromptBytes": 0,
        "members": [
            {"id": "dep_1", "backendWeight": 1, "rolloutRole": "", "state": "running"},
            {"id": "dep_2", "backendWeight": 2, "rolloutRole": "green", "state": "degraded"},
        ],
    }
    assert status.traffic_percent == 33
    many = tuple(row(id=f"dep_{number:03}") for number in range(SHOWN_MEMBERS + 1))
    told = kind().status(serving(), Seen(many[0], many))
    assert told.lane is not None
    assert (len(told.lane.members), told.traffic_percent) == (SHOWN_MEMBERS, 0)
    assert kind().status(serving(), Seen(own)).traffic_percent is None


def test_odd_numbers_of_one_deployment_keep_no_status_of_its_lane_from_being_written() -> None:
    odd = [row(backendWeight=-1, minPromptBytes=-1, maxPromptBytes=-1, id=name) for name in ("dep_1", "dep_2")]
    lane = kind().status(serving(), Seen(odd[0], tuple(odd))).lane
    assert lane is not None
    assert (lane.min_prompt_bytes, lane.max_prompt_bytes, [one.backend_weight for one in lane.members]) == (
        0,
        0,
        [0, 0],
    )


@pytest.mark.parametrize(
    ("fields", "progress"),
    [
        ({}, Progress.READY),
        ({"replicasReady": 1}, Progress.PENDING),
        ({"status": "idle", "replicasReady": 0, "replicasDesired": 0}, Progress.READY),
        ({"status": "idle", "replicasReady": 0}, Progress.PENDING),
        ({"status": "provisioning"}, Progress.PENDING),
        ({"status": "degraded"}, Progress.DEGRADED),
        ({"status": "stopped"}, Progress.STOPPED),
        ({"status": "draining"}, Progress.PENDING),
        ({"status": "melted"}, Progress.PENDING),
    ],
)
def test_it_is_ready_once_all_that_are_asked_for_are_healthy(fields: dict[str, Any], progress: Progress) -> None:
    assert kind().progress(Seen(row(**fields))) is progress


@pytest.mark.parametrize(("per_replica", "gpus"), [(8, 16), (None, 4)])
def test_a_namespaces_limit_counts_the_gpus_of_its_replicas_whatever_the_spec_says_by_now(
    per_replica: int | None, gpus: int
) -> None:
    replicas = [{"id": "r1", "status": "healthy"}]  # the other one is to come back
    status = kind().status(serving(), Seen(row(replicas=replicas, gpuCountPerReplica=per_replica)))
    told = status.model_dump(mode="json", exclude_none=True) | {"id": "dep_1"}
    assert commitment(None, {"gpu": {"modelId": "h200", "count": 1}}, told)[0].gpus == gpus


def test_status_shows_what_the_cloud_has() -> None:
    replicas = [{"id": "r1", "status": "healthy"}, {"id": "r2", "status": "starting"}]
    seen = row(status="degraded", statusReason="no room", replicasReady=1, replicas=replicas, pricePerHourCents=300)
    status = kind().status(serving(), Seen(seen))
    assert status.model_dump(mode="json", exclude_none=True, exclude={"conditions", "observed_generation"}) == {
        "state": "degraded",
        "statusReason": "no room",
        "replicas": 2,
        "desiredReplicas": 2,
        "readyReplicas": 1,
        "selector": "gpurelay.dev/deployment=llama",
        "gpuModelId": "h200",
        "gpuCount": 2,
        "pricePerHourCents": 600,
        "backendWeight": 0,
        "rolloutRole": "",
    }
    assert kind().detail(Seen(seen)) == "the cloud says degraded, 1 of 2 replicas healthy: no room"
    assert (
        kind().detail(Seen(Deployment(id="dep_1", status="running")))
        == "the cloud says running, 0 of 0 replicas healthy"
    )
    seen = row(
        status="degraded", statusReason="1 of 2 replicas are healthy. No room.", replicasReady=1, replicasDesired=2
    )
    assert kind().detail(Seen(seen)) == "the cloud says degraded: 1 of 2 replicas are healthy. No room."
    assert kind().models(serving()) == ("h200", "h100")
    assert not kind().input_refs(serving()).any
    assert kind().runs


def test_an_answer_that_shows_another_deployment_is_about_another() -> None:
    assert kind().of_another(serving(), INTENT, Seen(row())) == ()
    assert kind().of_another(serving(), INTENT, Seen(row(weightsRef="another"))) == ()
    (differs,) = kind().of_another(serving(), INTENT, Seen(row(servedModelId="another")))
    assert differs.startswith("servedModelId: asked ")
