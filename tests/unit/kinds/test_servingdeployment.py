"""How a ServingDeployment maps to a deployment: what is sent, what changes it, its lane, and what is like it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import Cloud, Conflict, NotFound, NotServed, Outcome, Unreadable
from relay_client.paging import MAX_PAGES
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent
from relay_operator.api.servingdeployment import SHOWN_MEMBERS, ServingDeployment, ServingDeploymentStatus
from relay_operator.engine.commitment import commitment
from relay_operator.engine.intent import changed_fields, fingerprints
from relay_operator.engine.report import refusal
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Inputs, Look, Progress
from relay_operator.kinds import lanes
from relay_operator.kinds.servingdeployment import Seen, ServingDeployments
from relay_wire.serving import Deployment
from tests.unit.client.scripted import Reply, scripted_server

if TYPE_CHECKING:
    from pydantic import JsonValue

    from relay_operator.flows.wiring import Parts

PATH = "/v1/serving/deployments"
ALL = f"{PATH}?limit=200"
INTENT = CreateIntent.model_validate(
    {"token": "t", "name": "team-a-llama", "attempt": 1, "specHash": "", "startedAt": "2026-01-01T00:00:00Z"}
)
REQUIRED: dict[str, JsonValue] = {
    "publicModelId": "llama",
    "servedModelId": "llama-3",
    "engine": "vllm",
    "gpu": {"modelIds": ["h200", "h100"], "count": 2},
    "replicas": {"min": 0, "max": 4, "desired": 2},
}
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
SENT: dict[str, JsonValue] = {
    "organizationId": "org-1",
    "publicModelId": "llama",
    "servedModelId": "llama-3",
    "engine": "vllm",
    "gpuModelId": "h200",
    "gpuCountPerReplica": 2,
    "replicasMin": 0,
    "replicasMax": 4,
    "replicasDesired": 2,
    "nativeFamilies": ["chat_completions"],
    "maxConcurrencyPerReplica": 0,
    "backendWeight": 0,
    "minPromptBytes": 0,
    "maxPromptBytes": 0,
    "isolated": False,
    "replicaRuntime": "",
    "rolloutRole": "",
    "rolloutStrategy": "blue_green",
    "maxUnavailable": 1,
    "acknowledgeLaneJoin": False,
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


def kind() -> ServingDeployments:
    engine = SimpleNamespace(clock=time.monotonic)
    return ServingDeployments(
        cast("Parts", SimpleNamespace(settings=SimpleNamespace(poll_settled_seconds=300.0), engine=engine))
    )


def serving(**spec: JsonValue) -> ServingDeployment:
    metadata = {"name": "llama", "namespace": "team-a"}
    return ServingDeployment.model_validate({"metadata": metadata, "spec": REQUIRED | spec})


def row(**fields: Any) -> Deployment:
    """What the cloud makes of the least that can be asked for."""
    told = {
        **{name: value for name, value in SENT.items() if name != "acknowledgeLaneJoin"},
        "id": "dep_1",
        "nodePool": "community",
        "status": "running",
        "replicasReady": 2,
        "createdAt": "2026-01-01T00:00:00Z",
        **fields,
    }
    return Deployment.model_validate(told)


def answer(*rows: Deployment, cursor: str = "") -> Reply:
    items = [each.model_dump(by_alias=True) for each in rows]
    return Reply(body=json.dumps({"items": items, "nextCursor": cursor}).encode())


def one(each: Deployment) -> Reply:
    return Reply(body=each.model_dump_json(by_alias=True).encode())


def asked(obj: ServingDeployment, has: Deployment) -> tuple[str, dict[str, JsonValue]]:
    """The one change: its name, and what it sends."""
    (change,) = kind().changes(obj, Seen(has), running=True)
    return change.name, json.loads(change.to)


@pytest.mark.parametrize("whole", [False, True])
async def test_every_field_is_sent_with_its_default(whole: bool) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "dep_1"}'))
        inputs = Inputs(env={"MODE": "fast"} if whole else {}, model_id="h200")
        made = await kind().create(cloud, serving(**(WHOLE if whole else {})), INTENT, inputs)
    assert (server.seen[0].method, server.seen[0].target, kind().identity(made)) == ("POST", PATH, ("dep_1", ""))
    assert json.loads(server.seen[0].body) == SENT | (SENT_WHOLE if whole else {})
    assert kind().progress(made) is Progress.PENDING


async def test_a_green_starts_without_weight_gets_it_once_it_runs_and_is_promoted_then() -> None:
    green = serving(backendWeight=5, rollout={"role": "green"})
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "dep_1"}'))
        await kind().create(cloud, green, INTENT, Inputs(model_id="h200"))
    sent = json.loads(server.seen[0].body)
    assert (sent["rolloutRole"], sent["backendWeight"]) == ("green", 0)
    starting, running = row(rolloutRole="green", replicasReady=1), row(rolloutRole="green")
    assert kind().changes(green, Seen(starting), running=True) == ()
    assert asked(green, running) == ("update", {"backendWeight": 5})
    assert kind().changes(serving(backendWeight=5), Seen(starting), running=True) == ()
    assert asked(serving(backendWeight=5), running) == ("promote", {"backendWeight": 5, "rolloutRole": ""})
    assert asked(serving(), running) == ("promote", {"rolloutRole": ""})
    assert kind().changes(serving(), Seen(row(backendWeight=3)), running=True) == ()  # what it took over stays


@pytest.mark.parametrize(
    ("spec", "name", "body"),
    [
        ({"replicas": {"min": 1, "max": 5, "desired": 3}}, "scale", {"replicasMin": 1, "replicasMax": 5}),
        ({"backendWeight": 1}, "update", {"backendWeight": 1}),
        ({"maxConcurrencyPerReplica": 1}, "update", {"maxConcurrencyPerReplica": 1}),
        (
            {"rollout": {"strategy": "rolling", "maxUnavailable": 2}, "version": "2", "extraArgs": ["-v"]},
            "update",
            {"rolloutStrategy": "rolling", "maxUnavailable": 2, "version": "2", "extraArgs": ["-v"]},
        ),
    ],
)
def test_what_differs_is_changed_in_place(spec: dict[str, JsonValue], name: str, body: dict[str, JsonValue]) -> None:
    told, sent = asked(serving(**spec), row())
    assert (told, sent) == (name, body | ({"replicasDesired": 3} if name == "scale" else {}))
    (change,) = kind().changes(serving(**spec), Seen(row()), running=True)
    assert change.reason is (Reason.SCALING if name == "scale" else Reason.UPDATING)
    assert kind().changes(serving(), Seen(row(backendWeight=None, maxUnavailable=None)), running=True) == ()


def test_what_stopped_is_started_by_being_scaled() -> None:
    assert asked(serving(), row(status="stopped", replicasReady=0)) == ("scale", {"replicasDesired": 2})


@pytest.mark.parametrize(("desired", "within"), [(0, False), (1, True), (4, True), (5, False)])
async def test_out_of_its_bounds_nothing_is_sent(desired: int, within: bool) -> None:
    obj = serving(replicas={"min": 1, "max": 4, "desired": desired})
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        (change,) = kind().changes(obj, Seen(row(replicasDesired=9)), running=True)
        if within:
            server.will(one(row()), one(row()))
            await kind().create(cloud, obj, INTENT, Inputs(model_id="h100"))
            await change.send(cloud)
            assert [each.method for each in server.seen] == ["POST", "PATCH"]
            return
        for send in (change.send(cloud), kind().create(cloud, obj, INTENT, Inputs(model_id="h100"))):
            with pytest.raises(Conflict, match=f"replicas.desired is {desired}, and 1 to 4 are allowed") as refused:
                await send
            assert (refused.value.outcome, refusal(refused.value).reason) == (
                Outcome.NOT_SENT,
                Reason.REPLICAS_OUT_OF_BOUNDS,
            )
    assert server.seen == []


def test_a_lane_that_has_members_is_a_reason_of_its_own() -> None:
    refused = refusal(Conflict("create_deployment", "members: dep_1", code="LANE_INTENT_REQUIRED"))
    assert (refused.reason, refused.stalled) == (Reason.LANE_INTENT_REQUIRED, True)


LASTING: dict[str, JsonValue] = {
    "publicModelId": "other",
    "servedModelId": "other",
    "engine": "sglang",
    "gpuCountPerReplica": 1,
    "gpuModelId": "l40s",
    "nativeFamilies": ["messages"],
    "minPromptBytes": 1,
    "maxPromptBytes": 1,
    "isolated": True,
    "replicaRuntime": "vm",
}


def test_what_lasts_cannot_be_changed() -> None:
    deployments, obj = kind(), serving(nodePool="eu", replicaRuntime="pod", weightsRef="w")
    assert deployments.differences(serving(), Seen(row())) == ()
    assert deployments.immutable(obj).keys() == {*LASTING, "nodePool", "weightsRef", "env"} - {"gpuModelId"}
    told = deployments.differences(obj, Seen(row(**LASTING, weightsRef="w")))
    assert {each.partition(":")[0] for each in told} == {*LASTING, "nodePool", "gpu.modelIds"} - {"gpuModelId"}
    assert "gpu.modelIds: asked h200 or h100, has l40s" in told
    assert deployments.differences(serving(version="2"), Seen(row(version="1"))) == (
        "version: asked 2, has 1, and rollout.strategy: rolling would change it in place",
    )
    rolling = serving(version="2", rollout={"strategy": "rolling"})
    assert deployments.differences(rolling, Seen(row(version="1"))) == ()


def test_a_field_taken_out_of_the_spec_is_told_if_the_deployment_was_created_with_it() -> None:
    fields: dict[str, JsonValue] = {"nodePool": "eu", "quantization": "awq", "extraArgs": ["--quick"]}
    rolling: dict[str, JsonValue] = {"rollout": {"strategy": "rolling"}}
    deployments, has = kind(), Seen(row(**fields, dtype="auto"))
    recorded = fingerprints(deployments.immutable(serving(**fields)))

    def created(**spec: JsonValue) -> ServingDeployment:
        return serving(**spec).model_copy(update={"status": ServingDeploymentStatus(spec_hash=recorded)})

    for rest in ({}, rolling):
        assert deployments.differences(created(**rest), has) == tuple(
            f"{name}: taken out of the spec, and the cloud cannot clear it" for name in sorted(fields)
        )
    assert deployments.differences(created(), Seen(row(dtype="auto"))) == ()
    assert deployments.differences(serving(), has) == ()
    after = created(**fields | {"quantization": "fp8", "version": "2"} | rolling)
    assert changed_fields(recorded, deployments.immutable(after)) == ()


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
        server.will(answer(own, *others))
        assert [each.row for each in await deployments.alike(cloud, obj)] == [own]
        assert await deployments.existing(cloud, obj) is None
        assert await deployments.find(cloud, "team-a-llama", UnclaimedIds()) == CannotTell()
        assert await deployments.living(cloud, UnclaimedIds()) == {}
    assert deployments.made_at(Seen(own)) == datetime(2026, 1, 1, tzinfo=UTC)
    assert deployments.made_at(Seen(row(createdAt=None))) is None


async def test_all_are_read_by_one_list_and_what_it_lacks_is_asked_for() -> None:
    status = ServingDeploymentStatus()
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        deployments, other = kind(), row(id="dep_2")
        server.will(answer(row(), other))
        for cloud_id in ("dep_1", "dep_2"):
            seen = await deployments.observe(cloud, cloud_id, status, Look.ROUTINE)
            assert (seen.row.id, seen.lane) == (cloud_id, (row(), other))
        server.will(one(row(id="dep_3")))
        assert len((await deployments.observe(cloud, "dep_3", status, Look.ROUTINE)).lane) == 3
        server.will(answer(row()), Reply(404, b'{"error": "no such thing", "code": "not_found"}'))
        with pytest.raises(NotFound):
            await deployments.observe(cloud, "dep_2", status, Look.EXACT)
        server.will(Reply(404, b'{"error": "no such thing", "code": "not_found"}'))
        with pytest.raises(NotServed, match="has no list"):  # which says nothing of what would be in it
            await deployments.observe(cloud, "dep_1", status, Look.EXACT)
        server.will(Reply(status=204))
        await deployments.delete(cloud, "dep_1")
    assert [each.target for each in server.seen] == [ALL, f"{PATH}/dep_3", ALL, f"{PATH}/dep_2", ALL, f"{PATH}/dep_1"]


async def test_a_list_without_an_end_tells_nothing() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(*(answer(cursor=str(number)) for number in range(MAX_PAGES)))
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
    assert commitment({}, {"gpu": {"modelId": "h200", "count": 1}}, told).gpus == gpus


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
    assert kind().models(serving()) == ("h200", "h100")
    assert not kind().input_refs(serving()).any
    assert kind().runs
