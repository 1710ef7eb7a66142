"""InferenceBackends: made, changed, adopted, refused, deleted; after a lost answer the one row that can be theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.cluster.cloud_log import count
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, relay_object, stalled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

KIND = "InferenceBackend"
PATH = "/v1/inference/models/{modelId}/backends"
CREATE, UPDATE, DELETE = f"POST {PATH}", f"PATCH {PATH}/{{id}}", f"DELETE {PATH}/{{id}}"
CANARY = "canary-of-the-upstream"
FIELDS: dict[str, Any] = {
    "provider": "openai_compatible",
    "ref": "llama-3",
    "endpoint": "https://llama.example/v1",
    "nativeFamilies": ["chat_completions"],
}
KEYED: dict[str, Any] = {"auth": "api_key", "apiKeySecretRef": {"name": "upstream", "key": "key"}}


def _backend(name: str = "eu", **spec: object) -> Manifest:
    return relay_object(KIND, name, **({"modelId": "llama"} | FIELDS | spec))


def _secret(value: str = CANARY) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "upstream"}, "stringData": {"key": value}}


async def _call(
    workspace: Workspace, method: str, cloud_id: str = "", body: Json | None = None, *, model: str = "llama"
) -> Json:
    path = f"/v1/inference/models/{quote(model, safe='')}/backends{cloud_id and '/'}{cloud_id}"
    answer: Json = await workspace.organization.call(method, path, body)
    return answer


async def _rows(workspace: Workspace, *, model: str = "llama") -> list[Json]:
    items: list[Json] = (await _call(workspace, "GET", model=model))["items"]
    return items


def _stalls(reason: str, text: str = "") -> Callable[[Manifest | None], bool]:
    return lambda item: stalled(item) == reason and text in condition(item, "Stalled")["message"]


def _has(**shown: object) -> Callable[[Manifest | None], bool]:
    return lambda item: all((item or {})["status"].get(name) == value for name, value in shown.items())


@pytest.mark.parametrize("model", ["llama", "meta-llama/Llama-3"])
async def test_a_backend_is_made_with_its_key_changed_in_place_and_deleted(
    brisk_workspace: Workspace, model: str
) -> None:
    workspace = brisk_workspace
    await workspace.apply(_backend(modelId=model, **KEYED))
    waiting = await workspace.becomes(KIND, "eu", lambda item: condition(item, "Ready").get("reason") == "EnvMissing")
    assert "id" not in waiting["status"]
    await workspace.apply(_secret())
    status = (await workspace.becomes(KIND, "eu"))["status"]
    (row,) = await _rows(workspace, model=model)
    assert (row["id"], row["modelId"], status["partOf"]) == (status["id"], model, model)
    assert (status["auth"], status["transport"], status["weight"]) == ("api_key", "direct", 0)
    assert row["auth"] == "api_key"
    await workspace.apply(_backend(modelId=model, **KEYED, weight=3, endpoint="https://other.example/v1"))
    await workspace.becomes(KIND, "eu", _has(weight=3, endpoint="https://other.example/v1"))
    await _call(workspace, "PATCH", status["id"], {"weight": 9}, model=model)
    await eventually(
        lambda: count(workspace, UPDATE), lambda updates: updates == 3, what="the operator changes it back"
    )
    (row,) = await _rows(workspace, model=model)
    assert row["weight"] == 3
    await workspace.apply(_secret("another"))
    await workspace.becomes(KIND, "eu", lambda item: condition(item, "EnvOutdated").get("status") == "True")
    await workspace.kube.delete(KIND, "eu")
    await workspace.is_gone(KIND, "eu")
    counted = [await count(workspace, operation) for operation in (CREATE, UPDATE, DELETE)]
    assert counted == [1, 3, 1]  # the one by hand among the changes
    assert CANARY not in str(waiting) + str(status)


async def test_what_cannot_be_changed_is_told_or_refused(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await workspace.apply(_backend())
    first = (await workspace.becomes(KIND, "eu"))["status"]["id"]
    with pytest.raises(KubeError, match="modelId cannot be changed"):
        await workspace.apply(_backend(modelId="other"))
    with pytest.raises(KubeError, match="only auth: api_key sends apiKeySecretRef"):
        await workspace.apply(_backend(apiKeySecretRef=KEYED["apiKeySecretRef"]))
    odd: dict[str, Any] = {"weight": -1, "provider": "mine", "nativeFamilies": [], "endpoint": "https://a@b/v1"}
    for field, value in odd.items():
        with pytest.raises(KubeError, match=field):
            await workspace.apply(_backend(**{field: value}))
    await workspace.apply(_backend(auth="gcp_oauth"))
    await workspace.becomes(KIND, "eu", _stalls("ImmutableFieldChanged", "auth: asked gcp_oauth, has none"))
    await workspace.apply(_backend(auth="gcp_oauth", updateStrategy={"type": "Recreate"}))
    await workspace.becomes(KIND, "eu", _has(auth="gcp_oauth"))
    (row,) = await _rows(workspace)
    assert row["id"] != first


async def test_one_that_exists_is_adopted_and_made_as_asked(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    there = await _call(workspace, "POST", body=FIELDS)
    adopting = _backend(weight=2, deletionPolicy="Orphan")
    adopting["metadata"]["annotations"] = {"gpurelay.dev/adopt-id": there["id"]}
    await workspace.apply(adopting)
    assert (await workspace.becomes(KIND, "eu", _has(weight=2)))["status"]["id"] == there["id"]
    await workspace.kube.delete(KIND, "eu")
    await workspace.is_gone(KIND, "eu")
    assert [(row["id"], row["weight"]) for row in await _rows(workspace)] == [(there["id"], 2)]
    assert (await count(workspace, CREATE), await count(workspace, DELETE)) == (1, 0)
    await _call(workspace, "DELETE", there["id"])


async def test_one_that_is_deleted_by_hand_is_told_and_not_made_again(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await workspace.apply(_backend())
    cloud_id = (await workspace.becomes(KIND, "eu"))["status"]["id"]
    await _call(workspace, "DELETE", cloud_id)
    await workspace.becomes(KIND, "eu", _stalls("TerminatedExternally"))
    assert await count(workspace, CREATE) == 1


async def test_after_a_lost_answer_the_row_that_is_nobody_elses_is_its_own(brisk_workspace: Workspace) -> None:
    workspace, own = brisk_workspace, brisk_workspace.organization.id
    await workspace.apply(_backend("alike"))
    alike = (await workspace.becomes(KIND, "alike"))["status"]["id"]
    another = await _call(workspace, "POST", body=FIELDS | {"weight": 1})
    await workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=own)
    await workspace.apply(_backend())
    cloud_id = (await workspace.becomes(KIND, "eu"))["status"]["id"]
    assert [row["id"] for row in await _rows(workspace)] == [alike, another["id"], cloud_id]
    assert await count(workspace, CREATE) == 3


async def test_of_two_that_may_be_its_own_a_person_chooses(brisk_workspace: Workspace) -> None:
    workspace, own = brisk_workspace, brisk_workspace.organization.id
    await workspace.cloud.control.fault(CREATE, {"drop": "before"}, count=1, organizationId=own)
    await workspace.apply(_backend())
    await workspace.becomes(KIND, "eu", lambda item: condition(item, "CreateOutcomeUnknown"))
    await workspace.kube.annotate(KIND, "eu", {"gpurelay.dev/paused": "true"})
    await workspace.becomes(KIND, "eu", lambda item: condition(item, "Paused"))
    _, second = [(await _call(workspace, "POST", body=FIELDS))["id"] for _ in range(2)]
    await workspace.kube.annotate(KIND, "eu", {"gpurelay.dev/paused": None})
    await workspace.becomes(
        KIND, "eu", lambda item: "what equals the spec" in condition(item, "Ready").get("message", "")
    )
    await workspace.kube.annotate(KIND, "eu", {"gpurelay.dev/adopt-id": second})
    assert (await workspace.becomes(KIND, "eu"))["status"]["id"] == second
    assert await count(workspace, CREATE) == 3


async def test_it_is_off_until_it_is_switched_on(workspace: Workspace) -> None:
    await workspace.apply(_backend())
    await workspace.becomes(KIND, "eu", _stalls("KindDisabled", "add InferenceBackend to RELAY_ASSUMED_KINDS"))
    assert await count(workspace, CREATE) == 0
    await workspace.kube.delete(KIND, "eu")
    await workspace.is_gone(KIND, "eu")
