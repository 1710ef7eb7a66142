"""What each role may do over every kind of endpoint, and what a key needs (settled details, "Who may do what")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.localcloud.support.deployments import DEPLOYMENTS, wanted
from tests.localcloud.support.deployments import create as create_deployment
from tests.localcloud.support.people import Person, session_of
from tests.localcloud.support.server import UNSENT, request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization
Call = tuple[str, str, object]

READS: list[Call] = [
    ("GET", "/v1/whoami", None),
    ("GET", "/v1/gpu-models", None),
    ("GET", "/v1/gpu-availability", None),
    ("GET", "/v1/pricing", None),
    ("GET", "/v1/locations", None),
    ("GET", "/v1/vm-templates", None),
    ("GET", "/v1/pods/capacity", None),
    ("GET", "/v1/orgs/{org}", None),
    ("GET", "/v1/orgs/{org}/members", None),
    ("GET", "/v1/orgs/{org}/ai/proxy", None),
    ("GET", "/v1/orgs/{org}/ai/proxy-usage", None),
    ("GET", "/v1/orgs/{org}/webhooks", None),
    ("GET", "/v1/orgs/{org}/ssh-keys", None),
    ("GET", "/v1/orgs/{org}/registry-credentials", None),
    ("GET", "/v1/orgs/{org}/runner-pools", None),
    ("GET", "/v1/orgs/{org}/runner-pools/rnp_x", None),
    ("GET", "/v1/orgs/{org}/clusters", None),
    ("GET", "/v1/orgs/{org}/billing/balance", None),
    ("GET", "/v1/orgs/{org}/billing/usage", None),
    ("GET", "/v1/orgs/{org}/billing/auto-recharge", None),
    ("GET", "/v1/orgs/{org}/provider/status", None),
    ("GET", "/v1/orgs/{org}/provider/stats", None),
    ("GET", "/v1/orgs/{org}/provider/earnings", None),
    ("GET", "/v1/orgs/{org}/provider/nodes", None),
    ("GET", "/v1/orgs/{org}/provider/tokens", None),
    ("GET", "/v1/orgs/{org}/provider/nodes/node_x/reservations", None),
    ("GET", "/v1/orgs/{org}/provider/nodes/node_x/reservations/rsv_x", None),
    ("GET", "/v1/vms/{pod}", None),
    ("GET", "/v1/vms/{pod}/snapshots", None),
    ("GET", "/v1/vms/{pod}/snapshots/snap_x", None),
    ("GET", "/v1/clusters/{cluster}", None),
    ("GET", "/v1/clusters/{cluster}/detail", None),
    ("GET", "/v1/serving/deployments", None),
    ("GET", "/v1/serving/deployments/{deployment}", None),
]
WORK: list[Call] = [
    ("POST", "/v1/pods", {"image": ""}),
    ("POST", "/v1/orgs/{org}/vms/create", {}),
    ("POST", "/v1/orgs/{org}/clusters/create", {}),
    ("POST", "/v1/orgs/{org}/webhooks/create", {}),
    ("POST", "/v1/orgs/{org}/webhooks/wh_x/toggle", None),
    ("POST", "/v1/orgs/{org}/webhooks/wh_x/regenerate-secret", None),
    ("DELETE", "/v1/orgs/{org}/webhooks/wh_x", None),
    ("POST", "/v1/orgs/{org}/ssh-keys/create", {}),
    ("DELETE", "/v1/orgs/{org}/ssh-keys/ssh_x", None),
    ("POST", "/v1/orgs/{org}/registry-credentials/create", {}),
    ("DELETE", "/v1/orgs/{org}/registry-credentials/rcr_x", None),
    ("POST", "/v1/orgs/{org}/runner-pools", {}),
    ("DELETE", "/v1/orgs/{org}/runner-pools/rnp_x", None),
    ("POST", "/v1/vms/{pod}/snapshots/create", {"name": "s"}),
    ("DELETE", "/v1/vms/{pod}/snapshots/snap_x", None),
    ("POST", "/v1/transfers/{transfer}/accept", {"sshKeyIds": ["ssh_x"]}),
    ("POST", "/v1/vms/{pod}/visibility", {"public": False}),
    ("POST", "/v1/vms/{pod}/ssh-keys/attach", {"sshKeyId": "ssh_x"}),
    ("POST", "/v1/vms/{pod}/stop", None),
    ("POST", "/v1/vms/{pod}/restart", None),
    ("POST", "/v1/vms/{pod}/terminate", None),
    ("POST", "/v1/clusters/{cluster}/scale", {"replicaCount": 1}),
    ("POST", "/v1/clusters/{cluster}/restart", None),
    ("POST", "/v1/clusters/{cluster}/stop", None),
    ("POST", "/v1/clusters/{cluster}/terminate", None),
]
ADMINISTRATION: list[Call] = [
    ("PATCH", "/v1/orgs/{org}", {}),
    ("POST", "/v1/orgs/{org}/members/add", {}),
    ("PATCH", "/v1/orgs/{org}/members/usr_x", {}),
    ("DELETE", "/v1/orgs/{org}/members/usr_x", None),
    ("GET", "/v1/orgs/{org}/api-keys", None),
    ("POST", "/v1/orgs/{org}/api-keys/create", {}),
    ("DELETE", "/v1/orgs/{org}/api-keys/key_x", None),
    ("PUT", "/v1/orgs/{org}/billing/auto-recharge", {}),
    ("POST", "/v1/orgs/{org}/provider/apply", {}),
    ("PATCH", "/v1/orgs/{org}/provider/nodes/node_x", {}),
    ("POST", "/v1/orgs/{org}/provider/tokens", {"maxNodes": -1}),
    ("DELETE", "/v1/orgs/{org}/provider/tokens/ptok_x", None),
    ("POST", "/v1/orgs/{org}/provider/nodes/node_x/reservations", {}),
    ("DELETE", "/v1/orgs/{org}/provider/nodes/node_x/reservations/rsv_x", None),
    ("POST", "/v1/orgs/{org}/provider/nodes/node_x/reservations/rsv_x/release", None),
    ("POST", "/v1/orgs/{org}/provider/nodes/node_x/reservations/rsv_x/reclaim", None),
    ("POST", "/v1/inference/models/m/backends", {}),
    ("GET", "/v1/inference/models/echo/backends", None),
    ("PATCH", "/v1/inference/models/m/backends/bke_x", {}),
    ("DELETE", "/v1/inference/models/m/backends/bke_x", None),
    ("POST", "/v1/serving/deployments", {}),
    ("PATCH", "/v1/serving/deployments/{deployment}", {}),
    ("DELETE", "/v1/serving/deployments/{deployment}", None),
]
PERSONAL: list[Call] = [
    ("GET", "/v1/me", None),
    ("PATCH", "/v1/me/profile", {}),
    ("POST", "/v1/onboarding/bootstrap", {}),
    ("POST", "/v1/orgs", {"name": "Own"}),
]
MAY = {
    "viewer": READS + PERSONAL,
    "member": READS + PERSONAL + WORK,
    "admin": READS + PERSONAL + WORK + ADMINISTRATION,
    "owner": READS + PERSONAL + WORK + ADMINISTRATION,
}
EVERYTHING = READS + WORK + ADMINISTRATION + PERSONAL  # last: whoever founds an organization administers one


@pytest_asyncio.fixture
async def ids(organization: Organization) -> dict[str, str]:
    """A running pod, a cluster and a deployment of the organization, which is a provider and was offered a transfer."""
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"provider": True})
    pod = await organization.ok("POST", "/v1/pods", {"image": "a", "gpuModelId": "rtx4090"})
    cluster = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "c", "gpuModelId": "l40s"})
    await organization.server.advance(10)
    giver = await organization.server.organization()
    given = await giver.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "given"})
    offer = {"workloadId": given["id"], "toOrganizationId": organization.id}
    transfer = await organization.server.ok("POST", "/transfers", offer)
    deployment = await create_deployment(organization, replicasDesired=0, acknowledgeLaneJoin=True)
    known = {"org": organization.id, "pod": pod["id"], "cluster": cluster["id"], "transfer": transfer["id"]}
    return {**known, "deployment": deployment["id"]}


async def refused(person: Person, ids: dict[str, str]) -> list[tuple[str, str]]:
    """What of everything the person may not do."""
    not_allowed = []
    for method, path, body in EVERYTHING:
        answer = await person.call(method, path.format(**ids), body)
        assert answer.status < 500, (method, path)
        if answer.status == 403:
            assert answer.refusal == (403, "forbidden")
            not_allowed.append((method, path))
    return not_allowed


@pytest.mark.parametrize("role", ["viewer", "member", "admin", "owner"])
async def test_a_role_may_do_exactly_what_is_its_own(
    organization: Organization, ids: dict[str, str], role: str
) -> None:
    person = await session_of(organization, role)
    forbidden = [(method, path) for method, path, body in EVERYTHING if (method, path, body) not in MAY[role]]
    assert await refused(person, ids) == forbidden
    terminated = role != "viewer"
    assert ((await organization.ok("GET", f"/v1/vms/{ids['pod']}"))["status"] == "terminated") is terminated


async def test_who_is_of_another_organization_may_do_nothing_here(
    organization: Organization, ids: dict[str, str]
) -> None:
    other = await session_of(await organization.server.organization(), "owner")
    for method, path, body in READS + WORK + ADMINISTRATION:
        answer = await other.call(method, path.format(**ids), body)
        if "{org}" in path:
            assert answer.refusal == (403, "forbidden"), path
        elif "{" in path:
            assert answer.refusal == (404, "not_found"), path
    assert (await organization.ok("GET", f"/v1/vms/{ids['pod']}"))["status"] == "running"


async def test_a_role_counts_in_its_own_organization_alone(organization: Organization, ids: dict[str, str]) -> None:
    person = await session_of(organization, "viewer")
    own = await person.ok("POST", "/v1/orgs", {"name": "Own"})
    await person.ok("PATCH", "/v1/me/profile", {"defaultOrganizationId": own["id"]})
    await organization.server.ok("PATCH", f"/orgs/{own['id']}", {"balanceCents": 100_000})
    pod = await person.ok("POST", "/v1/pods", {"image": "a", "gpuModelId": "rtx4090"})
    assert pod["organizationId"] == own["id"]
    assert (await person.call("POST", f"/v1/vms/{pod['id']}/terminate")).status == 200
    assert (await person.call("POST", f"/v1/vms/{ids['pod']}/terminate")).refusal == (403, "forbidden")
    assert (await person.call("GET", f"/v1/vms/{ids['pod']}")).status == 200
    assert (await person.call("PATCH", f"/v1/orgs/{own['id']}", {"name": "Mine"})).status == 200
    assert (await person.call("PATCH", f"/v1/orgs/{organization.id}", {"name": "Mine"})).refusal == (403, "forbidden")


async def admin_who_views_at_home(organization: Organization) -> tuple[Person, Organization]:
    """An admin of the organization, and their default organization, in which they are a viewer."""
    person = await session_of(organization, "admin")
    home = await organization.server.organization()
    await (await session_of(home)).ok(
        "POST", f"/v1/orgs/{home.id}/members/add", {"email": person.email, "role": "viewer"}
    )
    await person.ok("PATCH", "/v1/me/profile", {"defaultOrganizationId": home.id})
    return person, home


async def test_an_admin_changes_a_deployment_whatever_the_role_at_home(organization: Organization) -> None:
    own = await create_deployment(organization, replicasDesired=0)
    person, home = await admin_who_views_at_home(organization)
    path = f"/v1/serving/deployments/{own['id']}"
    assert (await person.ok("PATCH", path, {"backendWeight": 3}))["backendWeight"] == 3
    assert (await person.call("DELETE", path)).status == 204
    others = await create_deployment(home, replicasDesired=0)
    for method, body in (("PATCH", {"backendWeight": 3}), ("DELETE", UNSENT)):
        refused = await person.call(method, f"/v1/serving/deployments/{others['id']}", body)
        assert refused.refusal == (403, "forbidden")


async def test_an_admin_creates_a_deployment_whatever_the_role_at_home(organization: Organization) -> None:
    person, home = await admin_who_views_at_home(organization)
    made = await person.ok("POST", DEPLOYMENTS, wanted(organization, replicasDesired=0))
    assert made["organizationId"] == organization.id
    assert (await person.call("POST", DEPLOYMENTS, wanted(home, replicasDesired=0))).refusal == (403, "forbidden")


@pytest.mark.parametrize(("method", "path", "body"), [call for call in ADMINISTRATION if call[2] is not None])
async def test_the_role_is_looked_at_before_the_body(
    organization: Organization, ids: dict[str, str], method: str, path: str, body: object
) -> None:
    del body
    person = await session_of(organization, "member")
    assert (await person.call(method, path.format(**ids), raw=b"{")).refusal == (403, "forbidden")


@pytest.mark.parametrize(("method", "path", "body"), ADMINISTRATION)
async def test_administration_takes_a_key_with_org_write(
    organization: Organization, method: str, path: str, body: object
) -> None:
    scopes = ["clusters:read", "clusters:write", "vms:read", "vms:write", "inference", "billing:read"]
    create = "/v1/orgs/{org}/api-keys/create"
    without = (await organization.ok("POST", create, {"name": "most", "scopes": scopes}))["key"]
    assert (await organization.call(method, path, body, key=without)).refusal == (403, "forbidden")
    alone = (await organization.ok("POST", create, {"name": "admin", "scopes": ["org:write"]}))["key"]
    assert (await organization.call(method, path, body, key=alone)).status in {200, 400, 404}


async def test_a_user_session_opens_nothing_of_the_inference_api(organization: Organization) -> None:
    url = organization.server.ready["inferenceUrl"] + "/v1/models"
    answer = await request("GET", url, key=organization.user_session_token)
    assert (answer.status, answer.body["error"]["code"]) == (401, "invalid_api_key")
