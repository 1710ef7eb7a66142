"""OrganizationMembers: added, given other roles, adopted, removed; who is one already is nobody's to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import count
from tests.support.kube import KubeError
from tests.support.manifests import adopting, condition, ready, relay_object, stalled, stalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Kube, Manifest
    from tests.support.workspace import Workspace

KIND = "OrganizationMember"
ADD, LIST = "POST /v1/orgs/{orgId}/members/add", "GET /v1/orgs/{orgId}/members"
CHANGE, REMOVE = "PATCH /v1/orgs/{orgId}/members/{userId}", "DELETE /v1/orgs/{orgId}/members/{userId}"
REFRESH = {"metadata": {"annotations": {"gpurelay.dev/reconcile-at": "now"}}}


def _member(email: str, role: str = "member", name: str = "ada", **spec: object) -> Manifest:
    return relay_object(KIND, name, email=email, role=role, **spec)


async def _signed_up(workspace: Workspace) -> str:
    """The e-mail of somebody who is no member."""
    email: str = (await workspace.cloud.control.call("POST", "/users", {}))["email"]
    return email


async def _roles(workspace: Workspace) -> dict[str, str]:
    listed = await workspace.organization.call("GET", f"/v1/orgs/{workspace.organization.id}/members")
    return {row["email"]: row["role"] for row in listed["items"]}


async def _by_hand(workspace: Workspace, email: str, role: str) -> str:
    path = f"/v1/orgs/{workspace.organization.id}/members/add"
    user_id: str = (await workspace.organization.call("POST", path, {"email": email, "role": role}))["userId"]
    return user_id


async def _give(workspace: Workspace, user_id: str, role: str) -> None:
    """An owner gives a member a role."""
    own = workspace.organization
    token: str = (await workspace.cloud.control.call("POST", f"/orgs/{own.id}/session", {}))["userSessionToken"]
    await own.with_key(token).call("PATCH", f"/v1/orgs/{own.id}/members/{user_id}", {"role": role})


async def _owner(workspace: Workspace) -> tuple[str, str]:
    """E-mail and id of the organization's only one."""
    listed = await workspace.organization.call("GET", f"/v1/orgs/{workspace.organization.id}/members")
    (owner,) = [row for row in listed["items"] if row["role"] == "owner"]
    return owner["email"], owner["userId"]


def _in_role(role: str) -> Callable[[Manifest | None], bool]:
    return lambda item: ready(item) and (item or {})["status"].get("role") == role


async def test_a_member_is_added_given_other_roles_and_kept_or_removed(brisk_workspace: Workspace) -> None:
    email = await _signed_up(brisk_workspace)
    await brisk_workspace.apply(_member(email.upper()))
    status = (await brisk_workspace.becomes(KIND, "ada", _in_role("member")))["status"]
    assert status["email"] == email
    assert "state" not in status
    for role in ("viewer", "admin"):
        await brisk_workspace.apply(_member(email.upper(), role))
        assert (await brisk_workspace.becomes(KIND, "ada", _in_role(role)))["status"]["id"] == status["id"]
        assert (await _roles(brisk_workspace))[email] == role
    await brisk_workspace.kube.delete(KIND, "ada")
    await brisk_workspace.is_gone(KIND, "ada")
    assert (await _roles(brisk_workspace))[email] == "admin"
    assert await count(brisk_workspace, REMOVE) == 0
    await brisk_workspace.apply(adopting(_member(email, "admin", deletionPolicy="Delete"), status["id"]))
    await brisk_workspace.becomes(KIND, "ada", _in_role("admin"))
    await brisk_workspace.kube.delete(KIND, "ada")
    await brisk_workspace.is_gone(KIND, "ada")
    assert email not in await _roles(brisk_workspace)
    assert (await count(brisk_workspace, ADD), await count(brisk_workspace, CHANGE)) == (1, 2)


async def test_the_cloud_takes_owners_from_an_owners_session_alone(brisk_workspace: Workspace) -> None:
    email = await _signed_up(brisk_workspace)
    await brisk_workspace.apply(_member(email, "owner"))
    told = await brisk_workspace.becomes(KIND, "ada", stalls("AccountForbidden"))
    assert "Only an owner's session" in condition(told, "Stalled")["message"]
    assert (await _roles(brisk_workspace))[email] == "admin"
    await _give(brisk_workspace, told["status"]["id"], "owner")
    await brisk_workspace.kube.patch(KIND, "ada", REFRESH)
    await brisk_workspace.becomes(KIND, "ada", _in_role("owner"))


