"""NodeReservations: made on a node of ours, lent and taken back, adopted, given back; without a name, never guessed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import TERMINATE_VM, count
from tests.cluster.cloud_side import enrolled
from tests.cluster.conftest import BRISK
from tests.cluster.wording import worded
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, in_state, relay_object, stalls, tells

if TYPE_CHECKING:
    from tests.conftest import StartOperator
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

KIND = "NodeReservation"
PATH = "/v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations"
CREATE, LIST, DELETE = f"POST {PATH}", f"GET {PATH}", f"DELETE {PATH}/{{id}}"
RELEASE, RECLAIM = f"POST {PATH}/{{id}}/release", f"POST {PATH}/{{id}}/reclaim"
AN_HOUR = timedelta(hours=1)


def _units(node_id: str, *numbers: int) -> list[str]:
    return [f"{node_id}-gpu{number}" for number in numbers]


def _asked(workspace: Workspace, node_id: str, *numbers: int, name: str = "acme", **spec: object) -> Manifest:
    own, units = workspace.organization.id, _units(node_id, *(numbers or (0, 1)))
    return relay_object(KIND, name, nodeRef={"name": "rack1"}, unitIds=units, allowedOrganizationIds=[own], **spec)


async def _node(workspace: Workspace) -> str:
    """The id of the node of a ProviderNode that is Ready."""
    node_id = await enrolled(workspace)
    await workspace.apply(relay_object("ProviderNode", "rack1", nodeId=node_id, status="online"))
    await workspace.becomes("ProviderNode", "rack1")
    return node_id


def _path(workspace: Workspace, node_id: str, *more: str) -> str:
    return "/".join((PATH.format(orgId=workspace.organization.id, nodeId=node_id), *more))


async def _listed(workspace: Workspace, node_id: str) -> list[Json]:
    items: list[Json] = (await workspace.organization.call("GET", _path(workspace, node_id)))["items"]
    return items


async def _by_hand(workspace: Workspace, node_id: str, *numbers: int) -> str:
    body: Json = {"unitIds": _units(node_id, *numbers), "allowedOrgIds": [workspace.organization.id]}
    cloud_id: str = (await workspace.organization.call("POST", _path(workspace, node_id), body))["id"]
    return cloud_id


async def _vm(workspace: Workspace, node_id: str, **more: object) -> str:
    """A VM that holds one GPU of the node."""
    own = workspace.organization
    body = {"name": "tenant", "gpuModelId": "l40s", "gpuCount": 1, "nodeId": node_id, **more}
    vm_id: str = (await own.call("POST", f"/v1/orgs/{own.id}/vms/create", body))["id"]
    return vm_id


async def test_units_are_reserved_lent_taken_back_and_given_back(brisk_workspace: Workspace) -> None:
    workspace, node_id = brisk_workspace, await enrolled(brisk_workspace)
    await workspace.apply(_asked(workspace, node_id, contractRef="acme-2026"))
    await workspace.becomes(KIND, "acme", tells("ReferenceNotFound"))
    assert await count(workspace, CREATE) == 0
    await workspace.apply(relay_object("ProviderNode", "rack1", nodeId=node_id, status="online"))
    status = (await workspace.becomes(KIND, "acme", in_state("active")))["status"]
    (row,) = await _listed(workspace, node_id)
    assert (row["id"], row["nodeId"], row["contractRef"]) == (status["id"], status["partOf"], "acme-2026")
    assert (row["unitIds"], status["unitCount"]) == (_units(node_id, 0, 1), 2)

    await workspace.apply(_asked(workspace, node_id, contractRef="acme-2026", lendToSpot=True))
    await workspace.becomes(KIND, "acme", in_state("released"))
    vm_id = await _vm(workspace, node_id, tier="spot")
    await workspace.becomes(KIND, "acme", lambda item: (item or {})["status"].get("spotWorkloadIds") == [vm_id])
    await workspace.apply(_asked(workspace, node_id, contractRef="acme-2026", lendToSpot=False))
    taken_back = await workspace.becomes(KIND, "acme", in_state("active"))
    assert (taken_back["status"]["spotWorkloads"], (await workspace.organization.vm(vm_id))["status"]) == (
        0,
        "terminated",
    )
    await workspace.kube.delete("ProviderNode", "rack1")  # which leaves the node, and what is reserved of it
    await workspace.is_gone("ProviderNode", "rack1")
    await workspace.kube.delete(KIND, "acme")
    await workspace.is_gone(KIND, "acme")
    assert await _listed(workspace, node_id) == []
    for operation in (CREATE, RELEASE, RECLAIM, DELETE):
        assert await count(workspace, operation) == 1


async def test_its_time_is_the_clouds(brisk_private_workspace: Workspace) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    node_id, now = await _node(workspace), datetime.fromisoformat((await control.clock())["now"])
    window = {"startsAt": (now + AN_HOUR).isoformat(), "endsAt": (now + 2 * AN_HOUR).isoformat()}
    await workspace.apply(_asked(workspace, node_id, lendToSpot=True, **window))
    await workspace.becomes(KIND, "acme", in_state("scheduled"))
    assert await count(workspace, RELEASE) == 0
    await control.advance(AN_HOUR.total_seconds())
    await workspace.becomes(KIND, "acme", in_state("released"))
    await control.advance(AN_HOUR.total_seconds())
    await workspace.becomes(KIND, "acme", in_state("ended"))
    assert (await count(workspace, RELEASE), await count(workspace, RECLAIM)) == (1, 0)
    await workspace.kube.delete(KIND, "acme")
    await workspace.is_gone(KIND, "acme")
    assert await _listed(workspace, node_id) == []


async def test_one_that_ends_with_its_node_or_by_hand_is_not_made_again(brisk_workspace: Workspace) -> None:
    workspace, node_id = brisk_workspace, await _node(brisk_workspace)
    await workspace.apply(_asked(workspace, node_id, 0, name="first"))
    first = await workspace.becomes(KIND, "first", in_state("active"))
    await workspace.apply(_asked(workspace, node_id, 1, name="second"))
    await workspace.becomes(KIND, "second", in_state("active"))
    await workspace.organization.call("DELETE", _path(workspace, node_id, first["status"]["id"]))
    await workspace.becomes(KIND, "first", stalls("TerminatedExternally"))
    removed = relay_object("ProviderNode", "rack1", nodeId=node_id, status="removed", confirmRemoval=node_id)
    await workspace.apply(removed)
    await workspace.becomes(KIND, "second", stalls("TerminatedExternally"))
    for name in ("first", "second"):
        await workspace.kube.delete(KIND, name)
        await workspace.is_gone(KIND, name)
    assert await count(workspace, CREATE) == 2


async def test_a_change_is_made_by_another_reservation_if_that_is_asked_for(brisk_workspace: Workspace) -> None:
    workspace, node_id = brisk_workspace, await _node(brisk_workspace)
    await workspace.apply(_asked(workspace, node_id, 0))
    first = (await workspace.becomes(KIND, "acme", in_state("active")))["status"]["id"]
    await workspace.apply(_asked(workspace, node_id, 0, 1))
    told = await workspace.becomes(KIND, "acme", stalls("ImmutableFieldChanged"))
    assert "unitIds: asked" in condition(told, "Stalled")["message"]
    assert [row["id"] for row in await _listed(workspace, node_id)] == [first]
    await workspace.apply(_asked(workspace, node_id, 0, 1, updateStrategy={"type": "Recreate"}))

    def is_another(item: Manifest | None) -> bool:
        return in_state("active")(item) and (item or {})["status"]["id"] != first

    another = await workspace.becomes(KIND, "acme", is_another)
    (row,) = await _listed(workspace, node_id)
    assert (row["id"], row["unitIds"]) == (another["status"]["id"], _units(node_id, 0, 1))


async def test_one_that_exists_is_adopted_only_if_people_say_so(brisk_workspace: Workspace) -> None:
    workspace, node_id = brisk_workspace, await _node(brisk_workspace)
    by_hand = await _by_hand(workspace, node_id, 0, 1)
    await workspace.apply(_asked(workspace, node_id, 1, name="other"))
    told = await workspace.becomes(KIND, "other", tells("Conflict"))
    assert f"is reserved by {by_hand}" in condition(told, "Ready")["message"]
    await workspace.kube.annotate(KIND, "other", {"gpurelay.dev/adopt-id": by_hand})
    told = await workspace.becomes(KIND, "other", stalls("AdoptionRefused"))
    assert "so correct the spec: unitIds: asked" in condition(told, "Stalled")["message"]
    await workspace.apply(_asked(workspace, node_id))
    told = await workspace.becomes(KIND, "acme", stalls("AlreadyExists"))
    await workspace.obey(condition(told, "Stalled")["message"])
    assert (await workspace.becomes(KIND, "acme", in_state("active")))["status"]["id"] == by_hand
    told = await workspace.becomes(KIND, "other", lambda item: "belongs to" in condition(item, "Stalled")["message"])
    assert condition(told, "Stalled")["message"].endswith("/acme")
    for name in ("other", "acme"):
        await workspace.kube.delete(KIND, name)
        await workspace.is_gone(KIND, name)
    assert await _listed(workspace, node_id) == []


async def test_units_in_use_are_waited_for(brisk_workspace: Workspace) -> None:
    workspace, node_id = brisk_workspace, await _node(brisk_workspace)
    before = await _vm(workspace, node_id)
    await workspace.apply(_asked(workspace, node_id))
    told = await workspace.becomes(KIND, "acme", tells("Conflict"))
    assert "is in use" in condition(told, "Ready")["message"]
    await workspace.organization.call("POST", f"/v1/vms/{before}/terminate")
    await workspace.becomes(KIND, "acme", in_state("active"))
    tenant = await _vm(workspace, node_id)
    await workspace.apply(_asked(workspace, node_id, lendToSpot=True))
    await workspace.becomes(KIND, "acme", tells("Conflict"))
    await workspace.kube.delete(KIND, "acme")
    await eventually(lambda: count(workspace, DELETE), lambda deletes: deletes >= 2)
    told = await workspace.becomes(KIND, "acme", tells("Conflict"))
    assert "stop or terminate what runs on them first" in condition(told, "Ready")["message"]
    assert await count(workspace, TERMINATE_VM) == 1
    await workspace.organization.call("POST", f"/v1/vms/{tenant}/terminate")
    await workspace.is_gone(KIND, "acme")
    assert await _listed(workspace, node_id) == []


async def test_a_lost_answer_leads_to_one_reservation_which_is_the_objects(brisk_workspace: Workspace) -> None:
    workspace, node_id = brisk_workspace, await _node(brisk_workspace)
    own = workspace.organization.id
    await workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=own)
    await workspace.apply(_asked(workspace, node_id))
    status = (await workspace.becomes(KIND, "acme", in_state("active")))["status"]
    assert [row["id"] for row in await _listed(workspace, node_id)] == [status["id"]]
    assert await count(workspace, CREATE) == 1


async def test_one_that_was_never_made_is_made_once_a_person_says_so(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    await start_operator(workspace, **BRISK, search_seconds="1", absence_after_unknown_seconds="1")
    node_id, own = await _node(workspace), workspace.organization.id
    await workspace.cloud.control.fault(CREATE, {"drop": "before"}, count=1, organizationId=own)
    await workspace.apply(_asked(workspace, node_id))
    told = await workspace.becomes(KIND, "acme", stalls("CreateOutcomeUnknown"))
    assert "look in the cloud for what equals the spec" in condition(told, "Stalled")["message"]
    before = await count(workspace, LIST)
    await eventually(lambda: count(workspace, LIST), lambda lists: lists >= before + 3)
    assert await count(workspace, CREATE) == 1
    await workspace.obey(condition(told, "Stalled")["message"])
    status = (await workspace.becomes(KIND, "acme", in_state("active")))["status"]
    assert [row["id"] for row in await _listed(workspace, node_id)] == [status["id"]]
    assert await count(workspace, CREATE) == 2


async def test_of_two_of_which_either_may_be_it_a_person_says_which(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    await start_operator(workspace, **BRISK, search_seconds="1")
    node_id, own = await _node(workspace), workspace.organization.id
    await workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=own)
    row: Json = {"nodeId": node_id, "unitIds": _units(node_id, 0, 1), "allowedOrgIds": [own]}
    twins = [row | {"id": cloud_id, "status": "active", "createdAt": "2999-01-01T00:00:00Z"} for cloud_id in "ab"]
    looks = {"skip": 1, "organizationId": own}  # before the create
    fault = await workspace.cloud.control.fault(LIST, {"status": 200, "body": {"items": twins}}, **looks)
    await workspace.apply(_asked(workspace, node_id))
    await workspace.becomes(KIND, "acme", stalls("CreateOutcomeUnknown"))
    await workspace.cloud.control.end_fault(fault)
    (made,) = await _listed(workspace, node_id)
    status = (await workspace.becomes(KIND, "acme", in_state("active")))["status"]
    assert (status["id"], await count(workspace, CREATE)) == (made["id"], 1)


async def test_one_that_is_kept_is_told_by_its_account(brisk_workspace: Workspace) -> None:
    workspace, node_id = brisk_workspace, await _node(brisk_workspace)
    await workspace.apply(_asked(workspace, node_id, deletionPolicy="Orphan"))
    status = (await workspace.becomes(KIND, "acme", in_state("active")))["status"]
    await workspace.kube.delete(KIND, "acme")
    await workspace.is_gone(KIND, "acme")
    assert [row["id"] for row in await _listed(workspace, node_id)] == [status["id"]]

    def told(item: Manifest | None) -> bool:
        return status["id"] in [each["id"] for each in (item or {})["status"].get("kept", [])]

    await workspace.becomes("CloudAccount", "default", told)
    await workspace.organization.call("DELETE", _path(workspace, node_id, status["id"]))
    await workspace.becomes("CloudAccount", "default", lambda item: not told(item))


@pytest.mark.parametrize("status", [404, 405])
async def test_a_cloud_without_the_list_makes_none_and_without_the_end_keeps_it(
    brisk_workspace: Workspace, status: int
) -> None:
    workspace, control = brisk_workspace, brisk_workspace.cloud.control
    unserved = {"status": status, "body": {"error": "no such route", "code": "not_found"}}
    node_id, own = await _node(workspace), workspace.organization.id
    no_list = await control.fault(LIST, unserved, organizationId=own)
    await workspace.apply(_asked(workspace, node_id))
    told = await workspace.becomes(KIND, "acme", stalls("NotServed"))
    assert "the cloud has no list" in condition(told, "Stalled")["message"]
    assert await count(workspace, CREATE) == 0
    await control.end_fault(no_list)
    cloud_id = (await workspace.becomes(KIND, "acme", in_state("active")))["status"]["id"]
    no_end = await control.fault(DELETE, unserved, organizationId=own)
    await workspace.kube.delete(KIND, "acme")

    def by_hand(item: Manifest | None) -> bool:
        return f"no call that deletes {cloud_id}" in condition(item, "Stalled").get("message", "")

    await workspace.becomes(KIND, "acme", by_hand)
    await control.end_fault(no_end)
    await workspace.organization.call("DELETE", _path(workspace, node_id, cloud_id))
    await workspace.is_gone(KIND, "acme")


async def test_a_kind_that_is_switched_off_asks_nothing_and_says_where_the_switch_is(workspace: Workspace) -> None:
    await workspace.apply(_asked(workspace, "node_1"))
    told = await workspace.becomes(KIND, "acme", stalls("KindDisabled"))
    assert "add NodeReservation to RELAY_ASSUMED_KINDS" in condition(told, "Stalled")["message"]
    assert await count(workspace, CREATE, LIST) == 0
    await workspace.kube.delete(KIND, "acme")
    await workspace.is_gone(KIND, "acme")


GIVEN = relay_object(KIND, "acme", nodeRef={"name": "rack1"}, unitIds=["node_1/0"], allowedOrganizationIds=["org_1"])
MORE_THAN_ENOUGH = [f"gpu{number}" for number in range(257)]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"nodeRef": None}, "spec.nodeRef"),
        ({"unitIds": None}, "spec.unitIds"),
        ({"unitIds": []}, "should have at least 1 items"),
        ({"unitIds": MORE_THAN_ENOUGH}, "must have at most 256 items"),
        ({"unitIds": ["a", "a"]}, "duplicate entries"),
        ({"unitIds": ["x" * 201]}, "may not be more than 200"),
        ({"unitIds": ["a b"]}, "should match"),
        ({"allowedOrganizationIds": None}, "spec.allowedOrganizationIds"),
        ({"allowedOrganizationIds": MORE_THAN_ENOUGH}, "must have at most 256 items"),
        ({"managingOrganizationIds": MORE_THAN_ENOUGH}, "must have at most 256 items"),
        ({"contractRef": ""}, "should be at least 1 chars"),
        ({"contractRef": "x" * 1001}, "may not be more than 1000"),
        ({"reason": "a\nb"}, "should match"),
        ({"startsAt": "tomorrow"}, "must be of type date-time"),
        (
            {"startsAt": "2027-01-01T00:00:00Z", "endsAt": "2027-01-01T00:00:00Z"},
            "endsAt has to be later than startsAt",
        ),
        ({"deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(GIVEN | {"spec": GIVEN["spec"] | spec}, dry_run=True)
    assert says in worded(refused.value.message)


@pytest.mark.parametrize(
    "spec",
    [
        {"unitIds": MORE_THAN_ENOUGH[:256], "allowedOrganizationIds": MORE_THAN_ENOUGH[:256]},
        {"unitIds": ["x" * 200], "allowedOrganizationIds": [], "managingOrganizationIds": MORE_THAN_ENOUGH[:255]},
        {"contractRef": "x" * 1000, "reason": "x" * 999},
        {"startsAt": "2027-01-01T00:00:00Z", "endsAt": "2027-01-01T00:00:01Z"},
    ],
    ids=["most", "longest ids", "longest notes", "a second"],
)
async def test_what_is_within_the_bounds_is_taken(kube: Kube, spec: dict[str, object]) -> None:
    taken = await kube.apply(GIVEN | {"spec": GIVEN["spec"] | spec}, dry_run=True)
    assert taken["spec"].items() >= spec.items()


async def test_an_object_stays_with_its_node(workspace: Workspace) -> None:
    await workspace.apply(_asked(workspace, "node_1"))
    with pytest.raises(KubeError) as refused:
        await workspace.kube.patch(KIND, "acme", {"spec": {"nodeRef": {"name": "rack2"}}})
    assert "nodeRef cannot be changed" in refused.value.message
