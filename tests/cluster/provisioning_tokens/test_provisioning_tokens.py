"""ProvisioningTokens: made, kept in a Secret, used, renewed, revoked; refused; made again where nobody knows them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cloud_log import count
from tests.cluster.seen import seen_of
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.localcloud import CloudRefusal
from tests.support.manifests import SECRET, SECRET_KEY, condition, ready, ready_with_another, relay_object, stalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

KIND, KEPT_IN = "ProvisioningToken", "enrol-machines"
CREATE, LIST = "POST /v1/orgs/{orgId}/provider/tokens", "GET /v1/orgs/{orgId}/provider/tokens"


def _token(**spec: object) -> Manifest:
    return relay_object(KIND, "racks", **({"secretName": KEPT_IN} | spec))


async def _provider(workspace: Workspace) -> Workspace:
    await workspace.cloud.control.change_organization(workspace.organization.id, provider=True)
    return workspace


async def _tokens(workspace: Workspace) -> list[Json]:
    """Those that were not revoked."""
    listed = await workspace.organization.call("GET", f"/v1/orgs/{workspace.organization.id}/provider/tokens")
    items: list[Json] = listed["items"]
    return items


async def _ids(workspace: Workspace) -> list[str]:
    return [each["id"] for each in await _tokens(workspace)]


async def _value(workspace: Workspace) -> str:
    secret = await workspace.kube.get("Secret", KEPT_IN)
    return base64.b64decode(secret["data"]["token"]).decode()


async def _joins(workspace: Workspace, token: str) -> int:
    """A machine that wants to join for the organization alone: 200, or how the cloud refuses it."""
    control, own = workspace.cloud.control, workspace.organization.id
    try:
        node = await control.add_node("l40s", 1, provisioningToken=token, orgId=own)
    except CloudRefusal as refused:
        return refused.status
    await control.change_node(node["id"], removed=True)
    return 200


def _puts_aside(cloud_id: str) -> Callable[[Manifest | None], bool]:
    return lambda item: [each["id"] for each in (item or {})["status"].get("former") or ()] == [cloud_id]


async def test_a_token_is_made_lets_as_many_machines_in_as_asked_and_is_revoked(brisk_workspace: Workspace) -> None:
    await _provider(brisk_workspace)
    await brisk_workspace.apply(_token(expiresInHours=2, maxNodes=1, nodeType="hgx", nodePool="eu-racks"))
    status, value = (await brisk_workspace.becomes(KIND, "racks"))["status"], await _value(brisk_workspace)
    (row,) = await _tokens(brisk_workspace)
    assert (row["id"], row["name"]) == (status["id"], status["cloudName"])
    assert (row["maxNodes"], row["nodeType"], row["nodePool"]) == (1, "hgx", "eu-racks")
    assert row["expiresAt"].startswith(status["expiresAt"][:19])
    assert (status["maxNodes"], status["usedNodes"], status["nodePool"]) == (1, 0, "eu-racks")
    assert "state" not in status
    assert [await _joins(brisk_workspace, value) for _ in range(2)] == [200, 409]

    def used_up(item: Manifest | None) -> bool:
        return ready(item) and (item or {})["status"]["usedNodes"] == 1

    used = await brisk_workspace.becomes(KIND, "racks", used_up)
    assert condition(used, "Ready")["message"].endswith("joined with it: 1 of 1")
    await brisk_workspace.kube.delete(KIND, "racks")
    await brisk_workspace.is_gone(KIND, "racks")
    assert await _tokens(brisk_workspace) == []
    assert await _joins(brisk_workspace, value) == 410
    assert await count(brisk_workspace, CREATE) == 1


async def test_a_token_is_renewed_in_time_and_the_one_before_works_on(brisk_workspace: Workspace) -> None:
    await _provider(brisk_workspace)
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    await brisk_workspace.apply(_token(expiresInHours=1, renewBeforeSeconds=3000))
    first = (await brisk_workspace.becomes(KIND, "racks"))["status"]["id"]
    before = await _value(brisk_workspace)
    refused = await control.fault(CREATE, {"status": 429}, organizationId=own)
    await brisk_workspace.apply(_token(expiresInHours=1, renewBeforeSeconds=3590))
    await brisk_workspace.becomes(KIND, "racks", _puts_aside(first))
    await brisk_workspace.apply(_token(expiresInHours=1, renewBeforeSeconds=3000))  # so that one follows, no third
    await control.end_fault(refused)
    second = (await brisk_workspace.becomes(KIND, "racks", ready_with_another(first)))["status"]
    assert [each["id"] for each in second["former"]] == [first]
    value = await _value(brisk_workspace)
    assert value != before
    assert [await _joins(brisk_workspace, each) for each in (value, before)] == [200, 200]
    await brisk_workspace.kube.delete("Secret", KEPT_IN)
    third = (await brisk_workspace.becomes(KIND, "racks", ready_with_another(second["id"])))["status"]["id"]
    await eventually(lambda: _ids(brisk_workspace), lambda ids: ids == [second["id"], third])
    assert await _joins(brisk_workspace, before) == 410
    await brisk_workspace.kube.delete(KIND, "racks")
    await brisk_workspace.is_gone(KIND, "racks")
    assert await _tokens(brisk_workspace) == []


async def test_a_token_that_has_expired_is_told_until_it_is_to_be_renewed(brisk_workspace: Workspace) -> None:
    await _provider(brisk_workspace)
    await brisk_workspace.apply(_token(expiresInHours=1))
    first = (await brisk_workspace.becomes(KIND, "racks"))["status"]["id"]
    (row,) = await _tokens(brisk_workspace)
    past: dict[str, Any] = {"items": [row | {"expiresAt": "2026-01-01T00:00:00Z"}]}
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    fault = await control.fault(LIST, {"status": 200, "body": past}, organizationId=own)
    told = await brisk_workspace.becomes(KIND, "racks", stalls("Expired"))
    assert "set renewBeforeSeconds" in condition(told, "Stalled")["message"]
    assert await count(brisk_workspace, CREATE) == 1
    await brisk_workspace.apply(_token(expiresInHours=1, renewBeforeSeconds=3580))
    await brisk_workspace.becomes(KIND, "racks", _puts_aside(first))
    await control.end_fault(fault)
    await brisk_workspace.apply(_token(expiresInHours=1, renewBeforeSeconds=1))
    second = (await brisk_workspace.becomes(KIND, "racks", ready_with_another(first)))["status"]["id"]
    await eventually(lambda: _ids(brisk_workspace), lambda ids: ids == [second], what="the expired one is revoked")


async def test_another_quota_is_that_of_another_token_if_people_ask_for_that(brisk_workspace: Workspace) -> None:
    await _provider(brisk_workspace)
    await brisk_workspace.apply(_token(maxNodes=1))
    first = (await brisk_workspace.becomes(KIND, "racks"))["status"]["id"]
    await brisk_workspace.apply(_token(maxNodes=2))
    told = await brisk_workspace.becomes(KIND, "racks", stalls("ImmutableFieldChanged"))
    assert "maxNodes: asked 2, has 1" in condition(told, "Stalled")["message"]
    await brisk_workspace.apply(_token(maxNodes=2, updateStrategy={"type": "Recreate"}))
    second = (await brisk_workspace.becomes(KIND, "racks", ready_with_another(first)))["status"]["id"]
    await eventually(lambda: _ids(brisk_workspace), lambda ids: ids == [second])
    assert [each["maxNodes"] for each in await _tokens(brisk_workspace)] == [2]


async def test_a_secret_of_somebody_else_is_not_touched_and_nothing_is_sent(brisk_workspace: Workspace) -> None:
    await _provider(brisk_workspace)
    await brisk_workspace.apply(_token(secretName=SECRET))
    told = await brisk_workspace.becomes(KIND, "racks", stalls("SecretTaken"))
    assert f"the Secret {SECRET} exists and is not this object's" in condition(told, "Stalled")["message"]
    account = await brisk_workspace.kube.get("Secret", SECRET)
    assert base64.b64decode(account["data"][SECRET_KEY]).decode() == brisk_workspace.organization.api_key
    assert await count(brisk_workspace, CREATE) == 0


async def test_a_token_that_exists_is_not_adopted(brisk_workspace: Workspace) -> None:
    await _provider(brisk_workspace)
    path = f"/v1/orgs/{brisk_workspace.organization.id}/provider/tokens"
    by_hand = await brisk_workspace.organization.call("POST", path, {"name": "by-hand"})
    adopting = _token()
    adopting["metadata"]["annotations"] = {"gpurelay.dev/adopt-id": by_hand["id"]}
    await brisk_workspace.apply(adopting)
    refused = await brisk_workspace.becomes(KIND, "racks", stalls("AdoptionRefused"))
    assert "this kind cannot be adopted" in condition(refused, "Stalled")["message"]
    assert await count(brisk_workspace, CREATE) == 1


async def test_an_organization_that_is_no_provider_is_told_by_the_cloud(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_token())
    refused = await brisk_workspace.becomes(KIND, "racks", stalls("AccountForbidden"))
    assert "is not a provider" in condition(refused, "Stalled")["message"]
    await _provider(brisk_workspace)
    refresh = {"metadata": {"annotations": {"gpurelay.dev/reconcile-at": "now"}}}
    await brisk_workspace.kube.patch(KIND, "racks", refresh)
    await brisk_workspace.becomes(KIND, "racks")


async def test_a_token_whose_answer_is_lost_is_revoked_and_another_is_made(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    await _provider(brisk_workspace)
    await brisk_workspace.becomes("CloudAccount", "default")
    own = brisk_workspace.organization.id
    await brisk_workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=own)
    await brisk_workspace.apply(_token(maxNodes=1))
    made = await brisk_workspace.becomes(KIND, "racks")
    assert await _ids(brisk_workspace) == [made["status"]["id"]]
    assert await count(brisk_workspace, CREATE) == 2
    value = await _value(brisk_workspace)
    assert await _joins(brisk_workspace, value) == 200
    await eventually(lambda: brisk_workspace.kube.list("Event"), bool, what="an Event")
    assert value not in await seen_of(brisk_workspace, brisk, "ProvisioningToken")


async def test_a_token_that_somebody_revokes_is_told(brisk_workspace: Workspace) -> None:
    await _provider(brisk_workspace)
    await brisk_workspace.apply(_token())
    cloud_id = (await brisk_workspace.becomes(KIND, "racks"))["status"]["id"]
    path = f"/v1/orgs/{brisk_workspace.organization.id}/provider/tokens/{cloud_id}"
    await brisk_workspace.organization.call("DELETE", path)
    await brisk_workspace.becomes(KIND, "racks", stalls("TerminatedExternally"))
    assert await count(brisk_workspace, CREATE) == 1


async def test_a_shared_account_makes_tokens_only_if_it_says_so(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    await _provider(brisk_workspace)
    await brisk_workspace.kube.patch("Namespace", brisk_workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    await brisk_workspace.apply(_token(accountRef={"kind": "ClusterCloudAccount", "name": shared_account}))
    told = await brisk_workspace.becomes(KIND, "racks", stalls("AccountNotAllowed"))
    assert "spec.allowedKinds" in condition(told, "Stalled")["message"]
    assert await count(brisk_workspace, CREATE) == 0
    await brisk_workspace.kube.patch("ClusterCloudAccount", shared_account, {"spec": {"allowedKinds": [KIND]}})
    await brisk_workspace.becomes(KIND, "racks")
    await brisk_workspace.kube.delete(KIND, "racks")
    await brisk_workspace.is_gone(KIND, "racks")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"secretName": None}, "spec.secretName: Required value"),
        ({"secretName": "../other"}, "should match"),
        ({"expiresInHours": 0}, "should be greater than or equal to 1"),
        ({"expiresInHours": 8761}, "should be less than or equal to 8760"),
        ({"maxNodes": -1}, "should be greater than or equal to 0"),
        ({"nodePool": "a\nb"}, "should match"),
        ({"nodeType": ""}, "should be at least 1 chars long"),
        ({"deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
        ({"renewBeforeSeconds": 60}, "renewBeforeSeconds must be less than the seconds of expiresInHours"),
        (
            {"expiresInHours": 1, "renewBeforeSeconds": 3600},
            "renewBeforeSeconds must be less than the seconds of expiresInHours",
        ),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(_token(**spec), dry_run=True)
    assert says in refused.value.message


async def test_the_secret_of_a_token_stays_the_same(workspace: Workspace) -> None:
    await workspace.apply(_token())
    with pytest.raises(KubeError) as refused:
        await workspace.apply(_token(secretName="other"))
    assert "secretName cannot be changed" in refused.value.message
