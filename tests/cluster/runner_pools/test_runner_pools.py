"""RunnerPools: made, changed, adopted, deleted; never twice, and never forgotten by a cloud that cannot show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cloud_log import count
from tests.cluster.seen import seen_of
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import adopting, condition, ready, relay_object, stalls, tells

if TYPE_CHECKING:
    from tests.conftest import StartOperator
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

KIND = "RunnerPool"
PATH = "/v1/orgs/{orgId}/runner-pools"
CREATE, LIST, DELETE = f"POST {PATH}", f"GET {PATH}", f"DELETE {PATH}/{{id}}"
CANARY = "canary-of-the-grant"
WHOLE: dict[str, Any] = {
    "installationId": 9_007_199_254_740_993,
    "poolRamGb": 64,
    "diskSizeGb": 200,
    "vcsOwner": "acme",
    "vcsOwnerType": "Organization",
}
GRANT: dict[str, Any] = {"grantFrom": {"secretKeyRef": {"name": "grant", "key": "grant"}}}


def _pool(name: str = "ci", **spec: object) -> Manifest:
    return relay_object(KIND, name, **({"installationId": 42, "poolRamGb": 64} | spec))


def _grant(value: str = CANARY) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "grant"}, "stringData": {"grant": value}}


async def _call(workspace: Workspace, method: str, cloud_id: str = "", body: Json | None = None) -> Json:
    path = f"/v1/orgs/{workspace.organization.id}/runner-pools{cloud_id and '/'}{cloud_id}"
    answer: Json = await workspace.organization.call(method, path, body)
    return answer


async def _pools(workspace: Workspace) -> list[Json]:
    items: list[Json] = (await _call(workspace, "GET"))["items"]
    return items


async def _serves_no(workspace: Workspace, **statuses: int) -> list[str]:
    """Makes the cloud one that has no such operations."""
    control, own = workspace.cloud.control, workspace.organization.id
    operations = {"list": LIST, "delete": DELETE}
    return [
        await control.fault(operations[name], {"status": status}, organizationId=own)
        for name, status in statuses.items()
    ]


async def test_a_pool_is_made_and_deleted_and_its_grant_is_shown_nowhere(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    await brisk_workspace.apply(_pool(**WHOLE, **GRANT))
    await brisk_workspace.becomes(KIND, "ci", tells("EnvMissing", "Secret grant in"))
    for value, text in ((" \n", "is empty"), (CANARY * 300, "has more than 4096 characters")):
        await brisk_workspace.apply(_grant(value))
        await brisk_workspace.becomes(KIND, "ci", tells("EnvMissing", text))
    assert await count(brisk_workspace, CREATE) == 0
    await brisk_workspace.apply(_grant(f"{CANARY}\n"))
    status = (await brisk_workspace.becomes(KIND, "ci"))["status"]
    (row,) = await _pools(brisk_workspace)
    assert (row["id"], row["name"]) == (status["id"], status["cloudName"])
    assert {field: row[field] for field in WHOLE} == {field: status[field] for field in WHOLE} == WHOLE
    assert "state" not in status
    assert CANARY not in await seen_of(brisk_workspace, brisk, KIND)
    await brisk_workspace.kube.delete(KIND, "ci")
    await brisk_workspace.is_gone(KIND, "ci")
    assert await _pools(brisk_workspace) == []
    assert (await count(brisk_workspace, CREATE), await count(brisk_workspace, DELETE)) == (1, 1)
    assert CANARY not in await seen_of(brisk_workspace, brisk, KIND)


async def test_another_size_is_that_of_another_pool_if_people_ask_for_that(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_pool())
    first = (await brisk_workspace.becomes(KIND, "ci"))["status"]
    assert first["diskSizeGb"] == 50
    await brisk_workspace.apply(_pool(poolRamGb=128))
    told = await brisk_workspace.becomes(KIND, "ci", stalls("ImmutableFieldChanged"))
    assert "poolRamGb: asked 128, has 64" in condition(told, "Stalled")["message"]
    assert [row["id"] for row in await _pools(brisk_workspace)] == [first["id"]]
    await brisk_workspace.apply(_pool(poolRamGb=128, updateStrategy={"type": "Recreate"}))
    second = (await brisk_workspace.becomes(KIND, "ci"))["status"]
    assert [(row["id"], row["poolRamGb"]) for row in await _pools(brisk_workspace)] == [(second["id"], 128)]
    assert await count(brisk_workspace, CREATE) == 2


async def test_another_grant_is_told_and_changes_nothing(brisk_workspace: Workspace, brisk: Operator) -> None:
    await brisk_workspace.apply(_grant())
    await brisk_workspace.apply(_pool(**GRANT))
    await brisk_workspace.becomes(KIND, "ci")
    await brisk_workspace.apply(_grant(f"another-{CANARY}"))
    told = await brisk_workspace.becomes(KIND, "ci", lambda item: condition(item, "EnvOutdated"))
    assert ready(told)
    assert await count(brisk_workspace, CREATE) == 1
    assert CANARY not in await seen_of(brisk_workspace, brisk, KIND)


async def test_a_pool_that_exists_is_adopted_if_it_is_as_asked(brisk_workspace: Workspace) -> None:
    by_hand = await _call(brisk_workspace, "POST", body=WHOLE | {"name": "by-hand"})
    await brisk_workspace.apply(adopting(_pool("other", **WHOLE | {"vcsOwner": "emca"}), by_hand["id"]))
    refused = await brisk_workspace.becomes(KIND, "other", stalls("AdoptionRefused"))
    assert "vcsOwner: asked emca, has acme" in condition(refused, "Stalled")["message"]
    await brisk_workspace.apply(adopting(_pool(**WHOLE), by_hand["id"]))
    assert (await brisk_workspace.becomes(KIND, "ci"))["status"]["id"] == by_hand["id"]
    assert await count(brisk_workspace, CREATE) == 1
    await brisk_workspace.kube.delete(KIND, "ci")
    await brisk_workspace.is_gone(KIND, "ci")
    assert await _pools(brisk_workspace) == []


async def test_a_refusal_says_why_and_repeats_no_grant(brisk_workspace: Workspace, brisk: Operator) -> None:
    refusal = {"status": 400, "body": {"error": f"no installation takes {CANARY}", "code": "bad_request"}}
    await brisk_workspace.cloud.control.fault(CREATE, refusal, organizationId=brisk_workspace.organization.id)
    await brisk_workspace.apply(_grant())
    await brisk_workspace.apply(_pool(**GRANT))
    refused = await brisk_workspace.becomes(KIND, "ci", stalls("SpecInvalid"))
    assert "no installation takes" in condition(refused, "Stalled")["message"]
    assert CANARY not in await seen_of(brisk_workspace, brisk, KIND)
    await brisk_workspace.kube.delete(KIND, "ci")
    await brisk_workspace.is_gone(KIND, "ci")
    assert await _pools(brisk_workspace) == []


async def test_a_pool_whose_answer_is_lost_is_found_and_not_made_twice(brisk_workspace: Workspace) -> None:
    own = brisk_workspace.organization.id
    await brisk_workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=own)
    await brisk_workspace.apply(_pool())
    status = (await brisk_workspace.becomes(KIND, "ci"))["status"]
    assert [(row["id"], row["name"]) for row in await _pools(brisk_workspace)] == [(status["id"], status["cloudName"])]
    assert await count(brisk_workspace, CREATE) == 1


async def test_a_pool_that_somebody_deletes_is_told_and_not_made_again(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_pool())
    await _call(brisk_workspace, "DELETE", (await brisk_workspace.becomes(KIND, "ci"))["status"]["id"])
    await brisk_workspace.becomes(KIND, "ci", stalls("TerminatedExternally"))
    assert await count(brisk_workspace, CREATE) == 1


@pytest.mark.parametrize("status", [404, 405])
async def test_a_cloud_that_shows_and_deletes_no_pools_makes_them_all_the_same(
    brisk_workspace: Workspace, status: int
) -> None:
    await _serves_no(brisk_workspace, list=status, delete=status)
    await brisk_workspace.apply(_pool())
    made = (await brisk_workspace.becomes(KIND, "ci", tells("Available", "no list by which to see")))["status"]
    await brisk_workspace.kube.delete(KIND, "ci")
    told = await brisk_workspace.becomes(KIND, "ci", stalls("NotServed"))
    assert f"no call that deletes {made['id']}" in condition(told, "Stalled")["message"]
    assert (await _call(brisk_workspace, "GET", made["id"]))["name"] == made["cloudName"]
    await brisk_workspace.kube.patch(KIND, "ci", {"metadata": {"annotations": {"gpurelay.dev/abandon": "true"}}})
    await brisk_workspace.is_gone(KIND, "ci")
    assert await count(brisk_workspace, CREATE) == 1


async def test_a_deletion_is_sent_again_until_the_cloud_has_it(brisk_workspace: Workspace) -> None:
    (no_end,) = await _serves_no(brisk_workspace, delete=405)
    await brisk_workspace.apply(_pool())
    await brisk_workspace.becomes(KIND, "ci")
    await brisk_workspace.kube.delete(KIND, "ci")
    told = await brisk_workspace.becomes(KIND, "ci", stalls("NotServed"))
    assert "delete it in the cloud's console; the deletion waits for it" in condition(told, "Stalled")["message"]
    assert len(await _pools(brisk_workspace)) == 1
    await brisk_workspace.cloud.control.end_fault(no_end)
    await brisk_workspace.is_gone(KIND, "ci")
    assert await _pools(brisk_workspace) == []


async def test_a_cloud_that_shows_no_pools_and_deletes_them_is_believed(brisk_workspace: Workspace) -> None:
    (no_list,) = await _serves_no(brisk_workspace, list=404)
    await brisk_workspace.apply(_pool())
    await brisk_workspace.becomes(KIND, "ci")
    await brisk_workspace.kube.delete(KIND, "ci")
    await brisk_workspace.is_gone(KIND, "ci")
    await brisk_workspace.cloud.control.end_fault(no_list)
    assert await _pools(brisk_workspace) == []
    assert (await count(brisk_workspace, CREATE), await count(brisk_workspace, DELETE)) == (1, 1)


async def test_a_lost_answer_of_a_cloud_that_shows_no_pools_is_for_people_to_resolve(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    own, control = unattended_workspace.organization.id, unattended_workspace.cloud.control
    slow = await control.fault(CREATE, {"answerDelaySeconds": 60}, organizationId=own)
    operator = await start_operator(unattended_workspace, search_seconds="0.5", poll_settled_seconds="1")
    await unattended_workspace.apply(_pool())
    await eventually(lambda: _pools(unattended_workspace), lambda made: len(made) == 1, what="the cloud acted on it")
    await operator.kill()
    await control.end_fault(slow)
    (no_list,) = await _serves_no(unattended_workspace, list=405)
    await operator.start()
    await unattended_workspace.becomes(KIND, "ci", stalls("CreateOutcomeUnknown"))
    await control.end_fault(no_list)
    status = (await unattended_workspace.becomes(KIND, "ci"))["status"]
    assert [row["id"] for row in await _pools(unattended_workspace)] == [status["id"]]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"installationId": None}, "spec.installationId: Required value"),
        ({"installationId": 0}, "should be greater than or equal to 1"),
        ({"installationId": 2**63}, "should be less than or equal to"),
        ({"poolRamGb": None}, "spec.poolRamGb: Required value"),
        ({"poolRamGb": 1.5}, "must be of type integer"),
        ({"diskSizeGb": 0}, "should be greater than or equal to 1"),
        ({"vcsOwner": "a\nb"}, "should match"),
        ({"vcsOwnerType": ""}, "at least 1 chars long"),
        ({"grantFrom": {"configMapKeyRef": {"name": "grant", "key": "grant"}}}, "grantFrom.configMapKeyRef"),
        ({"deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, Any], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(_pool(**spec), dry_run=True)
    assert says in refused.value.message
