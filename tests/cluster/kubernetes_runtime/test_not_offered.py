"""What containers on Kubernetes cannot be, and what a cloud with real ones does not make up, is refused in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.localcloud import CloudRefusal

if TYPE_CHECKING:
    from tests.cluster.kubernetes_runtime.stage import Stage


async def refusal(stage: Stage, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """Its status and its words."""
    with pytest.raises(CloudRefusal) as refused:
        await stage.organization.call(method, path, body)
    return refused.value.status, str(refused.value)


async def test_what_is_not_offered_says_what_to_use(stage: Stage) -> None:
    of_organization = f"/v1/orgs/{stage.organization.id}"
    status, words = await refusal(stage, "POST", f"{of_organization}/vms/create", {"name": "vm"})
    assert (status, "create a pod (POST /v1/pods)" in words) == (422, True)


async def test_the_catalog_has_room_for_clusters_and_none_for_vms(stage: Stage) -> None:
    items = (await stage.organization.call("GET", "/v1/gpu-availability"))["items"]
    (h100,) = [each for each in items if each["gpuModelId"] == "h100"]
    assert (h100["vm"]["nodes"], len(h100["cluster"]["nodes"])) == ([], 1)


async def test_a_pod_has_no_snapshots_and_stays_in_its_organization(stage: Stage) -> None:
    pod_id = await stage.runs()
    status, words = await refusal(stage, "POST", f"/v1/vms/{pod_id}/snapshots/create", {"name": "s"})
    assert (status, "copy what matters" in words) == (422, True)
    other = (await stage.organization.call("POST", "/_localcloud/orgs", {"name": "other"}))["organizationId"]
    offer = {"workloadId": pod_id, "toOrganizationId": other}
    status, words = await refusal(stage, "POST", "/_localcloud/transfers", offer)
    assert (status, "does not change its organization" in words) == (422, True)


async def test_nothing_is_made_up(stage: Stage) -> None:
    pod_id = await stage.runs()
    (node,) = (await stage.organization.call("GET", "/_localcloud/nodes"))["items"]
    for method, path, body in (
        ("POST", "/reset", None),
        ("POST", "/import", {}),
        ("POST", "/clock", {"advanceSeconds": 60}),
        ("POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 8}),
        ("PATCH", f"/nodes/{node['id']}", {"reporting": False}),
        ("POST", f"/workloads/{pod_id}/events", {"event": "fail"}),
    ):
        status, words = await refusal(stage, method, f"/_localcloud{path}", body)
        assert (status, "real containers" in words) == (409, True), (path, words)
    assert (await stage.organization.vm(pod_id))["status"] == "running"


async def test_a_gap_in_the_time_is_still_decided_about(stage: Stage) -> None:
    status, words = await refusal(stage, "POST", "/_localcloud/clock", {"gap": "apply"})
    assert (status, "no gap" in words) == (400, True)