async def test_who_is_a_member_already_is_adopted_only_if_people_say_so(brisk_workspace: Workspace) -> None:
    email = await _signed_up(brisk_workspace)
    user_id = await _by_hand(brisk_workspace, email, "viewer")
    await brisk_workspace.apply(_member(email))
    told = await brisk_workspace.becomes(KIND, "ada", stalls("AlreadyExists"))
    assert f"gpurelay.dev/adopt-id={user_id}" in condition(told, "Stalled")["message"]
    assert (await count(brisk_workspace, ADD), (await _roles(brisk_workspace))[email]) == (1, "viewer")
    annotation = {"metadata": {"annotations": {"gpurelay.dev/adopt-id": user_id}}}
    await brisk_workspace.kube.patch(KIND, "ada", annotation)
    assert (await brisk_workspace.becomes(KIND, "ada", _in_role("member")))["status"]["id"] == user_id
    await brisk_workspace.apply(_member(email.upper(), name="again"))
    told = await brisk_workspace.becomes(KIND, "again", stalls("AlreadyExists"))
    message = condition(told, "Stalled")["message"]
    assert f"{user_id} belongs to {KIND}" in message
    assert message.endswith("/ada")
    await brisk_workspace.apply(adopting(_member("another@x.example", name="other"), user_id))
    await brisk_workspace.becomes(KIND, "other", stalls("AdoptionRefused"))
    assert (await _roles(brisk_workspace))[email] == "member"


async def test_who_becomes_one_just_before_is_told_as_well(brisk_workspace: Workspace) -> None:
    """The list, as it was read, does not have the person; the cloud answers 409."""
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization
    person = await control.call("POST", "/users", {})
    await control.fault(ADD, {"status": 409, "body": {"error": "no", "code": "conflict"}}, organizationId=own.id)
    await brisk_workspace.apply(_member(person["email"]))

    def refused(item: Manifest | None) -> bool:
        return condition(item, "Ready").get("reason") == "Conflict"

    await brisk_workspace.becomes(KIND, "ada", refused)
    token = (await control.call("POST", f"/orgs/{own.id}/invites", {"email": person["email"], "role": "viewer"}))[
        "token"
    ]
    await own.with_key(person["userSessionToken"]).call("POST", f"/v1/invites/{token}/accept")
    told = await brisk_workspace.becomes(KIND, "ada", stalls("AlreadyExists"))
    assert person["userId"] in condition(told, "Stalled")["message"]


async def test_the_last_owner_is_neither_removed_nor_given_another_role(brisk_workspace: Workspace) -> None:
    email, user_id = await _owner(brisk_workspace)
    await brisk_workspace.apply(adopting(_member(email, "viewer", deletionPolicy="Delete"), user_id))
    told = await brisk_workspace.becomes(KIND, "ada", stalls("LastOwner"))
    assert "make somebody else an owner first" in condition(told, "Stalled")["message"]
    await brisk_workspace.kube.delete(KIND, "ada")

    def kept(item: Manifest | None) -> bool:
        return stalled(item) == "LastOwner" and "deletionTimestamp" in (item or {})["metadata"]

    await brisk_workspace.becomes(KIND, "ada", kept)
    assert (await count(brisk_workspace, CHANGE), await count(brisk_workspace, REMOVE)) == (0, 0)
    heir = await _signed_up(brisk_workspace)
    await _give(brisk_workspace, await _by_hand(brisk_workspace, heir, "admin"), "owner")
    await _give(brisk_workspace, user_id, "viewer")
    await brisk_workspace.kube.patch(KIND, "ada", REFRESH)
    await brisk_workspace.is_gone(KIND, "ada")
    assert await _roles(brisk_workspace) == {heir: "owner"}


async def test_a_lost_answer_leads_to_one_member_who_is_the_objects(brisk_workspace: Workspace) -> None:
    email = await _signed_up(brisk_workspace)
    await brisk_workspace.cloud.control.fault(
        ADD, {"drop": "after"}, count=1, organizationId=brisk_workspace.organization.id
    )
    await brisk_workspace.apply(_member(email))
    await brisk_workspace.becomes(KIND, "ada", _in_role("member"))
    assert (await _roles(brisk_workspace))[email] == "member"
    assert await count(brisk_workspace, ADD) == 1


async def test_who_never_signed_up_is_waited_for(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_member("nobody-yet@x.example"))

    def waits(item: Manifest | None) -> bool:
        about = condition(item, "Ready")
        return about.get("reason") == "Conflict" and "signed up" in about["message"]

    await brisk_workspace.becomes(KIND, "ada", waits)
    await brisk_workspace.cloud.control.call("POST", "/users", {"email": "nobody-yet@x.example"})
    await brisk_workspace.becomes(KIND, "ada", _in_role("member"))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"email": "ada", "role": "member"}, "spec.email"),
        ({"email": "ada@x.example", "role": "king"}, "supported values"),
        ({"email": "ada@x.example"}, "spec.role"),
        ({"email": "ada@x.example", "role": "member", "deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(relay_object(KIND, "ada", **spec), dry_run=True)
    assert says in refused.value.message.replace("Supported", "supported")


async def test_an_object_stays_with_its_person(brisk_workspace: Workspace) -> None:
    email = await _signed_up(brisk_workspace)
    await brisk_workspace.apply(_member(email))
    await brisk_workspace.apply(_member(email.upper()))
    with pytest.raises(KubeError) as refused:
        await brisk_workspace.apply(_member("another@x.example"))
    assert "email cannot be changed" in refused.value.message
