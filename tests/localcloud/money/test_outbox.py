"""What the cloud writes to people: `GET /_localcloud/outbox`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.workloads import DAY, own_node, record, running_pod, set_organization

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization


async def test_the_outbox_can_be_asked_for_one_organization(organization: Organization) -> None:
    server = organization.server
    other = await server.organization()
    pods = {}
    for each in (organization, other):
        await own_node(each)
        pods[each.id] = await running_pod(each, name="trainer")
    for each in (organization, other):
        await set_organization(each, balanceCents=-1)
    await server.advance(7 * DAY - 2)
    assert (await server.ok("GET", f"/outbox?organizationId={organization.id}"))["items"] == []
    a_week_later = await server.advance(2)
    [email] = (await server.ok("GET", f"/outbox?organizationId={organization.id}"))["items"]
    assert email["to"].endswith("@example.test")
    assert email == {
        "at": a_week_later,
        "organizationId": organization.id,
        "to": email["to"],
        "subject": "trainer is being deleted",
        "body": f"The pod trainer ({pods[organization.id]}) is being deleted with its volume. "
        "The balance ran out, and no funds were added within 7 days.",
    }
    assert (await record(organization, pods[organization.id]))["status"] == "terminated"
    everybody = {item["organizationId"] for item in (await server.ok("GET", "/outbox"))["items"]}
    assert everybody >= {organization.id, other.id}
    assert (await server.ok("GET", "/outbox?organizationId=org_nothing"))["items"] == []
