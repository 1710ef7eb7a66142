"""Changes of deployments that are refused (assumed: section 2 shows no change)."""

from __future__ import annotations

import pytest

from tests.localcloud.support.deployments import (
    DEPLOYMENTS,
    create,
    try_change,
)
from tests.localcloud.support.server import Organization


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"replicasDesired": 9}, "replicasDesired"),
        ({"replicasMin": 2}, "replicasDesired"),
        ({"replicasMax": 0}, "replicasMax"),
        ({"backendWeight": -1}, "backendWeight"),
        ({"maxUnavailable": 0}, "maxUnavailable"),
        ({"rolloutStrategy": "canary"}, "rolloutStrategy"),
        ({"rolloutRole": "green"}, "rolloutRole"),
        ({"env": {"A": None}}, "env"),
        ({"env": {"A=B": "1"}}, "env"),
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "env"),
    ],
)
async def test_a_change_that_makes_no_sense_is_400_and_changes_nothing(
    organization: Organization, changes: dict[str, object], named: str
) -> None:
    before = await create(organization)
    answer = await try_change(organization, before["id"], **changes)
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith(named)
    assert await organization.ok("GET", f"{DEPLOYMENTS}/{before['id']}") == before


@pytest.mark.parametrize(
    "field",
    [
        "organizationId",
        "publicModelId",
        "engine",
        "servedModelId",
        "gpuModelId",
        "gpuCountPerReplica",
        "nativeFamilies",
        "nodePool",
        "minPromptBytes",
        "maxPromptBytes",
        "isolated",
        "replicaRuntime",
    ],
)
async def test_what_a_deployment_keeps_for_its_life_cannot_be_changed(organization: Organization, field: str) -> None:
    made = await create(organization)
    answer = await try_change(organization, made["id"], **{field: made[field]})
    assert answer.refusal == (400, "invalid_request")
    assert f"{field} cannot be changed" in answer.body["error"]


async def test_an_isolated_deployment_never_gets_weight(organization: Organization) -> None:
    made = await create(organization, isolated=True)
    answer = await try_change(organization, made["id"], backendWeight=1)
    assert answer.refusal == (400, "invalid_request")


async def test_a_pod_keeps_its_weights(organization: Organization) -> None:
    made = await create(organization, replicaRuntime="pod", weightsRef="w", rolloutStrategy="rolling")
    answer = await try_change(organization, made["id"], weightsRef="")
    assert answer.refusal == (400, "invalid_request")
