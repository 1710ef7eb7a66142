"""The console's forms: a pod, a node, a deposit, something that goes wrong; nonsense, and two who press the same."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from playwright.async_api import expect

from tests.localcloud.console.test_changes import refusal
from tests.localcloud.console.test_pages import QUOTES, page, text_of
from tests.localcloud.support import clusters, deployments
from tests.localcloud.support.server import Answer, request
from tests.localcloud.support.workloads import new_pod, running_pod, status

if TYPE_CHECKING:
    from tests.localcloud.support.browsing import Console
    from tests.localcloud.support.server import Organization, Server

POD = {"image": "app:1", "name": "trainer", "gpuModelId": "h100", "gpuCount": "2", "httpPort": "8000"}
NODE = {"gpuModelId": "h100", "gpuCount": "8", "location": "sjc1"}


async def send(server: Server, path: str, back: str, **form: object) -> Answer:
    """Send a form as the page that it is on does."""
    sent = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
    fields = urlencode({"back": back, **form}).encode()
    return await request("POST", f"{server.url}/console/{path}", raw=fields, headers=sent)


async def create(organization: Organization, **form: object) -> Answer:
    return await send(organization.server, f"orgs/{organization.id}/pods", "/console/workloads", **{**POD, **form})


async def deposit(organization: Organization, cents: object, key: str = "console-0") -> Answer:
    path = f"orgs/{organization.id}/deposits"
    return await send(organization.server, path, "/console/money", amountCents=cents, key=key)


def wrong(answer: Answer) -> tuple[int, str, str]:
    """Status, the field that is wrong, and what stands beside it."""
    shown = answer.raw.decode()
    field = re.search(r'data-field="([^"]*)"', shown)
    beside = re.findall(r'class="wrong" data-about="([^"]+)">([^<]+)<', shown)
    assert field is not None, shown
    ((about, message),) = beside
    assert about == field[1]
    return answer.status, about, html.unescape(message)


async def test_a_pod_is_created_as_the_form_says(fresh: Server) -> None:
    answer = await create(fresh.seeded(), public="yes")
    assert (answer.status, answer.headers["location"]) == (303, "/console/workloads?done=created")
    await fresh.advance(5)
    shown = text_of(await page(fresh, "/console/workloads"))
    assert "trainer" in shown
    assert "1 workload: 1 running." in shown
    assert "2 x h100" in shown
    assert "public" in shown


async def test_of_a_pod_only_the_image_must_be_given(fresh: Server) -> None:
    answer = await create(fresh.seeded(), name=" ", gpuModelId="", gpuCount="1", httpPort="80")
    assert answer.status == 303
    assert "1 workload: 1 deploying." in text_of(await page(fresh, "/console/workloads"))


@pytest.mark.parametrize(
    ("field", "value", "status", "said"),
    [
        ("image", "", 400, "Field required"),
        ("image", "  ", 400, "Field required"),
        ("image", "two words", 400, "image"),
        ("image", "a\0b", 400, "U+0000"),
        ("name", "x" * 10_000, 400, "name"),
        ("gpuModelId", QUOTES, 422, "there is no"),
        ("gpuCount", "", 400, "give a number"),
        ("gpuCount", "many", 400, "give a number"),
        ("gpuCount", "1.5", 400, "give a whole number"),
        ("gpuCount", "nan", 400, "give a finite number"),
        ("gpuCount", "9", 400, "less than or equal to 8"),
        ("gpuCount", "-1", 400, "greater than or equal to 1"),
        ("gpuCount", "1e30", 400, "less than or equal to 8"),
        ("httpPort", "0", 400, "greater than or equal to 1"),
    ],
)
async def test_what_is_wrong_with_a_pod_stands_beside_its_field_and_the_rest_is_kept(
    server: Server, field: str, value: str, status: int, said: str
) -> None:
    answer = await create(server.seeded(), **{field: value})
    code, about, message = wrong(answer)
    assert (code, about) == (status, field)
    assert said in message
    shown = answer.raw.decode()
    assert '<details id="create" class="making" open>' in shown
    assert field == "name" or 'value="trainer"' in shown
    assert "<img" not in shown
    assert "No workloads." in text_of(await page(server, "/console/workloads"))


async def test_two_people_create_the_same_pod(fresh: Server) -> None:
    assert (await create(fresh.seeded())).status == 303
    again = refusal(await create(fresh.seeded()))
    assert again == (409, "There is a live pod 'trainer' already; names are free again after termination.")
    assert "1 workload: " in text_of(await page(fresh, "/console/workloads"))


async def test_a_form_of_an_organization_that_is_not_there_is_refused(server: Server) -> None:
    for path, back in (("orgs/org_nobody/pods", "/console/workloads"), ("orgs/org_nobody/deposits", "/console/money")):
        answer = await send(server, path, back, **POD, amountCents="1000")
        assert refusal(answer) == (404, "There is no organization 'org_nobody'.")


async def test_a_deposit_is_charged_once_however_many_press(fresh: Server) -> None:
    owner = fresh.seeded()
    before = (await owner.ok("GET", "/v1/orgs/{org}/billing/balance"))["balanceCents"]
    shown = (await page(fresh, "/console/money")).raw.decode()
    (key,) = re.findall(r'name="key" value="([^"]+)"', shown)
    for _ in range(2):
        answer = await deposit(owner, "5000", key)
        assert answer.headers["location"] == "/console/money?done=deposit-processing"
    assert refusal(await deposit(owner, "6000", key)) == (
        409,
        "Somebody has just made another deposit: look at the balance, then try again.",
    )
    await fresh.advance(2)
    assert (await owner.ok("GET", "/v1/orgs/{org}/billing/balance"))["balanceCents"] == before + 5000
    assert "done=deposit-succeeded" in (await deposit(owner, "5000", key)).headers["location"]
    assert f'name="key" value="{key}"' not in (await page(fresh, "/console/money")).raw.decode()


async def test_a_deposit_that_cannot_be_made_is_told_why(fresh: Server) -> None:
    owner = fresh.seeded()
    for amount in ("", "x", "999", "50001", "1e30", "-5000", "1000.5"):
        code, field, _ = wrong(await deposit(owner, amount))
        assert (code, field) == (400, "amountCents"), amount
    await fresh.ok("POST", "/payments", {"mode": "decline"})
    assert "done=deposit-failed" in (await deposit(owner, "1000")).headers["location"]
    assert "The card was declined" in text_of(await page(fresh, "/console/money?done=deposit-failed"))


async def test_a_node_is_added_and_removed_with_what_is_on_it(fresh: Server) -> None:
    answer = await send(fresh, "nodes", "/console/nodes", **{**NODE, "gpuCount": "16"})
    assert (answer.status, answer.headers["location"]) == (303, "/console/nodes?done=node-added")
    node = (await fresh.ok("GET", "/nodes"))["items"][-1]
    assert (node["gpuModelId"], node["location"], len(node["units"])) == ("h100", "sjc1", 16)
    pod = await running_pod(fresh.seeded(), gpuModelId="h100")
    (holder,) = [
        each["id"]
        for each in (await fresh.ok("GET", "/nodes"))["items"]
        if any(unit["workloadId"] == pod for unit in each["units"])
    ]
    assert (await send(fresh, f"nodes/{holder}/removal", "/console/nodes")).status == 303
    assert await status(fresh.seeded(), pod) == "terminated"
    assert holder not in text_of(await page(fresh, "/console/nodes"))
    assert refusal(await send(fresh, f"nodes/{holder}/removal", "/console/nodes")) == (
        409,
        f"The node {holder!r} was removed.",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("gpuModelId", "x"), ("gpuModelId", ""), ("gpuCount", "0"), ("gpuCount", "x"), ("location", "")],
)
async def test_what_is_wrong_with_a_node_stands_beside_its_field(server: Server, field: str, value: str) -> None:
    before = await server.ok("GET", "/nodes")
    code, about, _ = wrong(await send(server, "nodes", "/console/nodes", **{**NODE, field: value}))
    assert (code, about) == (400, field)
    assert await server.ok("GET", "/nodes") == before


async def test_a_workload_is_made_to_fail_and_offers_what_can_happen_to_it(fresh: Server) -> None:
    owner = fresh.seeded()
    pod, cluster = await running_pod(owner), await clusters.running(owner)
    deployment = await deployments.running(owner)

    async def events(workload: str) -> set[str]:
        shown = (await page(fresh, f"/console/workload?id={workload}")).raw.decode()
        return set(re.findall(r'name="event" value="([a-z]+)"', shown))

    async def happen(workload: str, event: str) -> Answer:
        return await send(fresh, f"workloads/{workload}/events", f"/console/workload?id={workload}", event=event)

    assert await events(pod) == {"fail", "exit"}
    assert await events(cluster) == {"fail", "unhealthy", "healthy"}
    assert await events(deployment) == {"unhealthy", "healthy"}
    assert (await happen(pod, "exit")).status == 303
    assert (await happen(pod, "fail")).status == 303
    assert await status(owner, pod) == "failed"
    assert await events(pod) == set()
    assert refusal(await happen(pod, "fail")) == (409, "A workload that is failed cannot fail.")
    assert (await happen(deployment, "unhealthy")).status == 303
    assert "unhealthy" in text_of(await page(fresh, f"/console/workload?id={deployment}"))
    assert (await happen(deployment, "fail")).status == 409
    assert (await happen(pod, "nonsense")).status == 400
    assert (await happen("pod_gone", "fail")).status == 404


@pytest.mark.asyncio(loop_scope="session")
async def test_a_person_creates_a_pod_lets_it_fail_and_adds_a_node_and_money(console: Console, fresh: Server) -> None:
    web = console.page
    await console.open("/console/workloads")
    await web.get_by_text("Create a pod in").click()
    await web.get_by_label("Image").fill("two words")
    await web.get_by_label("Name", exact=True).fill("trainer")
    await console.press("Create the pod")
    beside = web.locator("#image-wrong")
    await expect(beside).to_contain_text("image")
    assert await web.evaluate("document.activeElement.id") == "image"
    other = await new_pod(fresh.seeded(), name="other")
    await expect(console.row(other["id"])).to_be_visible()
    await expect(beside).to_contain_text("image")
    await expect(web.get_by_label("Name", exact=True)).to_have_value("trainer")
    await console.picture("create-refused")
    console.troubles.clear()  # the browser notes the 400
    await web.get_by_label("Image").fill("app:1")
    await console.press("Create the pod")
    await console.has_said("The pod is created")
    await expect(beside).to_be_hidden()
    await web.get_by_role("link", name="trainer").click()
    await console.press("+1 min")
    facts = web.locator(".facts")
    await expect(facts).to_contain_text("running")
    await web.get_by_text("Make something go wrong").click()
    await console.press("Let it fail")
    await expect(facts).to_contain_text("failed")

    await console.go("Nodes")
    await web.get_by_text("Add a node").click()
    await web.get_by_role("spinbutton", name="GPUs").fill("12")
    await console.picture("node-added")
    await console.press("Add the node")
    await console.has_said("The node is there")

    await console.go("Money")
    await web.get_by_text("Deposit", exact=True).click()
    await web.get_by_role("spinbutton", name="Cents").fill("12345")
    await console.press("Charge the card")
    await console.has_said("The card is charged")
    await console.press("+1 min")
    await expect(web.locator("#transactions")).to_contain_text("$123.45")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_page_is_open_while_its_workloads_node_is_removed(console: Console, fresh: Server) -> None:
    pod = await running_pod(fresh.seeded(), name="trainer")
    await console.open(f"/console/workload?id={pod}")
    await console.page.get_by_text("Make something go wrong").click()
    (node,) = [
        each["id"]
        for each in (await fresh.ok("GET", "/nodes"))["items"]
        if any(unit["workloadId"] == pod for unit in each["units"])
    ]
    await console.press("Pause updates")
    await fresh.ok("PATCH", f"/nodes/{node}", {"removed": True})
    await console.press("Let it fail")
    await console.has_said("A workload that is terminated cannot fail.")
    console.troubles.clear()  # the browser notes the 409
    await console.press("Pause updates")
    await expect(console.page.locator(".facts")).to_contain_text("terminated")
    await expect(console.page.get_by_text("Make something go wrong")).to_have_count(0)
