"""ApiKeys: made, kept in a Secret, revoked; refused; and made again where nobody knows the value."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import count
from tests.cluster.seen import seen_of
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.localcloud import CloudRefusal
from tests.support.manifests import SECRET, SECRET_KEY, condition, ready_with_another, relay_object, stalls

if TYPE_CHECKING:
    from tests.conftest import StartOperator
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

CREATE, LIST = "POST /v1/orgs/{orgId}/api-keys/create", "GET /v1/orgs/{orgId}/api-keys"
KEPT_IN = "ci-key"


def _key(**spec: object) -> Manifest:
    return relay_object("ApiKey", "ci", **({"scopes": ["vms:read"], "secretName": KEPT_IN} | spec))


async def _keys(workspace: Workspace) -> list[Json]:
    """Those that ApiKeys gave their names."""
    listed: list[Json] = await workspace.organization.call("GET", f"/v1/orgs/{workspace.organization.id}/api-keys")
    return [each for each in listed if each["name"].startswith(workspace.namespace[:20])]


async def _living(workspace: Workspace) -> list[str]:
    return [each["id"] for each in await _keys(workspace) if "revokedAt" not in each]


async def _value(workspace: Workspace, name: str = KEPT_IN) -> str:
    secret = await workspace.kube.get("Secret", name)
    return base64.b64decode(secret["data"]["api-key"]).decode()


async def _may(workspace: Workspace, key: str) -> bool:
    """Whether the cloud takes the key."""
    try:
        await workspace.organization.with_key(key).call("GET", "/v1/whoami")
    except CloudRefusal as refused:
        return refused.status != 401
    return True


async def test_a_key_is_made_kept_in_a_secret_and_revoked(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key(expiresInSeconds=3600))
    status, value = (await brisk_workspace.becomes("ApiKey", "ci"))["status"], await _value(brisk_workspace)
    (row,) = await _keys(brisk_workspace)
    assert (row["id"], row["name"], row["scopes"]) == (status["id"], status["cloudName"], ["vms:read"])
    assert row["expiresAt"].startswith(status["expiresAt"][:19])
    assert value.startswith(status["prefix"])
    assert await _may(brisk_workspace, value)
    with pytest.raises(CloudRefusal):
        await brisk_workspace.organization.with_key(value).call("POST", "/v1/pods", {"image": "busybox"})
    await brisk_workspace.kube.delete("ApiKey", "ci")
    await brisk_workspace.is_gone("ApiKey", "ci")
    assert await _living(brisk_workspace) == []
    assert not await _may(brisk_workspace, value)
    assert await count(brisk_workspace, CREATE) == 1


async def test_a_key_is_rotated_in_time_and_the_one_before_works_on(brisk_workspace: Workspace) -> None:
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    await brisk_workspace.apply(_key(expiresInSeconds=3600, rotateBeforeSeconds=3000))
    first = (await brisk_workspace.becomes("ApiKey", "ci"))["status"]["id"]
    before = await _value(brisk_workspace)
    refused = await control.fault(CREATE, {"status": 429}, organizationId=own)
    await brisk_workspace.apply(_key(expiresInSeconds=3600, rotateBeforeSeconds=3590))

    def puts_it_aside(item: Manifest | None) -> bool:
        return [each["id"] for each in (item or {})["status"].get("former") or ()] == [first]

    await brisk_workspace.becomes("ApiKey", "ci", puts_it_aside)
    await brisk_workspace.apply(_key(expiresInSeconds=3600, rotateBeforeSeconds=3000))  # so that one follows, no third
    await control.end_fault(refused)
    second = (await brisk_workspace.becomes("ApiKey", "ci", ready_with_another(first)))["status"]
    assert [each["id"] for each in second["former"]] == [first]
    value = await _value(brisk_workspace)
    assert value != before
    assert await _may(brisk_workspace, value)
    assert await _may(brisk_workspace, before)
    await brisk_workspace.kube.delete("Secret", KEPT_IN)
    third = (await brisk_workspace.becomes("ApiKey", "ci", ready_with_another(second["id"])))["status"]["id"]
    await eventually(lambda: _living(brisk_workspace), lambda ids: ids == [second["id"], third])
    assert not await _may(brisk_workspace, before)
    await brisk_workspace.kube.delete("ApiKey", "ci")
    await brisk_workspace.is_gone("ApiKey", "ci")
    assert await _living(brisk_workspace) == []


async def test_other_scopes_are_those_of_another_key_if_people_ask_for_that(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key())
    first = (await brisk_workspace.becomes("ApiKey", "ci"))["status"]["id"]
    await brisk_workspace.apply(_key(scopes=["inference"]))
    await brisk_workspace.becomes("ApiKey", "ci", stalls("ImmutableFieldChanged"))
    await brisk_workspace.apply(_key(scopes=["inference"], updateStrategy={"type": "Recreate"}))
    second = (await brisk_workspace.becomes("ApiKey", "ci", ready_with_another(first)))["status"]["id"]
    await eventually(lambda: _living(brisk_workspace), lambda ids: ids == [second])
    assert [each["scopes"] for each in await _keys(brisk_workspace)] == [["vms:read"], ["inference"]]


async def test_a_secret_of_somebody_else_is_not_touched_and_nothing_is_sent(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key(secretName=SECRET))
    told = await brisk_workspace.becomes("ApiKey", "ci", stalls("SecretTaken"))
    assert f"the Secret {SECRET} exists and is not this object's" in condition(told, "Stalled")["message"]
    account = await brisk_workspace.kube.get("Secret", SECRET)
    assert base64.b64decode(account["data"][SECRET_KEY]).decode() == brisk_workspace.organization.api_key
    assert await count(brisk_workspace, CREATE) == 0


async def test_a_key_that_exists_is_not_adopted(brisk_workspace: Workspace) -> None:
    path = f"/v1/orgs/{brisk_workspace.organization.id}/api-keys/create"
    by_hand = await brisk_workspace.organization.call("POST", path, {"name": "by-hand", "scopes": ["vms:read"]})
    adopting = _key()
    adopting["metadata"]["annotations"] = {"gpurelay.dev/adopt-id": by_hand["id"]}
    await brisk_workspace.apply(adopting)
    refused = await brisk_workspace.becomes("ApiKey", "ci", stalls("AdoptionRefused"))
    assert "this kind cannot be adopted" in condition(refused, "Stalled")["message"]
    assert await count(brisk_workspace, CREATE) == 1


async def test_more_than_the_account_may_is_refused_by_the_cloud(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key(scopes=["no:scope"]))
    refused = await brisk_workspace.becomes("ApiKey", "ci", stalls("SpecInvalid"))
    assert "there is no scope 'no:scope'" in condition(refused, "Stalled")["message"]
    assert await _keys(brisk_workspace) == []


async def test_a_key_whose_answer_is_lost_is_revoked_and_another_is_made(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    own = brisk_workspace.organization.id
    await brisk_workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=own)
    await brisk_workspace.apply(_key())
    made = await brisk_workspace.becomes("ApiKey", "ci")
    assert await _living(brisk_workspace) == [made["status"]["id"]]
    assert len(await _keys(brisk_workspace)) == 2
    value = await _value(brisk_workspace)
    assert await _may(brisk_workspace, value)
    await eventually(lambda: brisk_workspace.kube.list("Event"), bool, what="an Event")
    assert value not in await seen_of(brisk_workspace, brisk, "ApiKey")


async def test_an_operator_that_is_killed_before_the_secret_leaves_no_key_that_nobody_knows(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    own, control = unattended_workspace.organization.id, unattended_workspace.cloud.control
    slow = await control.fault(CREATE, {"answerDelaySeconds": 60}, organizationId=own)
    operator = await start_operator(unattended_workspace, absence_seconds="0.5")
    await unattended_workspace.apply(_key())
    await eventually(lambda: _keys(unattended_workspace), lambda made: len(made) == 1, what="the cloud acted on it")
    await operator.kill()
    await control.end_fault(slow)
    assert await unattended_workspace.kube.find("Secret", KEPT_IN) is None
    await operator.start()
    status = (await unattended_workspace.becomes("ApiKey", "ci"))["status"]
    assert await _living(unattended_workspace) == [status["id"]]
    assert len(await _keys(unattended_workspace)) == 2
    assert await _may(unattended_workspace, await _value(unattended_workspace))
    await unattended_workspace.kube.delete("ApiKey", "ci")
    await unattended_workspace.is_gone("ApiKey", "ci")
    assert await _living(unattended_workspace) == []


async def test_a_key_that_somebody_revokes_is_told(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key())
    cloud_id = (await brisk_workspace.becomes("ApiKey", "ci"))["status"]["id"]
    await brisk_workspace.organization.call("DELETE", f"/v1/orgs/{brisk_workspace.organization.id}/api-keys/{cloud_id}")
    await brisk_workspace.becomes("ApiKey", "ci", stalls("TerminatedExternally"))
    assert await count(brisk_workspace, CREATE) == 1


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"scopes": None}, "spec.scopes: Required value"),
        ({"scopes": []}, "should have at least 1 items"),
        ({"scopes": ["VMS read"]}, "should match"),
        ({"secretName": None}, "spec.secretName: Required value"),
        ({"secretName": "../other"}, "should match"),
        ({"expiresInSeconds": 0}, "should be greater than or equal to 1"),
        ({"deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
        ({"rotateBeforeSeconds": 60}, "rotateBeforeSeconds must be less than expiresInSeconds"),
        ({"expiresInSeconds": 60, "rotateBeforeSeconds": 60}, "rotateBeforeSeconds must be less than expiresInSeconds"),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(_key(**spec), dry_run=True)
    assert says in refused.value.message


async def test_the_secret_of_a_key_stays_the_same(workspace: Workspace) -> None:
    await workspace.apply(_key())
    with pytest.raises(KubeError) as refused:
        await workspace.apply(_key(secretName="other"))
    assert "secretName cannot be changed" in refused.value.message
