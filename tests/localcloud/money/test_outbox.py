"""What the cloud writes to people: `GET /_localcloud/outbox`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.people import invite
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


async def test_the_newest_thousand_e_mails_of_each_organization_are_kept(organization: Organization) -> None:
    server = organization.server
    other = await server.organization()
    await invite(other, "first@other.example")
    await invite(organization, "first@example.test")
    state = await server.ok("GET", "/export")
    letters = state["tables"]["outbox"]
    first = letters[-1]
    letters += [{**first, "sequence": first["sequence"] + n, "recipient": f"{n}@example.test"} for n in range(1, 998)]
    await server.ok("POST", "/import", state)
    for count, oldest in ((999, "first@example.test"), (1_000, "first@example.test"), (1_000, "1@example.test")):
        await invite(organization, "newest@example.test")
        kept = (await server.ok("GET", f"/outbox?organizationId={organization.id}"))["items"]
        assert (len(kept), kept[0]["to"], kept[-1]["to"]) == (count, oldest, "newest@example.test")
    assert len((await server.ok("GET", f"/outbox?organizationId={other.id}"))["items"]) == 1
