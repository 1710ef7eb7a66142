"""ServingDeployments: made, scaled, changed, replaced, adopted, deleted; their lanes, and what the cloud refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cloud_log import count
from tests.cluster.conftest import BRISK
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, ready, relay_object, stalled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import StartOperator
    from tests.support.kube import Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

KIND = "ServingDeployment"
PATH = "/v1/serving/deployments"
LIST, CREATE, CHANGE, DELETE = f"GET {PATH}", f"POST {PATH}", f"PATCH {PATH}/{{id}}", f"DELETE {PATH}/{{id}}"
CANARY = "canary-of-the-engine"


def _deployment(name: str = "echo", desired: int = 1, **spec: object) -> Manifest:
    fields: dict[str, Any] = {
        "publicModelId": "echo",
        "servedModelId": "echo",
        "engine": "vllm",
        "gpu": {"modelId": "l40s", "count": 1},
        "replicas": {"min": 0, "max": 3, "desired": desired},
    }
    return relay_object(KIND, name, **(fields | spec))


def _body(workspace: Workspace, **more: object) -> Json:
    return {
        "organizationId": workspace.organization.id,
        "publicModelId": "echo",
        "servedModelId": "echo",
        "engine": "vllm",
        "gpuModelId": "l40s",
        "gpuCountPerReplica": 1,
        "replicasMin": 0,
        "replicasMax": 3,
        "replicasDesired": 1,
        **more,
    }


async def _call(workspace: Workspace, method: str, cloud_id: str = "", body: Json | None = None) -> Json:
    answer: Json = await workspace.organization.call(method, f"{PATH}{cloud_id and '/'}{cloud_id}", body)
    return answer


async def _live(workspace: Workspace) -> list[Json]:
    items: list[Json] = (await _call(workspace, "GET"))["items"]
    return [row for row in items if row["status"] != "draining"]


def _stalls(reason: str, text: str = "") -> Callable[[Manifest | None], bool]:
    return lambda item: stalled(item) == reason and text in condition(item, "Stalled")["message"]


def _has(**shown: object) -> Callable[[Manifest | None], bool]:
    return lambda item: ready(item) and all((item or {})["status"].get(name) == value for name, value in shown.items())


async def test_one_is_made_scaled_within_its_bounds_and_drained(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"token": CANARY}}
    await workspace.apply(secret)
    env = [
        {"name": "MODE", "value": "fast"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ]
    await workspace.apply(_deployment(env=env, backendWeight=2, version="1", extraArgs=["--quick"]))
    seen = await workspace.becomes(KIND, "echo", _has(state="running", readyReplicas=1))
    status = seen["status"]
    (row,) = await _live(workspace)
    assert (row["id"], row["env"]) == (status["id"], {"MODE": "fast", "TOKEN": CANARY})
    assert (row["backendWeight"], row["version"], row["extraArgs"]) == (2, "1", ["--quick"])
    assert condition(seen, "Ready")["reason"] == "Running"
    assert [member["id"] for member in status["lane"]["members"]] == [row["id"]]
    assert (status["lane"]["nodePool"], status["trafficPercent"], status["gpuModelId"]) == ("community", 100, "l40s")
    assert CANARY not in str(status)

    await workspace.kubectl("scale", f"{KIND.lower()}/echo", "--replicas=3")
    status = (await workspace.becomes(KIND, "echo", _has(replicas=3, readyReplicas=3)))["status"]
    assert status["pricePerHourCents"] == 3 * row["pricePerHourCents"]
    before = await count(workspace, CHANGE)
    await workspace.kubectl("scale", f"{KIND.lower()}/echo", "--replicas=4")
    beyond = await workspace.becomes(KIND, "echo", _stalls("ReplicasOutOfBounds"))
    assert "replicas.desired is 4, and 0 to 3 are allowed" in condition(beyond, "Stalled")["message"]
    assert await count(workspace, CHANGE) == before
    await workspace.kubectl("scale", f"{KIND.lower()}/echo", "--replicas=0")
    await workspace.becomes(KIND, "echo", _has(state="idle", replicas=0))
    await workspace.kubectl("scale", f"{KIND.lower()}/echo", "--replicas=1")
    await workspace.becomes(KIND, "echo", _has(state="running", readyReplicas=1))
    await workspace.kube.delete(KIND, "echo")
    await workspace.is_gone(KIND, "echo")
    assert (await _live(workspace), await count(workspace, CREATE), await count(workspace, DELETE)) == ([], 1, 1)


async def test_what_the_schema_refuses_and_what_the_cloud_cannot_change(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    odd: dict[str, dict[str, Any]] = {
        "replicas.min cannot be above replicas.max": {"replicas": {"min": 2, "max": 1, "desired": 1}},
        "replicas.max": {"replicas": {"min": 0, "max": 1001, "desired": 1}},
        "promptBytes.min must be below": {"promptBytes": {"min": 5, "max": 5}},
        "an isolated deployment gets no traffic": {"isolated": True, "backendWeight": 1},
        "an isolated deployment is in no lane": {"isolated": True, "rollout": {"role": "green"}},
        "replicaRuntime: pod needs weightsRef": {"replicaRuntime": "pod"},
        "set gpu.modelId or gpu.modelIds": {"gpu": {"count": 1}},
        "spec.engine": {"engine": "mine"},
    }
    for says, fields in odd.items():
        with pytest.raises(KubeError, match=says):
            await workspace.apply(_deployment(**fields))
    await workspace.apply(_deployment(desired=9))
    beyond = await workspace.becomes(KIND, "echo", _stalls("ReplicasOutOfBounds"))
    assert ("id" in beyond["status"], await count(workspace, CREATE)) == (False, 0)
    await workspace.apply(_deployment(version="1", isolated=True))
    first = (await workspace.becomes(KIND, "echo", _has(readyReplicas=1)))["status"]
    assert "lane" not in first
    await workspace.apply(_deployment(version="1", isolated=True, engine="sglang"))
    await workspace.becomes(KIND, "echo", _stalls("ImmutableFieldChanged", "engine: asked sglang, has vllm"))
    await workspace.apply(_deployment(version="2", isolated=True))
    await workspace.becomes(KIND, "echo", _stalls("ImmutableFieldChanged", "version: asked 2, has 1"))
    rolling = {"strategy": "rolling", "maxUnavailable": 1}
    await workspace.apply(_deployment(version="2", isolated=True, rollout=rolling))
    await workspace.becomes(KIND, "echo", _has(id=first["id"], readyReplicas=1))
    (row,) = await _live(workspace)
    assert (row["version"], row["rolloutStrategy"]) == ("2", "rolling")


async def test_a_lane_is_joined_by_those_who_say_so(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await workspace.apply(_deployment("first", backendWeight=3))
    first = (await workspace.becomes(KIND, "first", _has(readyReplicas=1)))["status"]["id"]
    await workspace.apply(_deployment("second", backendWeight=1))
    await workspace.becomes(KIND, "second", _stalls("LaneIntentRequired", first))
    assert len(await _live(workspace)) == 1
    await workspace.apply(_deployment("second", backendWeight=1, acknowledgeLaneJoin=True))
    status = (await workspace.becomes(KIND, "second", _has(readyReplicas=1, trafficPercent=25)))["status"]
    assert {member["id"] for member in status["lane"]["members"]} == {first, status["id"]}
    await workspace.becomes(KIND, "first", _has(trafficPercent=75))


async def test_a_green_starts_without_traffic_gets_its_weight_and_takes_the_place_of_blue(
    brisk_workspace: Workspace,
) -> None:
    workspace = brisk_workspace
    await workspace.apply(_deployment("blue", backendWeight=3, version="1"))
    blue = (await workspace.becomes(KIND, "blue", _has(readyReplicas=1)))["status"]["id"]
    green = _deployment("green", backendWeight=1, version="2", rollout={"role": "green"})
    await workspace.apply(green)
    status = (await workspace.becomes(KIND, "green", _has(rolloutRole="green", backendWeight=1)))["status"]
    (made,) = [row for row in await _live(workspace) if row["id"] != blue]
    assert (made["id"], status["trafficPercent"]) == (status["id"], 25)
    await workspace.apply(_deployment("green", version="2"))  # no role, and whatever weight the cloud gives it
    await workspace.becomes(KIND, "green", _has(rolloutRole=None, backendWeight=1, trafficPercent=100))
    await workspace.becomes(KIND, "blue", _stalls("TerminatedExternally"))
    assert [row["id"] for row in await _live(workspace)] == [status["id"]]
    await workspace.kube.delete(KIND, "blue")
    await workspace.is_gone(KIND, "blue")
    assert await count(workspace, CREATE) == 2


async def test_one_that_exists_is_adopted_made_as_asked_and_kept(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    there = await _call(workspace, "POST", body=_body(workspace))
    adopting = _deployment(engine="sglang", backendWeight=2, deletionPolicy="Orphan")
    adopting["metadata"]["annotations"] = {"gpurelay.dev/adopt-id": there["id"]}
    await workspace.apply(adopting)
    await workspace.becomes(KIND, "echo", _stalls("AdoptionRefused", "engine: asked sglang, has vllm"))
    adopting["spec"]["engine"] = "vllm"
    await workspace.apply(adopting)
    status = (await workspace.becomes(KIND, "echo", _has(backendWeight=2, readyReplicas=1)))["status"]
    assert status["id"] == there["id"]
    await workspace.kube.delete(KIND, "echo")
    await workspace.is_gone(KIND, "echo")
    assert [row["id"] for row in await _live(workspace)] == [there["id"]]
    assert (await count(workspace, CREATE), await count(workspace, DELETE)) == (1, 0)
    await _call(workspace, "DELETE", there["id"])


async def test_after_a_lost_answer_the_one_that_is_as_it_was_sent_is_its_own(brisk_workspace: Workspace) -> None:
    workspace, own = brisk_workspace, brisk_workspace.organization.id
    await workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=own)
    await workspace.apply(_deployment(env=[{"name": "MODE", "value": "fast"}]))
    status = (await workspace.becomes(KIND, "echo", _has(readyReplicas=1)))["status"]
    assert [row["id"] for row in await _live(workspace)] == [status["id"]]
    assert await count(workspace, CREATE) == 1


async def test_a_create_that_outlives_its_operator_is_found_by_the_next(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace, own = unattended_workspace, unattended_workspace.organization.id
    first = await start_operator(workspace, **BRISK)
    await workspace.becomes("CloudAccount", "default")
    await workspace.cloud.control.fault(CREATE, {"drop": "after"}, organizationId=own)
    looks = {"skip": 1, "organizationId": own}  # before the create
    await workspace.cloud.control.fault(LIST, {"status": 503}, **looks)
    await workspace.apply(_deployment())
    await eventually(lambda: count(workspace, CREATE), lambda creates: creates == 1)
    await first.kill()
    await workspace.cloud.control.clear_faults()
    await start_operator(workspace, **BRISK)
    status = (await workspace.becomes(KIND, "echo", _has(readyReplicas=1)))["status"]
    assert [row["id"] for row in await _live(workspace)] == [status["id"]]
    assert await count(workspace, CREATE) == 1


async def test_if_nothing_is_as_it_was_sent_nothing_is_sent_before_a_person_says_so(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace, own = unattended_workspace, unattended_workspace.organization.id
    await start_operator(workspace, **BRISK, search_seconds="1", absence_after_unknown_seconds="1")
    await workspace.cloud.control.fault(CREATE, {"drop": "before"}, count=1, organizationId=own)
    await workspace.apply(_deployment())
    asking = await workspace.becomes(KIND, "echo", _stalls("CreateOutcomeUnknown"))
    before = await count(workspace, LIST)
    await eventually(lambda: count(workspace, LIST), lambda lists: lists >= before + 3)
    assert await count(workspace, CREATE) == 1
    other = await _call(workspace, "POST", body=_body(workspace, replicasDesired=0))
    assert "id" not in asking["status"]
    await workspace.kube.annotate(KIND, "echo", {"gpurelay.dev/adopt-id": other["id"]})
    await workspace.becomes(KIND, "echo", _has(id=other["id"], readyReplicas=1))
    assert await count(workspace, CREATE) == 2


async def test_what_stopped_for_want_of_funds_goes_on_when_there_are_some(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await workspace.apply(_deployment(isolated=True))
    cloud_id = (await workspace.becomes(KIND, "echo", _has(readyReplicas=1)))["status"]["id"]
    await workspace.cloud.control.change_organization(workspace.organization.id, balanceCents=-1)
    told = await workspace.becomes(KIND, "echo", _stalls("BalanceExhausted"))
    assert (told["status"]["state"], ready(told)) == ("stopped", False)
    await workspace.cloud.control.change_organization(workspace.organization.id, balanceCents=100_000)
    await workspace.becomes(KIND, "echo", _has(id=cloud_id, state="running", readyReplicas=1))


async def test_without_room_for_one_model_the_next_is_tried(brisk_workspace: Workspace) -> None:
    workspace, own = brisk_workspace, brisk_workspace.organization.id
    full = {"status": 503, "body": {"error": "no room", "code": "INSUFFICIENT_GPU_CAPACITY"}}
    await workspace.cloud.control.fault(CREATE, full, count=1, organizationId=own)
    await workspace.apply(_deployment(isolated=True, gpu={"modelIds": ["l40s", "h100"], "count": 1}))
    await workspace.becomes(KIND, "echo", _has(gpuModelId="h100", readyReplicas=1))
    assert len(await _live(workspace)) == 1


async def test_it_is_off_until_it_is_switched_on(workspace: Workspace) -> None:
    await workspace.apply(_deployment())
    await workspace.becomes(KIND, "echo", _stalls("KindDisabled", "add ServingDeployment to RELAY_ASSUMED_KINDS"))
    assert await count(workspace, CREATE) == 0
    await workspace.kube.delete(KIND, "echo")
    await workspace.is_gone(KIND, "echo")
