"""ProviderNodes: taken over by id, held, set free, removed if that is confirmed; never created, never ended unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import count
from tests.cluster.cloud_side import enrolled
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, in_state, ready, relay_object, stalls, tells

if TYPE_CHECKING:
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

KIND = "ProviderNode"
SET, EARNINGS = "PATCH /v1/orgs/{orgId}/provider/nodes/{nodeId}", "GET /v1/orgs/{orgId}/provider/earnings"


def _object(node_id: str, status: str = "online", name: str = "rack1", **spec: object) -> Manifest:
    return relay_object(KIND, name, nodeId=node_id, status=status, **spec)


async def _node(workspace: Workspace, node_id: str) -> Json:
    path = f"/v1/orgs/{workspace.organization.id}/provider/nodes?includeRemoved=true"
    listed = await workspace.organization.call("GET", path)
    node: Json
    (node,) = [each for each in listed["items"] if each["id"] == node_id]
    return node


async def _by_hand(workspace: Workspace, node_id: str, status: str) -> None:
    path = f"/v1/orgs/{workspace.organization.id}/provider/nodes/{node_id}"
    await workspace.organization.call("PATCH", path, {"status": status})


async def _vm_on(workspace: Workspace, node_id: str) -> str:
    own = workspace.organization
    body = {"name": "tenant", "gpuModelId": "l40s", "gpuCount": 1, "nodeId": node_id}
    vm_id: str = (await own.call("POST", f"/v1/orgs/{own.id}/vms/create", body))["id"]
    return vm_id


async def test_a_node_is_taken_over_held_set_free_and_left_as_it_is(brisk_workspace: Workspace) -> None:
    node_id = await enrolled(brisk_workspace)
    await brisk_workspace.apply(_object(node_id))
    status = (await brisk_workspace.becomes(KIND, "rack1", in_state("online")))["status"]
    assert (status["id"], status["gpuCount"], status["workloads"]) == (node_id, 2, 0)
    assert status["gpus"] == [{"id": f"{node_id}-gpu{unit}", "gpuModelId": "l40s"} for unit in (0, 1)]
    assert await count(brisk_workspace, SET) == 0
    for asked in ("draining", "maintenance", "online", "draining"):
        await brisk_workspace.apply(_object(node_id, asked))
        await brisk_workspace.becomes(KIND, "rack1", in_state(asked))
        assert (await _node(brisk_workspace, node_id))["status"] == asked
    await brisk_workspace.kube.delete(KIND, "rack1")
    await brisk_workspace.is_gone(KIND, "rack1")
    assert (await _node(brisk_workspace, node_id))["status"] == "draining"
    assert await count(brisk_workspace, SET) == 4

    def keeps_it(item: Manifest | None) -> bool:
        return [row["id"] for row in (item or {})["status"].get("kept") or ()] == [node_id]

    await brisk_workspace.becomes("CloudAccount", "default", keeps_it)
    await brisk_workspace.apply(_object(node_id))
    await brisk_workspace.becomes(KIND, "rack1", in_state("online"))


async def test_what_runs_on_it_and_what_it_earned_is_told(brisk_workspace: Workspace) -> None:
    node_id = await enrolled(brisk_workspace)
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    paid = {"totalCents": 42, "items": [{"nodeId": node_id, "cents": 42}], "payouts": []}
    fault = await control.fault(EARNINGS, {"status": 200, "body": paid}, organizationId=own)
    vm_id = await _vm_on(brisk_workspace, node_id)
    await brisk_workspace.apply(_object(node_id, "draining"))

    def shows(item: Manifest | None) -> bool:
        status = (item or {"status": {}})["status"]
        return in_state("draining")(item) and (status.get("workloads"), status.get("earningsCents")) == (1, 42)

    await brisk_workspace.becomes(KIND, "rack1", shows)
    await control.end_fault(fault)
    await control.fault(EARNINGS, {"status": 403, "body": {"error": "no", "code": "forbidden"}}, organizationId=own)
    await brisk_workspace.organization.call("POST", f"/v1/vms/{vm_id}/terminate")

    def is_empty(item: Manifest | None) -> bool:
        status = (item or {"status": {}})["status"]
        return ready(item) and (status["workloads"], status["earningsCents"]) == (0, 42)

    await brisk_workspace.becomes(KIND, "rack1", is_empty)


async def test_a_node_is_removed_if_that_is_confirmed_and_stays_so(brisk_workspace: Workspace) -> None:
    node_id = await enrolled(brisk_workspace)
    vm_id = await _vm_on(brisk_workspace, node_id)
    await brisk_workspace.apply(_object(node_id))
    await brisk_workspace.becomes(KIND, "rack1", in_state("online"))
    for confirmed in ({}, {"confirmRemoval": "another"}):
        with pytest.raises(KubeError) as refused:
            await brisk_workspace.apply(_object(node_id, "removed", **confirmed))
        assert "repeat nodeId in confirmRemoval" in refused.value.message
    assert await count(brisk_workspace, SET) == 0
    await brisk_workspace.apply(_object(node_id, "removed", confirmRemoval=node_id))
    removed = await brisk_workspace.becomes(KIND, "rack1", in_state("removed"))
    assert condition(removed, "Ready")["reason"] == "Removed"
    assert (await brisk_workspace.organization.vm(vm_id))["status"] == "terminated"
    await brisk_workspace.apply(_object(node_id, "online", confirmRemoval=node_id))
    told = await brisk_workspace.becomes(KIND, "rack1", stalls("TerminatedExternally"))
    assert "the operator cannot create this kind" in condition(told, "Stalled")["message"]
    await brisk_workspace.kube.delete(KIND, "rack1")
    await brisk_workspace.is_gone(KIND, "rack1")
    assert await count(brisk_workspace, SET) == 1
    await brisk_workspace.apply(_object(node_id))
    await brisk_workspace.becomes(KIND, "rack1", stalls("AdoptionRefused"))
    await brisk_workspace.apply(_object(node_id, "removed", confirmRemoval=node_id))
    await brisk_workspace.becomes(KIND, "rack1", in_state("removed"))
    assert await count(brisk_workspace, SET) == 1


async def test_what_others_set_by_hand_is_set_back(brisk_workspace: Workspace) -> None:
    node_id = await enrolled(brisk_workspace)
    await brisk_workspace.apply(_object(node_id))
    await brisk_workspace.becomes(KIND, "rack1", in_state("online"))
    await _by_hand(brisk_workspace, node_id, "maintenance")

    def is_back(node: Json) -> bool:
        return bool(node["status"] == "online")

    await eventually(lambda: _node(brisk_workspace, node_id), is_back, what="the node is online again")
    await brisk_workspace.becomes(KIND, "rack1", in_state("online"))
    await _by_hand(brisk_workspace, node_id, "removed")
    await brisk_workspace.becomes(KIND, "rack1", stalls("TerminatedExternally"))


async def test_a_node_that_does_not_report_is_waited_for(brisk_workspace: Workspace) -> None:
    node_id, control = await enrolled(brisk_workspace), brisk_workspace.cloud.control
    await brisk_workspace.apply(_object(node_id))
    await brisk_workspace.becomes(KIND, "rack1", in_state("online"))
    await control.change_node(node_id, reporting=False)
    silent = await brisk_workspace.becomes(KIND, "rack1", tells("Offline"))
    assert silent["status"]["state"] == "offline"
    await control.change_node(node_id, reporting=True)
    await brisk_workspace.becomes(KIND, "rack1", in_state("online"))
    assert await count(brisk_workspace, SET) == 0


async def test_nothing_is_created_and_a_node_has_one_object(brisk_workspace: Workspace) -> None:
    node_id = await enrolled(brisk_workspace)
    await brisk_workspace.apply(_object("node_of_nobody", name="missing"))
    told = await brisk_workspace.becomes(KIND, "missing", stalls("AdoptionRefused"))
    assert condition(told, "Stalled")["message"] == "the cloud does not find node_of_nobody"
    await brisk_workspace.apply(_object(node_id))
    await brisk_workspace.becomes(KIND, "rack1", in_state("online"))
    await brisk_workspace.apply(_object(node_id, "draining", name="again"))
    told = await brisk_workspace.becomes(KIND, "again", stalls("AdoptionRefused"))
    assert condition(told, "Stalled")["message"].endswith("/rack1")
    for name in ("missing", "again"):
        await brisk_workspace.kube.delete(KIND, name)
        await brisk_workspace.is_gone(KIND, name)
    assert await count(brisk_workspace, SET) == 0


async def test_a_lost_answer_changes_nothing(brisk_workspace: Workspace) -> None:
    node_id = await enrolled(brisk_workspace)
    own = brisk_workspace.organization.id
    await brisk_workspace.cloud.control.fault(SET, {"drop": "after"}, count=1, organizationId=own)
    await brisk_workspace.apply(_object(node_id, "draining"))
    await brisk_workspace.becomes(KIND, "rack1", in_state("draining"))
    assert (await _node(brisk_workspace, node_id))["status"] == "draining"


async def test_an_object_that_is_forced_away_leaves_the_node_as_it_is(brisk_workspace: Workspace) -> None:
    node_id = await enrolled(brisk_workspace)
    await brisk_workspace.apply(_object(node_id, "draining"))
    await brisk_workspace.becomes(KIND, "rack1", in_state("draining"))
    await brisk_workspace.kube.patch(KIND, "rack1", {"metadata": {"annotations": {"gpurelay.dev/paused": "true"}}})
    await brisk_workspace.kube.delete(KIND, "rack1")
    await brisk_workspace.kube.patch(KIND, "rack1", {"metadata": {"finalizers": []}})
    await brisk_workspace.is_gone(KIND, "rack1")
    await brisk_workspace.apply(_object(node_id, "draining"))
    await brisk_workspace.becomes(KIND, "rack1", in_state("draining"))
    assert await count(brisk_workspace, SET) == 1


async def test_a_shared_account_takes_nodes_over_only_if_it_says_so_twice(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    node_id, kube = await enrolled(brisk_workspace), brisk_workspace.kube
    await kube.patch("Namespace", brisk_workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    ref = {"kind": "ClusterCloudAccount", "name": shared_account}
    await brisk_workspace.apply(_object(node_id, "draining", accountRef=ref))
    told = await brisk_workspace.becomes(KIND, "rack1", stalls("AccountNotAllowed"))
    assert "spec.allowedKinds" in condition(told, "Stalled")["message"]
    await kube.patch("ClusterCloudAccount", shared_account, {"spec": {"allowedKinds": [KIND]}})
    told = await brisk_workspace.becomes(KIND, "rack1", stalls("AdoptionRefused"))
    assert "allowAdoption" in condition(told, "Stalled")["message"]
    assert await count(brisk_workspace, SET) == 0
    await kube.patch("ClusterCloudAccount", shared_account, {"spec": {"allowAdoption": True}})
    await brisk_workspace.becomes(KIND, "rack1", in_state("draining"))
    await kube.delete(KIND, "rack1")
    await brisk_workspace.is_gone(KIND, "rack1")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"nodeId": None}, "spec.nodeId: Required value"),
        ({"nodeId": "../other"}, "should match"),
        ({"status": None}, "spec.status: Required value"),
        ({"status": "offline"}, 'supported values: "online", "draining", "maintenance", "removed"'),
        ({"status": "removed"}, "repeat nodeId in confirmRemoval"),
        ({"status": "removed", "confirmRemoval": "node_2"}, "repeat nodeId in confirmRemoval"),
        ({"deletionPolicy": "Delete"}, "deleting the object leaves the node as it is"),
        ({"deletionPolicy": "Stop"}, "deleting the object leaves the node as it is"),
        ({"updateStrategy": {"type": "Recreate"}}, "a node cannot be made again"),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(relay_object(KIND, "rack1", **({"nodeId": "node_1", "status": "online"} | spec)), dry_run=True)
    assert says in refused.value.message


async def test_an_object_stays_with_its_node(workspace: Workspace) -> None:
    await workspace.apply(_object("node_1"))
    with pytest.raises(KubeError) as refused:
        await workspace.apply(_object("node_2"))
    assert "nodeId cannot be changed" in refused.value.message
