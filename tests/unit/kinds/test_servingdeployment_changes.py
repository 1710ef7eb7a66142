"""What of a ServingDeployment is changed in place, what lasts, and what is out of its bounds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud, Conflict, Outcome
from relay_operator.api.conditions import Reason
from relay_operator.api.servingdeployment import ServingDeployment, ServingDeploymentStatus
from relay_operator.engine.intent import changed_fields, fingerprints
from relay_operator.engine.report import refusal
from relay_operator.flows.managed.resource import Inputs
from relay_operator.kinds.servingdeployment import Seen
from relay_wire.serving import Deployment
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.deployments import INTENT, LASTING, kind, one, row, serving

if TYPE_CHECKING:
    from pydantic import JsonValue


def asked(obj: ServingDeployment, has: Deployment) -> tuple[str, dict[str, JsonValue]]:
    """The one change: its name, and what it sends."""
    (change,) = kind().changes(obj, Seen(has), running=True)
    return change.name, json.loads(change.to)


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


@pytest.mark.parametrize(("desired", "pays"), [(3, False), (4, True), (8, True), (9, False), (900, False)])
def test_replicas_that_are_never_sent_hold_no_budget(desired: int, pays: bool) -> None:
    obj = serving(replicas={"min": 4, "max": 8, "desired": desired})
    (change,) = kind().changes(obj, Seen(row()), running=True)
    assert change.pays is pays


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
